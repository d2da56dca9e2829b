"""A final answer is taken apart without losing anything."""

import pytest

from tests.linear import takes_linear_time
from worker.answer.parse import is_finding, parse_finding
from worker.verdict.finding import Evidence, Finding, JobLog
from worker.verdict.verdict import Verdict

ANSWER = """\
## Verdict
caused by this change

## Failed
`unit-tests`: 1 of 214 tests

## Cause
`VAT` is now 0.07.

## Evidence
- job 4711 line 1843: E   AssertionError: assert 107.0 == 119.0
- job 4711 line 1850: `FAILED tests/test_totals.py::test_vat`

## What to do
Put it back.

## Details
Two lines changed.
"""


def test_an_answer_in_the_agreed_form_is_taken_apart() -> None:
    assert parse_finding(ANSWER) == Finding(
        verdict=Verdict.CHANGE,
        what_failed="`unit-tests`: 1 of 214 tests",
        cause="`VAT` is now 0.07.",
        evidence=(
            Evidence(JobLog(4711), 1843, "E   AssertionError: assert 107.0 == 119.0", last=1843),
            Evidence(JobLog(4711), 1850, "FAILED tests/test_totals.py::test_vat", last=1850),
        ),
        to_do="Put it back.",
        details="Two lines changed.",
    )


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("# Cause", "atx, level one"),
        ("###### cause ##", "atx, level six, closed"),
        ("##Cause", "atx without a blank"),
        ("## **Cause**", "bold in atx"),
        ("## Cause:", "atx with a colon"),
        ("**Cause**", "bold"),
        ("**Cause:**", "bold with a colon"),
        ("__Cause__:", "other bold"),
        ("## Root cause", "another name"),
    ],
)
def test_headings_of_other_shapes_are_recognised(heading: str, name: str) -> None:
    finding = parse_finding(f"{heading}\nthe lock file\n")
    assert finding.cause == "the lock file", name


def test_plain_names_count_as_headings_where_there_are_no_others() -> None:
    finding = parse_finding("Verdict: flaky\nCause: a race\nin the test\n")
    assert (finding.verdict, finding.cause) == (Verdict.FLAKY, "a race\nin the test")
    finding = parse_finding("## Verdict\nflaky\n## Cause\nthe log says\nFailed: 3 tests\n")
    assert (finding.what_failed, finding.cause) == ("", "the log says\nFailed: 3 tests")


def test_headings_inside_code_are_text_unless_the_fence_is_never_closed() -> None:
    closed = parse_finding("## Cause\n```\n## Evidence\n```\nend")
    assert closed.cause == "```\n## Evidence\n```\nend"
    unclosed = parse_finding("## Cause\n```\nx\n## What to do\nfix")
    assert unclosed.to_do == "fix"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("caused by this change", Verdict.CHANGE),
        ("**Caused by this merge request.**", Verdict.CHANGE),
        ("Already failing on the target branch", Verdict.TARGET),
        ("flaky", Verdict.FLAKY),
        ("This is infrastructure, not caused by this change", Verdict.INFRASTRUCTURE),
        ("not flaky: caused by this change", Verdict.CHANGE),
        ("unknown", Verdict.UNKNOWN),
        ("not enough evidence", Verdict.ABSTAIN),
        ("Insufficient information: the log expired", Verdict.ABSTAIN),
        ("Not enough evidence to say that it is flaky", Verdict.ABSTAIN),
        ("I would rather not say", Verdict.UNKNOWN),
        ("", Verdict.UNKNOWN),
    ],
)
def test_the_verdict_is_the_first_one_named(text: str, verdict: Verdict) -> None:
    assert parse_finding(f"## Verdict\n{text}\n## Cause\nx").verdict is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("**Not** caused by this change; flaky", Verdict.FLAKY),
        ("This failure isn't caused by this change. It is flaky.", Verdict.FLAKY),
        ("This failure isn\u2019t _caused by this change_: it is flaky", Verdict.FLAKY),
        ("It does not appear to be\ncaused by this change, but flaky", Verdict.FLAKY),
        ("Not caused by this change and flaky", Verdict.FLAKY),
        ("Unlikely to be caused by this change; infrastructure", Verdict.INFRASTRUCTURE),
        ("cannot be caused by this change: the target is already failing", Verdict.TARGET),
        ("Neither flaky nor infrastructure: caused by this change", Verdict.CHANGE),
        ("not flaky or infrastructure, but caused by this change", Verdict.CHANGE),
        ("* not *flaky*\n* caused by this change", Verdict.CHANGE),
        ("No infra problem: caused by this change", Verdict.CHANGE),
        ("*Caused* by **this change** (not flaky)", Verdict.CHANGE),
        ("There is no doubt that it is caused by this change", Verdict.CHANGE),
        ("It did not fail on the target branch: caused by this change", Verdict.CHANGE),
        ("It does not compile, caused by this change", Verdict.CHANGE),
        ("It is not clear whether it is flaky", Verdict.UNKNOWN),
        ("Not caused by this change.", Verdict.UNKNOWN),
    ],
)
def test_a_verdict_that_is_denied_is_not_the_answers(text: str, verdict: Verdict) -> None:
    assert parse_finding(f"## Verdict\n{text}\n## Cause\nx").verdict is verdict
    named = verdict is not Verdict.UNKNOWN
    assert is_finding(f"## Verdict\n{text}\n## Cause\nx") is named


@pytest.mark.parametrize("part", ["not flaky ", "not a", "*", "\n"])
def test_a_hostile_verdict_is_read_in_linear_time(part: str) -> None:
    assert takes_linear_time(parse_finding, part, 50_000, "## Verdict\n", " flaky\n## Cause\nx")


def test_what_the_verdict_says_besides_is_kept() -> None:
    assert (
        parse_finding("## Verdict\nflaky, it passed on retry").details
        == "flaky, it passed on retry"
    )


def test_an_answer_without_sections_is_all_details() -> None:
    assert parse_finding("I don't know.\nSorry.") == Finding(details="I don't know.\nSorry.")


def test_text_before_the_first_section_is_kept() -> None:
    assert parse_finding("Here it is.\n\n## Cause\nx").details == "Here it is."


def test_what_is_missing_and_how_to_keep_it_are_sections_of_their_own() -> None:
    finding = parse_finding(
        "## Verdict\nnot enough evidence\n## Missing\nthe log\n## Next time\nkeep it\n"
    )
    assert finding == Finding(
        verdict=Verdict.ABSTAIN, missing_evidence="the log", next_time="keep it"
    )
