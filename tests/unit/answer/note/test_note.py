"""Notes are short, honest, marked, and harmless."""

import dataclasses

import pytest

from tests.unit.answer.note import rendering
from tests.unit.safety.test_neutralise import HOSTILE, HOSTS
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.answer.note.note import MAX_BODY, Footer
from worker.answer.note.note_parts import Parts, drop_empty_headings
from worker.answer.parse import parse_finding
from worker.conversation.context import Outcome, Status, Subject
from worker.safety.markdown import Marker, find_marker
from worker.verdict.finding import Evidence, Finding, JobLog
from worker.verdict.verdict import Verdict

MARKER = Marker("0123456789abcdef0123", 0)
SUBJECT = Subject(
    gitlab_url="https://gitlab.example.com",
    project_id=7,
    project="group/shop",
    mr_iid=42,
    pipeline_project_id=7,
    pipeline_id=9001,
    sha="3f2a9c1d" + "0" * 32,
    web_url="https://gitlab.example.com/group/shop/-/merge_requests/42",
)
FOOTER = Footer(
    model="anthropic/claude-sonnet-5-5",
    cost_usd=0.0871,
)
JOB = "https://gitlab.example.com/group/shop/-/jobs/4711"
FINDING = Finding(
    verdict=Verdict.CHANGE,
    what_failed="`unit-tests`: `tests/test_totals.py::test_vat`",
    cause="`VAT` is 0.07 now, and `test_vat` expects 0.19. Ask @alice.",
    evidence=(
        Evidence(JobLog(4711), 1843, "E   AssertionError: assert 107.0 == 119.0", f"{JOB}#L1843"),
        Evidence(JobLog(4711), 1850, "FAILED `test_vat`", f"{JOB}#L1850"),
    ),
    to_do="- Put the rate back to 0.19,\n- or change the expected total.",
    details="```diff\n-VAT = 0.19\n+VAT = 0.07\n```",
)
DONE = Outcome(Status.DONE, "")
PARTIAL = Outcome(Status.PARTIAL, "", "the iteration limit was reached")

GOLDEN = """\
<!-- sandpiper:session=0123456789abcdef0123 turn=0 -->

**Caused by this change**

**Failed:** `unit-tests`: `tests/test_totals.py::test_vat`

**Cause:** `VAT` is 0.07 now, and `test_vat` expects 0.19. Ask `@alice`.

- [job 4711, line 1843](https://gitlab.example.com/group/shop/-/jobs/4711#L1843): \
`E   AssertionError: assert 107.0 == 119.0`
- [job 4711, line 1850](https://gitlab.example.com/group/shop/-/jobs/4711#L1850): \
`` FAILED `test_vat` ``

**What to do:** Put the rate back to 0.19, or change the expected total.

<details>
<summary>Details</summary>

**Further details**

 ```diff
 -VAT = 0.19
 +VAT = 0.07
 ```

</details>

<sub>`claude-sonnet-5-5` · 0.09 USD · Reply to ask more</sub>"""


def written(finding: Finding = FINDING, outcome: Outcome = DONE, **footer: object) -> str:
    changed = dataclasses.replace(FOOTER, **footer)  # type: ignore[arg-type]
    return note.write_finding(MARKER, Layout(finding, SUBJECT, outcome, HOSTS), changed)


def visible_lines(body: str) -> list[str]:
    shown = body.split("\n<details>")[0].split("\n<sub>")[0]
    return [line for line in shown.split("\n")[1:] if line.strip()]


def test_a_finding_is_rendered_as_agreed() -> None:
    assert written() == GOLDEN


def test_every_body_begins_with_its_marker() -> None:
    bodies = [
        written(),
        note.write_placeholder(MARKER, SUBJECT, resumed=False),
        note.write_answer(MARKER, SUBJECT, ("<!-- sandpiper:session=00 -->",), DONE, FOOTER, HOSTS),
        note.write_failure(MARKER, SUBJECT, "why", None),
    ]
    for body in bodies:
        assert find_marker(body) == MARKER
        assert body.count("<!--") == 1


def test_a_placeholder_is_one_line_that_says_what_goes_on() -> None:
    first = visible_lines(note.write_placeholder(MARKER, SUBJECT, resumed=False))
    assert first == [
        "Sandpiper is finding out why pipeline 9001 failed on `3f2a9c1d`; "
        "the finding will replace this note."
    ]
    again = visible_lines(note.write_placeholder(MARKER, SUBJECT, resumed=True))
    assert again == ["Sandpiper is looking into your question; the answer will replace this note."]


def test_an_answer_is_shown_whole() -> None:
    body = note.write_answer(MARKER, SUBJECT, ("It timed out.\n\nSee #12.",), DONE, FOOTER, HOSTS)
    assert body.startswith(f"{MARKER.text()}\n\nIt timed out.\n\nSee `#12`.\n\n<sub>")


@pytest.mark.parametrize(("turn", "headline"), [(0, "No analysis"), (3, "No answer")])
def test_a_failure_says_why_and_what_to_do(turn: int, headline: str) -> None:
    body = note.write_failure(Marker(MARKER.session_id, turn), SUBJECT, "the model is down", None)
    assert visible_lines(body) == [
        f"**{headline} this time.** The model is down.",
        "Reply in this thread to try again.",
    ]


def test_an_unfinished_analysis_says_so_and_why() -> None:
    lines = visible_lines(written(outcome=PARTIAL))
    assert lines[0] == "**Unfinished: caused by this change**"
    assert lines[1] == (
        "This is what was found before it stopped: the iteration limit was reached."
    )
    answer = note.write_answer(MARKER, SUBJECT, ("half",), PARTIAL, FOOTER, HOSTS)
    assert visible_lines(answer)[0] == lines[1]


