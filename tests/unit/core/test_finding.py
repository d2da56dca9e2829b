"""A final answer is taken apart without losing anything, and only proven quotes are kept."""

from dataclasses import dataclass, field

import pytest

from worker.core.finding import Evidence, Finding, Verdict, parse, prove

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


@dataclass
class Logs:
    """Captured lines by job and number."""

    lines: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, job_id: int, number: int) -> str | None:
        return self.lines.get((job_id, number))

    def url(self, job_id: int, number: int) -> str:
        return f"https://gitlab.example.com/-/jobs/{job_id}#L{number}"


def test_an_answer_in_the_agreed_form_is_taken_apart() -> None:
    assert parse(ANSWER) == Finding(
        verdict=Verdict.CHANGE,
        failed="`unit-tests`: 1 of 214 tests",
        cause="`VAT` is now 0.07.",
        evidence=(
            Evidence(4711, 1843, "E   AssertionError: assert 107.0 == 119.0"),
            Evidence(4711, 1850, "FAILED tests/test_totals.py::test_vat"),
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
    finding = parse(f"{heading}\nthe lock file\n")
    assert finding.cause == "the lock file", name


def test_plain_names_count_as_headings_where_there_are_no_others() -> None:
    finding = parse("Verdict: flaky\nCause: a race\nin the test\n")
    assert (finding.verdict, finding.cause) == (Verdict.FLAKY, "a race\nin the test")
    finding = parse("## Verdict\nflaky\n## Cause\nthe log says\nFailed: 3 tests\n")
    assert (finding.failed, finding.cause) == ("", "the log says\nFailed: 3 tests")


def test_headings_inside_code_are_text_unless_the_fence_is_never_closed() -> None:
    closed = parse("## Cause\n```\n## Evidence\n```\nend")
    assert closed.cause == "```\n## Evidence\n```\nend"
    unclosed = parse("## Cause\n```\nx\n## What to do\nfix")
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
        ("I would rather not say", Verdict.UNKNOWN),
        ("", Verdict.UNKNOWN),
    ],
)
def test_the_verdict_is_the_first_one_named(text: str, verdict: Verdict) -> None:
    assert parse(f"## Verdict\n{text}\n## Cause\nx").verdict is verdict


def test_what_the_verdict_says_besides_is_kept() -> None:
    assert parse("## Verdict\nflaky, it passed on retry").details == "flaky, it passed on retry"


def test_an_answer_without_sections_is_all_details() -> None:
    assert parse("I don't know.\nSorry.") == Finding(details="I don't know.\nSorry.")


def test_text_before_the_first_section_is_kept() -> None:
    assert parse("Here it is.\n\n## Cause\nx").details == "Here it is."


@pytest.mark.parametrize(
    "line",
    [
        "- job 7 line 12: the text of it",
        "* job 7 line 12: `the text of it`",
        "1. Job 7, line 12: the text of it  ",
        "- **job 7 line 12:** the text of it",
        "- **job 7, line 12**: the text of it",
        "- `job 7 line 12`: the text of it",
        "- `job 7 line 12: the text of it`",
        "- [job 7 line 12](https://gitlab.example.com/-/jobs/7#L12): the text of it",
        "> job #7 line 12: ``the text of it``",
        "- job 7 line 12:\n  ```\n  the text of it\n  ```",
    ],
)
def test_quotes_of_other_shapes_are_read(line: str) -> None:
    finding = parse(f"## Evidence\n{line}\n")
    assert finding.evidence == (Evidence(7, 12, "the text of it"),)
    assert finding.unproven == 0


def test_items_that_are_no_quotes_are_dropped_and_counted_and_prose_is_kept() -> None:
    finding = parse("## Evidence\nSee also:\n- the log says so\n- main.py line 3: x\n")
    assert (finding.evidence, finding.unproven) == ((), 2)
    assert finding.details == "See also:"


@pytest.mark.parametrize(
    ("line", "quote", "proven"),
    [
        pytest.param("  error: no such file", "error: no such file", True, id="the whole line"),
        pytest.param("boom", "boom", True, id="a short line, whole"),
        pytest.param("it went boom", "boom", False, id="a short part"),
        pytest.param("ld: error: no such file", "error: no such file", True, id="a long part"),
        pytest.param("error: no such file", "error:  no such file", False, id="other blanks"),
        pytest.param("error: no such file", "Error: no such file", False, id="another case"),
        pytest.param("error: no such file", "error: no … file", False, id="shortened within"),
        pytest.param("error: no such file a/b", "error: no such file…", True, id="cut at its end"),
        pytest.param("error", "", False, id="nothing"),
        pytest.param("", "", False, id="nothing of nothing"),
        pytest.param("a b c d e f g h", "a b c d e f g", False, id="too few letters"),
    ],
)
def test_a_quote_is_proven_byte_for_byte(line: str, quote: str, proven: bool) -> None:
    finding = prove(Finding(evidence=(Evidence(7, 12, quote),)), Logs({(7, 12): line}))
    assert [each.text for each in finding.evidence] == ([quote] if proven else [])
    assert finding.unproven == (0 if proven else 1)


@pytest.mark.parametrize(("off", "proven"), [(0, True), (1, True), (-2, True), (3, False)])
def test_a_line_number_may_be_off_by_two(off: int, proven: bool) -> None:
    logs = Logs({(7, 12): "error: no such file"})
    finding = prove(Finding(evidence=(Evidence(7, 12 + off, "error: no such file"),)), logs)
    assert bool(finding.evidence) == proven
    if proven:
        assert finding.evidence[0].line == 12
        assert finding.evidence[0].url == "https://gitlab.example.com/-/jobs/7#L12"


def test_a_quote_of_another_job_is_not_proven() -> None:
    logs = Logs({(7, 12): "error: no such file"})
    assert prove(Finding(evidence=(Evidence(8, 12, "error: no such file"),)), logs).unproven == 1


def test_the_same_line_is_shown_once() -> None:
    logs = Logs({(7, 12): "error: no such file"})
    twice = (Evidence(7, 12, "error: no such file"), Evidence(7, 13, "error: no such"))
    assert len(prove(Finding(evidence=twice), logs).evidence) == 1
