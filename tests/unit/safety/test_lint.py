"""The last look at a note: it lets ours pass, and sees what a renderer might miss."""

import dataclasses
import random
import time

import pytest

from tests.unit.answer.note.test_note import DONE, FOOTER, MARKER, PARTIAL, SUBJECT
from tests.unit.safety.test_neutralise import HOSTILE, HOSTS
from worker.answer.note import note, older_note
from worker.answer.note.layout import Layout
from worker.answer.note.note import Progress, write_known_failure, write_progress
from worker.conversation.context import NoteRef, Outcome, Status
from worker.conversation.messages import ToolCall
from worker.gitlab.write.note_writers import CheckedNoteWriter, DryRunWriter
from worker.safety import lint
from worker.safety.lint import (
    MAX_LINES,
    WIDTH,
    Fault,
    count_visible_lines,
    find_faults,
    make_safe_body,
)
from worker.verdict.finding import Evidence, FailedJobs, Finding, JobLog
from worker.verdict.jobs import FailingJob, Group, Hit
from worker.verdict.verdict import Verdict

LINK = "https://gitlab.example.com/group/shop/-/jobs/4711#L3"


def marked(text: str) -> str:
    return f"{MARKER.text()}\n\n{text}"


def findings(hostile: str, hosts: frozenset[str] = HOSTS) -> list[str]:
    """A finding, and one that holds nothing but details."""
    finding = Finding(
        verdict=Verdict.CHANGE,
        what_failed=hostile,
        cause=hostile,
        evidence=(Evidence(JobLog(1), 2, hostile, LINK),) * 5,
        to_do=hostile,
        details=hostile,
        missing_evidence=hostile,
    )
    footer = dataclasses.replace(FOOTER, model=hostile, missing_sources=(hostile,))
    outcome = Outcome(Status.PARTIAL, "", hostile)
    return [
        note.write_finding(MARKER, Layout(finding, SUBJECT, outcome, hosts), footer),
        note.write_finding(MARKER, Layout(Finding(details=hostile), SUBJECT, DONE, hosts), footer),
    ]


def reports(hostile: str) -> list[str]:
    """The notes that say without a model what failed, with `hostile` in all their texts."""
    footer = dataclasses.replace(FOOTER, model=hostile, missing_sources=(hostile,))
    job = FailingJob(7, hostile, url=hostile, excerpt=hostile)
    failed = FailedJobs((job,), reason=hostile)
    words = (hostile, hostile, hostile, hostile)
    hit = Hit(9, 0.0, 1e300, 0.0, "flaky", *words, 3, (1, 2), resolution=hostile)
    group = Group("ab" * 8, hostile, (FailingJob(7, hostile),), hit=hit)
    return [
        note.write_failure(MARKER, SUBJECT, hostile, footer, [failed] * 6),
        write_known_failure(MARKER, Finding(Verdict.FLAKY), [group] * 7, footer, HOSTS),
    ]


def bodies(hostile: str, hosts: frozenset[str] = HOSTS) -> list[str]:
    """Every kind of note, with `hostile` wherever a stranger's text goes."""
    footer = dataclasses.replace(FOOTER, model=hostile, missing_sources=(hostile,))
    line = write_progress(
        Progress(1, 50, (ToolCall("1", hostile, f'{{"path": {hostile!r}}}'),)),
        3.0,
        lambda text: text,
    )
    found = [
        *findings(hostile, hosts),
        note.write_answer(MARKER, SUBJECT, (hostile,), PARTIAL, footer, hosts),
        note.write_failure(MARKER, SUBJECT, hostile, footer),
        note.write_placeholder(MARKER, SUBJECT, resumed=False, progress=line),
    ]
    return [*found, *(older_note.mark_passed(body, SUBJECT, same_commit=True) for body in found)]


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_every_note_passes(hostile: str) -> None:
    for body in bodies(hostile):
        assert find_faults(body, HOSTS) == []


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_finding_is_short_whatever_is_in_it(hostile: str) -> None:
    for body in findings((hostile + " ") * 20 + " word" * 100):
        assert count_visible_lines(body) <= MAX_LINES


@pytest.mark.parametrize("hostile", HOSTILE[::9])
def test_a_failure_without_a_model_is_told_shortly_too(hostile: str) -> None:
    for text in (hostile, (hostile + " ") * 20 + " word" * 400):
        for body in reports(text):
            assert find_faults(body, HOSTS) == []
            assert count_visible_lines(body) <= MAX_LINES


