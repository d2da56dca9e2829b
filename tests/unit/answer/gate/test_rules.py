"""Which texts may end a turn: a table of labelled answers, and single rules."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from worker.answer.gate import Candidate, Failure, find_failures

TOOLS = (
    "fetch_to_sandbox",
    "gitlab_get_file",
    "gitlab_get_job_log",
    "gitlab_get_mr_diff",
    "gitlab_list_job_runs",
    "sandbox_exec",
)


def read_answers(name: str) -> list[dict[str, Any]]:
    text = Path(__file__).with_name(f"{name}_answers.yaml").read_text()
    answers: list[dict[str, Any]] = yaml.safe_load(text)
    return answers


BLIND = [each | {"reply": each["kind"] == "reply"} for each in read_answers("blind")]
BAD = [*read_answers("bad"), *(each for each in BLIND if not each["good"])]
GOOD = [*read_answers("good"), *(each for each in BLIND if each["good"])]


def check(row: dict[str, Any]) -> tuple[Failure, ...]:
    asked = not row.get("reply", False)
    return find_failures(Candidate(row["text"], is_finding_asked=asked, tools=TOOLS))


def test_the_table_is_large_and_half_of_it_is_good() -> None:
    assert len(BAD) + len(GOOD) >= 150
    assert 0.4 <= len(GOOD) / len(BAD + GOOD) <= 0.6


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row["text"][:30])
def test_a_good_answer_is_not_stopped(row: dict[str, Any]) -> None:
    assert check(row) == ()


def test_nearly_all_bad_answers_are_stopped() -> None:
    passed = [row["text"] for row in BAD if not check(row)]
    assert len(passed) <= 0.05 * len(BAD), passed


@pytest.mark.parametrize(
    "text",
    [
        "Let me be careful and check the log of job 12 first.",
        "I'll be careful and read the test report next.",
        "Let me point out the failing job by fetching its log.",
        "Let me correct that by reading the file again.",
        "Let me be clear on what failed by fetching the log.",
        "I will stress the runner with another fetch of the log.",
        "I need to see the log of job 12, which I cannot open until it is fetched.",
    ],
)
def test_a_promise_in_the_words_of_somebody_who_tells_is_stopped(text: str) -> None:
    assert find_failures(Candidate(text))


FINDING = next(row["text"] for row in GOOD if "## Verdict" in row["text"])


@pytest.mark.parametrize("section", ["Verdict", "Cause", "Evidence", "What to do"])
def test_what_is_missing_is_named(section: str) -> None:
    head, _, rest = FINDING.partition(f"## {section}\n")
    lacking = head + rest.partition("\n\n")[2]
    (failure,) = find_failures(Candidate(lacking, is_finding_asked=True))
    assert section in failure.request


def test_an_answer_without_a_look_has_to_quote_something() -> None:
    head, _, rest = FINDING.partition("## Evidence\n")
    unquoted = "\n".join([head, "## Evidence", "The log shows it.", "", rest.partition("\n\n")[2]])
    blind = Candidate(unquoted, is_finding_asked=True, has_looked=False)
    (failure,) = find_failures(blind)
    assert "No tool was used" in failure.request
    assert find_failures(Candidate(FINDING, is_finding_asked=True, has_looked=False)) == ()
    assert find_failures(Candidate(unquoted, is_finding_asked=True)) == ()


def test_a_reply_needs_no_sections_and_no_look() -> None:
    assert find_failures(Candidate("Yes.", has_looked=False)) == ()


def test_a_long_text_is_read_in_linear_time() -> None:
    for text in ("I will " * 40_000, "> " * 50_000, "`" * 100_000, "<tool " * 30_000):
        find_failures(Candidate(text, is_finding_asked=True, tools=TOOLS))
