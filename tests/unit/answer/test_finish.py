"""The last step: what must not stand in a note is written as plain text, and nothing else is."""

import pytest

from tests.unit.answer.note.test_note import DONE, FOOTER, MARKER, SUBJECT
from tests.unit.safety.test_lint import marked
from worker.answer.finish import PLAIN, add_subject_hosts, find_kept_back, finish_body
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.safety.lint import find_faults, make_safe_body
from worker.safety.redact import Redactor
from worker.verdict.finding import Evidence, FailedJobs, Finding, JobLog, WithheldPart
from worker.verdict.jobs import FailingJob

PLACES = add_subject_hosts(SUBJECT, frozenset())
GOOD = "[job](https://gitlab.example.com/group/shop/-/jobs/1)"
ELSEWHERE = "https://gitlab.example.com/other/project/-/jobs/1"


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        ("see [it](https://evil.com/?q=1) now", "see it now"),
        ("ask @alice", "ask @alice"),
        ("- a\n- <img src=x>b\n- c", "a\n b\n c"),
        ("text\n/close", "text\n /close"),
        ("```mermaid-js\nx\n```", "x"),
        ("| a |\n|---|\n| #1 |", "a\n #1"),
        ("> quoted !5", "quoted !5"),
    ],
)
def test_only_the_part_that_is_bad_is_plain(bad: str, shown: str) -> None:
    body = marked(f"Before, {GOOD}.\n\n{bad}\n\nAfter.\n\n<details>\n\nx\n\n</details>")
    made = finish_body(body, PLACES, str)
    assert not made.kept_back
    assert find_faults(made.body, PLACES) == []
    assert f"Before, {GOOD}.\n" in made.body
    assert "\nAfter.\n\n<details>\n\nx\n\n</details>" in made.body
    assert f"{PLAIN}\n\n ```text\n {shown}\n ```\n" in made.body


@pytest.mark.parametrize("bad", ["<details>\n\nx", "y" * 90_000])
def test_what_cannot_be_mended_is_kept_back(bad: str) -> None:
    made = finish_body(marked(bad), PLACES, str)
    assert made.kept_back
    assert made.body == make_safe_body(marked(bad))


def test_a_body_that_is_good_stays_as_it_is() -> None:
    body = marked(f"**Cause:** {GOOD}\n\n ```text\n /close @all\n ```\n\n<sub>small</sub>")
    assert finish_body(body, PLACES, Redactor(["a-secret-of-the-bot"]).redact_text).body == body


def test_the_model_is_told_what_is_kept_back_and_why() -> None:
    found = find_kept_back(PLACES, str, "Fine.\n\nsee #1\n\n[x](https://evil.com)", _as_it_is)
    assert [each.text for each in found] == ["see #1", "x"]
    assert found[0] == WithheldPart("see #1", "a reference: '#1'")
    assert "https://evil.com" in found[1].reason


def test_nothing_is_said_of_what_is_written_harmlessly() -> None:
    assert find_kept_back(PLACES, str, "see #1 @all\n/close\n<img src=x>") == ()


def test_our_own_links_to_other_projects_are_plain_text() -> None:
    """A child pipeline may have run in another project."""
    finding = Finding(cause="x", evidence=(Evidence(JobLog(1), 2, "some text", ELSEWHERE),))
    job = FailingJob(1, "deploy", url=ELSEWHERE, excerpt="boom")
    failed = FailedJobs((job,), reason="script_failure")
    bodies = [
        note.write_finding(MARKER, Layout(finding, SUBJECT, DONE, PLACES), FOOTER),
        note.write_failure(MARKER, SUBJECT, "why", None, [failed], PLACES),
    ]
    assert "- job 1, line 2: `some text`" in bodies[0]
    assert "**No analysis this time.** Why." in bodies[1]
    assert "`deploy` (job 1): `script_failure`" in bodies[1]
    for body in bodies:
        assert find_faults(body, PLACES) == []


def _as_it_is(text: str, hosts: frozenset[str]) -> str:
    return text
