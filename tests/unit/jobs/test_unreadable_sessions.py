"""What the commands make of a session of which nothing can be read any more."""

from pathlib import Path

import pytest

from tests.fakes import says
from tests.jobs import FINDING, Job, read_answer
from worker.turns.parts import Finished

pytestmark = pytest.mark.slow

SECRET = b"SECRET-OF-THE-TEAM"
DAMAGED = pytest.mark.parametrize("content", [b"{" + SECRET, b'{"schema": 99, "x": "%s"}' % SECRET])


def damage(at: Job, content: bytes, turn: int = 0) -> None:
    (key,) = at.list_sessions()
    (Path(at.store.describe_location(key, turn)) / "context.json").write_bytes(content)


def is_stored(at: Job) -> bool:
    files = (path for path in at.place.rglob("*") if path.is_file())
    return any(SECRET in path.read_bytes() for path in files)


@DAMAGED
@pytest.mark.parametrize("failed", [True, False])
def test_forget_deletes_it_too(told: Job, content: bytes, failed: bool) -> None:
    """Where no pipeline fails any more, nobody knows what it was about: nothing is left."""
    damage(told, content)
    assert is_stored(told)
    told.scene.pipeline.status = "failed" if failed else "running"
    assert "Deleted" in read_answer(told.ask("/sandpiper forget"))
    assert not is_stored(told)
    assert len(told.list_sessions()) == failed
    assert "Nothing is stored" in read_answer(told.ask("/sandpiper forget"))


def test_forget_deletes_it_too_where_what_came_before_was_forgotten(told: Job) -> None:
    told.script_answers(says("Anew."))
    assert "Deleted" in read_answer(told.ask("/sandpiper forget"))
    told.ask("What was it?", told.list_notes()[0].discussion_id)
    damage(told, b"{" + SECRET, turn=2)
    assert "Deleted" in read_answer(told.ask("/sandpiper forget"))
    assert not is_stored(told)


def test_one_that_cannot_be_read_does_not_keep_another(told: Job) -> None:
    damage(told, b"{" + SECRET)
    told.sim.push(told.scene.mr, {"a": b"b"})
    told.script_answers(FINDING)
    told.run_failed(told.sim.run_pipeline(told.scene.mr))
    assert "Deleted" in read_answer(told.ask("/sandpiper forget"))
    assert not is_stored(told)
    assert all(
        b"A race in the test." not in told.store.read_context(key, 1)
        for key in told.list_sessions()
    )


@DAMAGED
def test_its_state_is_told_and_it_begins_anew(told: Job, content: bytes) -> None:
    damage(told, content)
    assert "cannot be read any more" in read_answer(told.ask("/sandpiper status"))
    told.script_answers(says("It is the runner."))
    assert isinstance(told.ask("/sandpiper analyze"), Finished)
    assert "It is the runner." in told.list_notes()[-1].body


def test_a_step_that_cannot_be_read_is_the_very_beginning(told: Job) -> None:
    told.store.write_checkpoint(told.find_key(), 1, b"{")
    with told.claim_elsewhere(told.find_key(), 1):
        assert "at the very beginning" in read_answer(told.ask("/sandpiper status"))