@pytest.mark.slow
def test_notes_of_any_mixture_pass_and_are_short() -> None:
    seeded = random.Random(17)
    bits = [*HOSTILE, *("\n\n", "\n", " ", "`", "```", "|", "> ", "- ", "</details>", "word " * 30)]
    for _ in range(60):
        hostile = "".join(seeded.choices(bits, k=seeded.randint(2, 9)))
        for number, body in enumerate(bodies(hostile)):
            assert find_faults(body, HOSTS) == [], hostile
            assert number > 1 or count_visible_lines(body) <= MAX_LINES, hostile


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/close", "slash"),
        ("text\n  /merge now", "quick action"),
        ("```text\n/close\n```", "slash"),
        ("ask @alice", "reference"),
        ("see #12", "reference"),
        ("see group/proj!2", "reference"),
        ('label ~"a b"', "reference"),
        ("[[_TOC_]]", "table of contents"),
        ("see https://evil.com", "address"),
        ("see www.evil.com", "address"),
        ("![x](https://gitlab.example.com/x.png)", "image"),
        ("[x](https://evil.com/a)", "link"),
        ("[x](//evil.com)", "link"),
        ("[x](javascript:alert(1))", "javascript"),
        ("<https://evil.com>", "link"),
        ("[x][y]\n\n[y]: https://evil.com", "link"),
        ("<img src=x>", "HTML"),
        ("<div>\nx\n</div>", "HTML"),
        ("<!-- hidden -->", "HTML"),
        (MARKER.text(), "more than one marker"),
        ("<details>\n<summary>Details</summary>\n\nx", "not closed"),
        ("x\n\n</details>", "closed that is not open"),
        ("```text\nx", "not closed"),
        ("```mermaid-js\nx\n```", "named"),
        ("```suggestion:-0+0\nx\n```", "named"),
        ("a\u202eb", "nobody sees"),
        ("a\rb", "nobody sees"),
        ("> a\n- 1. \r~~~", "nobody sees"),
        ("x" * lint.MAX_SIZE, "characters"),
    ],
)
def test_what_must_not_stand_in_a_note_is_seen(text: str, problem: str) -> None:
    assert any(problem in fault.what for fault in find_faults(marked(text), HOSTS))


def test_a_body_without_its_marker_is_seen() -> None:
    assert find_faults("text", HOSTS) == [Fault("it does not begin with a marker")]


def test_lines_are_counted_as_a_reader_sees_them() -> None:
    body = marked(
        f"**Head**\n\n{'x' * (2 * WIDTH + 1)}\n\n- [a]({LINK}): `b`\n- c\n\n"
        f"<details>\n<summary>Details</summary>\n\nmany\n\nlines\n\n</details>\n\n<sub>small</sub>"
    )
    assert count_visible_lines(body) == 1 + 3 + 1 + 1
    assert count_visible_lines(marked("```text\na\nb\n```")) == 2
    assert WIDTH == 100
    words = f"{'x' * 60} `{'y' * 60}` [{'z' * 30}]({LINK}) {'v' * 5}"
    assert count_visible_lines(marked(words)) == 2
    assert count_visible_lines(marked("测" * 50)) == 1
    assert count_visible_lines(marked("测" * 51)) == 2
    assert count_visible_lines(marked(f"{'x' * 60} {'y' * 60} {'z' * 60}")) == 3


def test_a_bad_body_is_mended_or_replaced_before_it_is_written() -> None:
    writer = DryRunWriter()
    notes = CheckedNoteWriter(writer, HOSTS, str)
    ref = notes.post_note(SUBJECT, marked("fine"), "")
    assert writer.get_body(ref) == marked("fine")
    notes.edit_note(SUBJECT, ref, marked("fine\n\n/close"))
    mended = writer.get_body(ref)
    assert mended.startswith(marked("fine"))
    assert mended.endswith(" ```text\n /close\n ```\n")
    bad = notes.post_note(SUBJECT, marked("<img src=x>\n\n<details>"), "")
    assert writer.get_body(bad) == make_safe_body(marked("x"))
    for body in (marked("fine"), mended, writer.get_body(bad)):
        assert find_faults(body, frozenset()) == []


def test_gitlabs_own_pages_may_be_linked_by_the_name_it_gives_them() -> None:
    writer = DryRunWriter()
    subject = dataclasses.replace(SUBJECT, gitlab_url="http://gitlab.internal:8080")
    notes = CheckedNoteWriter(writer, frozenset(), str)
    ref = notes.post_note(subject, marked(f"[job]({LINK})"), "")
    assert writer.get_body(ref) == marked(f"[job]({LINK})")
    assert notes.find_note(subject, MARKER, "") == NoteRef(1)


@pytest.mark.slow
def test_a_hostile_body_is_looked_at_in_time() -> None:
    for bit in ("[", "`", "*", "<", "> ", "- ", "![", "](", "&", "| a ", "\\", "_a", "<sub>"):
        body = marked(bit * (lint.MAX_SIZE // 2 // len(bit) - 100))
        started = time.process_time()
        find_faults(body, HOSTS)
        assert time.process_time() - started < 8, bit