@pytest.mark.parametrize("outcome", [DONE, PARTIAL])
def test_at_most_eight_lines_are_visible_and_nothing_is_lost(outcome: Outcome) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    long = Finding(
        verdict=Verdict.FLAKY,
        what_failed=f"{words}\n\nfailed again",
        cause=f"```\ncode first\n```\n{words}",
        evidence=tuple(
            Evidence(JobLog(1), n, f"log line number {n}", f"{JOB}#L{n}") for n in range(1, 9)
        ),
        to_do="\n".join(f"{n}. step {n}" for n in range(1, 30)) + "\n\nthen rest",
        details=words,
        unproven=2,
    )
    body = written(long, outcome)
    assert len(visible_lines(body)) <= 8
    for part in ("failed again", "code first", "step 29", "then rest", "log line number 8"):
        assert part in body
    assert "2 quotes could not be proven" in body


def test_an_answer_without_sections_is_shown_in_brief_and_whole() -> None:
    body = written(parse_finding("The runner is gone.\n\nIt never came back."))
    assert visible_lines(body) == [
        "**Not clear whether this change is the cause**",
        "**Cause:** The runner is gone. It never came back.",
    ]
    assert "<details>" not in body


def test_the_footer_is_honest_about_what_is_not_known() -> None:
    body = written(cost_usd=None, missing_sources=("gitlab_get_job_log 4712: the log was erased",))
    assert "cost unknown" in body
    visible, _, folded = body.partition("<details>")
    told = "**Not available**\n\n- gitlab_get_job_log 4712: the log was erased"
    assert told in folded
    assert "erased" not in visible


def test_a_quote_without_a_safe_link_is_shown_without_one() -> None:
    odd = Evidence(JobLog(1), 2, "some text", "https://gitlab.example.com/x)](javascript:alert(1))")
    assert "- job 1, line 2: `some text`" in written(Finding(cause="x", evidence=(odd,)))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_part_of_a_note_does_anything(hostile: str) -> None:
    finding = Finding(
        what_failed=hostile,
        cause=hostile,
        evidence=(Evidence(JobLog(1), 2, hostile, f"{JOB}#L2"),) * 5,
        to_do=hostile,
        details=hostile,
    )
    outcome = Outcome(Status.PARTIAL, "", hostile)
    subject = dataclasses.replace(SUBJECT, sha=hostile)
    footer = dataclasses.replace(FOOTER, model=hostile, missing_sources=(hostile,))
    ours = ("<!-- sandpiper:", "<details>\n", "</details>\n", "<sub>", "</sub>")
    for body in (
        note.write_finding(MARKER, Layout(finding, subject, outcome, HOSTS), footer),
        note.write_answer(MARKER, subject, (hostile,), outcome, footer, HOSTS),
        note.write_failure(MARKER, subject, hostile, footer),
        note.write_placeholder(MARKER, subject, resumed=False),
    ):
        found = rendering.dangers(body, HOSTS)
        assert [each for each in found if not each.startswith("html_")] == []
        html = [token.content for token in rendering.tokens(body) if "html" in token.type]
        assert all(content.startswith(ours) for content in html)
        assert body.count("\n<details>\n") == body.count("\n</details>")


def test_no_token_is_posted_whatever_the_model_does() -> None:
    token = "glpat-" + "aB3" * 8
    finding = Finding(
        what_failed=token,
        cause=f"see {token}",
        evidence=(Evidence(JobLog(1), 2, f"TOKEN={token}", JOB),),
        to_do=f"`{token}`",
        details=f"```\n{token}\n```",
    )
    bodies = [
        written(finding, Outcome(Status.PARTIAL, "", token), missing_sources=(token,)),
        note.write_answer(MARKER, SUBJECT, (token,), DONE, FOOTER, HOSTS),
        note.write_failure(MARKER, SUBJECT, token, None),
    ]
    for body in bodies:
        assert token not in body
        assert "[redacted: gitlab-token" in body.replace("\\", "")


@pytest.mark.slow
def test_a_body_is_capped() -> None:
    huge = "<b> & @all [x] " * 20_000
    finding = Finding(what_failed=huge, cause=huge, to_do=huge, details=huge)
    assert len(written(finding)) <= MAX_BODY
    answer = note.write_answer(MARKER, SUBJECT, (huge,), DONE, FOOTER, HOSTS)
    assert 10_000 < len(answer) <= MAX_BODY


@pytest.mark.parametrize(
    ("details", "left"),
    [
        ("## Tried\n\n## Seen\nIt waits.", "## Seen\nIt waits."),
        ("It waits.\n\n**Other jobs**\n", "It waits."),
        ("### Tried\n#### One\nIt waits.\n#### Two\n\n### Seen", "### Tried\n#### One\nIt waits."),
        ("**Tried:**\n\n**Seen**\n- It waits.", "**Seen**\n- It waits."),
        ("**It waits.**", "**It waits.**"),
        ("```\n# Tried\n```", "```\n# Tried\n```"),
        ("## Tried\n##", ""),
    ],
)
def test_a_heading_that_nothing_follows_is_left_out(details: str, left: str) -> None:
    assert drop_empty_headings(details) == left


def test_a_title_whose_lines_have_no_room_is_left_out() -> None:
    parts = Parts(frozenset(), 100)
    parts.fold_lines("Evidence", ["one"])
    parts.fold_lines("More", ["x" * 200])
    parts.fold_section("Tried", "## Nothing")
    assert parts.render_folded(100) == "**Evidence**\n\n- one"
