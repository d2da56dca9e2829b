"""👍 and 👎 on the bot's notes: one vote for each person, as it stands in GitLab now."""

from pathlib import Path

import pytest

from tests.jobs import FINDING, Job, run_trigger
from tests.simulators.gitlab import GitLabSim, Note
from worker.conversation.events import VotesChanged
from worker.conversation.triggers import Reacted, from_message, to_message
from worker.jobs import delivery
from worker.jobs.reaction import VotesCounted
from worker.turns.parts import Attempt, Skipped
from worker.verdict import aftermath
from worker.verdict.aftermath import Aftermath, Feedback


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> Job:
    made = Job(sim, tmp_path)
    made.script_answers(FINDING)
    made.run_failed()
    made.events.clear()
    return made


def reacted(at: Job, note: Note, award: int = 1) -> delivery.Result:
    mr = note.merge_request
    return run_trigger(
        Reacted(mr.project.id, mr.iid, note.id, award), at.build_deps(), Attempt(at.events.append)
    )


def list_changes(at: Job) -> list[VotesChanged]:
    return [each for each in at.events if isinstance(each, VotesChanged)]


def votes(at: Job) -> tuple[int, int]:
    stored = aftermath.load_feedback(at.store.read_feedback(at.find_key(), 0))
    return stored.upvotes, stored.downvotes


def test_votes_are_kept_beside_the_turn_and_can_be_taken_back(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    before = at.store.read_context(at.find_key(), 0)
    up = sim.add_reaction(note, at.scene.developer, "thumbsup")
    assert isinstance(reacted(at, note), VotesCounted)
    assert votes(at) == (1, 0)
    sim.add_reaction(note, sim.add_user("another"), "thumbsdown_tone2")
    reacted(at, note)
    assert votes(at) == (1, 1)
    sim.remove_reaction(note, at.scene.developer, up)
    reacted(at, note)
    assert votes(at) == (0, 1)
    assert list_changes(at) == [
        VotesChanged(("up",), ()),
        VotesChanged(("down",), ()),
        VotesChanged((), ("up",)),
    ]
    assert at.store.read_context(at.find_key(), 0) == before


def test_one_person_has_one_vote_the_newest(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    for emoji in ("thumbsup", "thumbsup_tone1", "thumbsdown", "tada"):
        sim.add_reaction(note, at.scene.developer, emoji)
    reacted(at, note)
    assert votes(at) == (0, 1)


def test_the_same_event_again_changes_nothing(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    sim.add_reaction(note, at.scene.developer, "thumbsup")
    reacted(at, note)
    stored = at.store.read_feedback(at.find_key(), 0)
    at.clock.time += 60
    reacted(at, note)
    assert at.store.read_feedback(at.find_key(), 0) == stored
    assert len(list_changes(at)) == 1


def test_the_bot_does_not_vote(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    for emoji in ("eyes", "thumbsup"):
        sim.add_reaction(note, at.scene.bot, emoji)
    reacted(at, note)
    assert at.store.read_feedback(at.find_key(), 0) is None


def test_nobody_is_named_in_what_is_stored(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    sim.add_reaction(note, at.scene.developer, "thumbsup")
    reacted(at, note)
    feedback = aftermath.load_feedback(at.store.read_feedback(at.find_key(), 0))
    assert at.scene.developer.username not in str(feedback)
    assert str(at.scene.developer.id) not in feedback.votes
    assert list(feedback.votes) == [
        aftermath.make_pseudonym(at.find_key().session_id, at.scene.developer.id)
    ]


def test_a_marker_in_somebody_elses_note_is_not_believed(at: Job, sim: GitLabSim) -> None:
    (ours,) = at.list_notes()
    forged = at.write_comment(ours.body)
    sim.add_reaction(forged, at.scene.developer, "thumbsup")
    assert isinstance(reacted(at, forged), Skipped)
    assert at.store.read_feedback(at.find_key(), 0) is None


def test_a_note_that_is_gone_is_skipped(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    sim.delete(note)
    ended = reacted(at, note)
    assert isinstance(ended, Skipped)
    assert "gone or not one of ours" in ended.reason


def test_a_vote_that_comes_while_another_is_written_is_not_lost(at: Job, sim: GitLabSim) -> None:
    (note,) = at.list_notes()
    sim.add_reaction(note, at.scene.developer, "thumbsup")
    store = at.store
    raced: list[int] = []
    change = store.change_feedback

    class Racing:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def change_feedback(self, key: object, turn: int, made: object) -> None:
            def late(stored: bytes | None) -> bytes | None:
                content = made(stored)  # type: ignore[operator]
                if not raced:
                    raced.append(sim.add_reaction(note, sim.add_user("late"), "thumbsdown"))
                    reacted(at, note, 2)
                return content  # type: ignore[no-any-return]

            change(key, turn, late)  # type: ignore[arg-type]

    trigger = Reacted(at.scene.project.id, at.scene.mr.iid, note.id, 1)
    run_trigger(trigger, at.build_deps(sessions=Racing()))
    assert votes(at) == (1, 1)


def test_the_trigger_goes_over_the_queue() -> None:
    trigger = Reacted(7, 42, 99, 3, revoked=True)
    assert from_message(to_message(trigger)) == trigger


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff", b"[]", b"{}", b'{"votes": 3}', b'{"votes": {"a": ["up"]}}', b"[" * 9999],
)
def test_damaged_feedback_is_no_feedback(stored: bytes) -> None:
    assert aftermath.load_feedback(stored) == Feedback()
    assert aftermath.load_aftermath(stored) is None


def test_both_are_told_in_plain_words() -> None:
    feedback = aftermath.load_feedback(b'{"votes": {"a": "up", "b": "down", "c": "up"}, "at": 5}')
    after = aftermath.load_aftermath(
        b'{"schema": 1, "became": "fixed", "pipeline_id": 12, "sha": "abcdef0123", "at": 9.5}'
    )
    assert after == Aftermath("fixed", 12, "abcdef0123", 9.5)
    assert aftermath.describe_aftermath(feedback, after) == (
        "reactions: 2 👍, 1 👎",
        "pipeline 12: fixed by a later commit (abcdef01)",
    )
    assert aftermath.describe_aftermath(Feedback(), None) == ()
