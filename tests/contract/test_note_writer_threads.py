"""Threads, places on the diff, and the bot's own notes (gitlab.ports.NoteWriter)."""

from dataclasses import replace

import pytest

from tests.contract.notes import note_of
from tests.simulators.gitlab import GitLabSim, Scene
from worker.conversation.context import NoteRef, Subject
from worker.errors import ForgeError
from worker.gitlab.write.note_writers import DryRunWriter
from worker.gitlab.write.writer import OWN_PAGES, PER_PAGE, GitLabWriter
from worker.safety.markdown import Kind, Marker
from worker.verdict.diffs import Position

SESSION = "0123456789abcdef0123"
MARKER = Marker(SESSION, 0)
BODY = f"{MARKER.text()}\n\nThe build failed."
OFFER = Marker(SESSION, 1, Kind.SUGGESTION)
FIX = f"{OFFER.text()}\n\n ```suggestion:-0+0\n     return sum(xs)\n ```"


@pytest.fixture
def forge(sim: GitLabSim, scene: Scene) -> GitLabWriter:
    return GitLabWriter(sim.url, scene.write_token, (2.0, 2.0), lambda seconds: None)


@pytest.fixture
def added(scene: Scene) -> Position:
    """The line that the merge request adds."""
    mr = scene.mr
    return Position(mr.base_sha, mr.base_sha, mr.sha, "app/sum.py", "app/sum.py", 2)


def test_a_thread_of_ours_is_resolvable_and_resolved_once_or_twice(
    forge: GitLabWriter, scene: Scene, subject: Subject
) -> None:
    ref = forge.post_note(subject, BODY, "", thread=True)
    note = note_of(scene, ref)
    assert (note.type, note.body, ref.url) == ("DiscussionNote", BODY, note.web_url)
    assert [own.in_open_thread for own in forge.list_own_notes(subject)] == [True]
    for _ in range(2):
        forge.resolve_thread(subject, ref)
    assert scene.mr.discussions[note.discussion_id].resolved
    assert [own.in_open_thread for own in forge.list_own_notes(subject)] == [False]
    assert forge.find_note(subject, MARKER, "") == ref


def test_a_plain_note_and_one_that_is_gone_have_nothing_to_resolve(
    forge: GitLabWriter, sim: GitLabSim, subject: Subject
) -> None:
    forge.resolve_thread(subject, forge.post_note(subject, BODY, ""))
    forge.resolve_thread(subject, NoteRef(4711))
    assert [seen for seen in sim.requests if seen.method == "PUT"] == []


def test_a_thread_behind_many_others_is_found_to_be_resolved(
    forge: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    for number in range(PER_PAGE + 1):
        sim.comment(scene.mr, scene.developer, f"note {number}")
    ref = forge.post_note(subject, BODY, "", thread=True)
    forge.resolve_thread(subject, ref)
    assert scene.mr.discussions[note_of(scene, ref).discussion_id].resolved


@pytest.mark.parametrize("fault", [{"status": 502, "after": True}, {"drop": True}, {"status": 502}])
def test_a_lost_answer_to_a_new_thread_yields_exactly_one(
    forge: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject, fault: dict[str, int]
) -> None:
    sim.fail_next("POST", "/discussions$", **fault)  # type: ignore[arg-type]
    ref = forge.post_note(subject, BODY, "", thread=True)
    assert [note.id for note in scene.mr.list_notes()] == [ref.note_id]


def test_own_notes_are_those_with_our_marker_newest_first(
    forge: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    first = forge.post_note(subject, BODY, "")
    forge.post_note(subject, "no marker", "")
    sim.comment(scene.mr, scene.developer, BODY)
    second = forge.post_note(subject, FIX, "", thread=True)
    assert [(own.ref, own.body) for own in forge.list_own_notes(subject)] == [
        (second, FIX),
        (first, BODY),
    ]
    assert [own.internal for own in forge.list_own_notes(subject)] == [False, False]


def test_own_notes_are_looked_for_among_the_newest_only(
    forge: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    forge.post_note(subject, BODY, "")
    for number in range(OWN_PAGES * PER_PAGE):
        sim.comment(scene.mr, scene.developer, f"note {number}")
    assert list(forge.list_own_notes(subject)) == []


def test_a_note_stands_on_a_line_of_the_diff(
    forge: GitLabWriter, scene: Scene, subject: Subject, added: Position
) -> None:
    context = replace(added, new_line=1, old_line=1)
    for position in (added, context):
        ref = forge.post_note(subject, FIX, "", at=position)
        note = note_of(scene, ref)
        assert note.type == "DiffNote"
        kept = scene.mr.discussions[note.discussion_id].position
        assert kept is not None
        assert (kept["new_line"], kept.get("old_line")) == (position.new_line, position.old_line)


@pytest.mark.parametrize(
    "change",
    [
        {"new_line": 3},
        {"new_line": 1},
        {"old_line": 2},
        {"new_line": 1, "old_line": 2},
        {"new_path": "app/other.py"},
        {"old_path": "app/other.py"},
        {"head_sha": "0" * 40},
        {"base_sha": "0" * 40},
    ],
)
def test_a_line_that_the_diff_does_not_show_is_refused(
    forge: GitLabWriter,
    scene: Scene,
    subject: Subject,
    added: Position,
    change: dict[str, int | str],
) -> None:
    with pytest.raises(ForgeError, match="must be a valid line code") as caught:
        forge.post_note(subject, FIX, "", at=replace(added, **change))  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.transient) == (400, False)
    assert scene.mr.list_notes() == []


def test_a_hurried_edit_is_tried_once_and_given_seconds(
    forge: GitLabWriter, sim: GitLabSim, subject: Subject
) -> None:
    ref = forge.post_note(subject, BODY, "")
    for status in (502, 429):
        sim.fail_next("PUT", "/notes/", status, times=2, headers={"Retry-After": "30"})
        with pytest.raises(ForgeError) as caught:
            forge.edit_note(subject, ref, BODY, hurried=True)
        assert (caught.value.status, caught.value.transient) == (status, True)
        with pytest.raises(ForgeError):
            forge.edit_note(subject, ref, BODY, hurried=True)
    forge.edit_note(subject, ref, f"{BODY} x", hurried=True)
    assert sum(seen.method == "PUT" for seen in sim.requests) == 5


def test_a_locked_discussion_takes_nothing(
    forge: GitLabWriter, scene: Scene, subject: Subject
) -> None:
    ref = forge.post_note(subject, BODY, "")
    scene.mr.discussion_locked = True
    for write in (
        lambda: forge.edit_note(subject, ref, "x"),
        lambda: forge.post_note(subject, BODY, ""),
    ):
        with pytest.raises(ForgeError, match="too little access") as caught:
            write()
        assert caught.value.status == 403


def test_a_note_that_is_gone_says_so_by_its_status(forge: GitLabWriter, subject: Subject) -> None:
    for each in (forge, DryRunWriter()):
        with pytest.raises(ForgeError) as caught:
            each.edit_note(subject, NoteRef(4711), BODY)
        assert caught.value.status == 404


def test_a_dry_forge_knows_its_own_notes(subject: Subject) -> None:
    forge = DryRunWriter()
    ref = forge.post_note(subject, BODY, "")
    forge.resolve_thread(subject, ref)
    assert [(own.ref, own.marker) for own in forge.list_own_notes(subject)] == [(ref, MARKER)]
