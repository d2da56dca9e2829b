"""A failure rests for `gitlab.debounce` seconds, and only the newest one is looked at."""

from datetime import datetime

import pytest

from tests.jobs import FINDING, Job, read_reason
from tests.simulators.gitlab import GitLabSim, Pipeline
from worker.conversation.context import make_id_salt
from worker.conversation.events import ignore_event
from worker.conversation.triggers import Trigger
from worker.errors import DebounceNotOver
from worker.jobs import delivery
from worker.queue.journal import State
from worker.turns.parts import Finished, Skipped

REST = 30.0


def seconds_after(pipeline: Pipeline, seconds: float, at: Job) -> None:
    """Set the worker's clock by GitLab's."""
    ended = datetime.fromisoformat(pipeline.created_at).timestamp()
    at.clock.sleep(ended + seconds - at.clock.now())


def test_a_fresh_failure_rests_and_is_then_looked_at(at: Job) -> None:
    at.script_answers(FINDING)
    seconds_after(at.scene.pipeline, 5, at)
    with pytest.raises(DebounceNotOver) as early:
        at.run_failed(debounce=REST)
    assert early.value.retry_after == pytest.approx(25)
    assert at.scene.mr.list_notes() == []
    at.clock.sleep(early.value.retry_after or 0)
    assert isinstance(at.run_failed(debounce=REST), Finished)


def test_of_quick_pushes_only_the_newest_is_looked_at(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING)
    pushed = [at.scene.pipeline]
    for number in range(3):
        sim.push(at.scene.mr, {"file": str(number).encode()})
        pushed.append(sim.run_pipeline(at.scene.mr))
        sim.add_job(pushed[-1], "test")
    seconds_after(pushed[-1], REST + 1, at)
    ends = [type(at.run_failed(each, debounce=REST)) for each in pushed]
    assert ends == [Skipped] * 3 + [Finished]


@pytest.mark.parametrize("seconds", [-3600.0, -61.0, REST, 86400.0])
def test_an_old_failure_does_not_rest_and_neither_does_one_of_a_clock_gone_wrong(
    at: Job, seconds: float
) -> None:
    at.script_answers(FINDING)
    seconds_after(at.scene.pipeline, seconds, at)
    assert isinstance(at.run_failed(debounce=REST), Finished)


def test_without_a_debounce_nothing_rests(at: Job) -> None:
    at.script_answers(FINDING)
    seconds_after(at.scene.pipeline, 0, at)
    assert isinstance(at.run_failed(), Finished)


def test_what_rests_is_kept_in_the_journal_and_is_no_failed_try(at: Job) -> None:
    later: list[tuple[Trigger, float]] = []
    deps = at.build_deps(debounce=REST)
    seconds_after(at.scene.pipeline, 10, at)
    trigger = at.make_trigger()
    delivery.deliver_trigger(trigger, deps, ignore_event, lambda *told: later.append(told))
    ((again, seconds),) = later
    assert (again, round(seconds)) == (trigger, 20)
    (name,) = deps.queue.journal.list_names()
    noted = deps.queue.journal.read_entry(name)
    assert noted is not None
    assert (noted.entry.state, noted.entry.tries) == (State.WAITING, 0)
    assert noted.entry.due == pytest.approx(at.clock.now() + 20)


@pytest.mark.attack("pages")
def test_a_new_sessions_id_cannot_be_computed_from_what_everybody_reads(at: Job) -> None:
    at.script_answers(FINDING)
    salt = make_id_salt(at.store.read_installation_key())
    public = at.find_key()
    assert isinstance(at.run_failed(id_salt=salt), Finished)
    (key,) = at.list_sessions()
    assert (key.project_id, key.mr_iid) == (public.project_id, public.mr_iid)
    assert key.session_id != public.session_id
    assert isinstance(at.run_failed(id_salt=salt), Skipped)
    assert at.list_sessions() == [key]


def test_a_session_that_an_earlier_version_began_is_found_and_not_begun_again(at: Job) -> None:
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)
    salt = make_id_salt(at.store.read_installation_key())
    again = at.run_failed(id_salt=salt)
    assert "was looked at" in read_reason(again)
    assert len(at.list_notes()) == len(at.list_sessions()) == 1
    at.sim.push(at.scene.mr, {"file": b"more"})
    other = at.sim.run_pipeline(at.scene.mr)
    at.sim.add_job(other, "test")
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(other, id_salt=salt), Finished)
    old, new = sorted(at.list_sessions(), key=lambda key: key != at.find_key(at.scene.pipeline))
    assert old == at.find_key(at.scene.pipeline)
    assert new != at.find_key(other)
