"""Something else answers in GitLab's place for a while, at any moment of a run, or for good."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim, OddGitLab
from worker.conversation.events import Asking, Event
from worker.conversation.triggers import Trigger
from worker.jobs import delivery
from worker.jobs.repair import heal_notes, resume_abandoned
from worker.queue.journal import DOUBT, State, name_entry

pytestmark = pytest.mark.attack("odd answers")

BURST = 12.0
PLACES = {
    "everything": ("", ""),
    "reads": ("GET", ""),
    "pipeline": ("GET", "/pipelines/"),
    "own notes": ("GET", "/notes$"),
    "placeholder": ("POST", "/notes$"),
}


class Runs:
    """Delivers a trigger as often as it is promised for later, by the clock of the test."""

    def __init__(self, at: Job) -> None:
        self.at = at
        self.began = at.clock.time
        self.later: list[tuple[Trigger, float]] = []
        self.on_event: Callable[[Event], None] = lambda event: None

    def deliver(self, trigger: Trigger) -> None:
        delivery.deliver_trigger(
            *(trigger, self.at.build_deps(), lambda event: self.on_event(event)),
            lambda again, seconds: self.later.append((again, seconds)),
        )

    def wait(self) -> Trigger:
        trigger, seconds = self.later.pop()
        self.at.clock.time += seconds
        return trigger

    def until_ended(self, trigger: Trigger, burst: AbstractContextManager[None] | None) -> None:
        """Deliver until nothing is promised; `burst` begins now, and ends in its time."""
        with ExitStack() as open_burst:
            if burst:
                open_burst.enter_context(burst)
            self.deliver(trigger)
            while self.later:
                trigger = self.wait()
                if self.at.clock.time >= self.began + BURST:
                    open_burst.close()
                self.deliver(trigger)

    def read_state(self, trigger: Trigger) -> State | None:
        stored = self.at.build_deps().queue.journal.read_entry(name_entry(trigger))
        return stored.entry.state if stored else None

    def sweep(self) -> list[str]:
        begun: list[Trigger] = []
        lines = [each.what for each in resume_abandoned(self.at.build_deps(), begun.append)]
        for trigger in begun:
            self.until_ended(trigger, None)
        return lines + list(heal_notes(self.at.build_deps(), 0.0))


@pytest.fixture
def runs(at: Job) -> Iterator[Runs]:
    yield Runs(at)
    assert at.sim.unexpected_requests == []


def assert_one_finding(at: Job, runs: Runs, trigger: Trigger) -> None:
    """One note, with the finding; nothing is left, and the model was asked once."""
    assert runs.read_state(trigger) is None
    (note,) = at.list_notes()
    assert "A race in the test" in note.body
    assert "will replace this note" not in note.body
    assert len(at.model.requests) == 1


@pytest.mark.parametrize("place", list(PLACES))
@pytest.mark.parametrize("kind", list(OddGitLab))
def test_a_burst_of_odd_answers_delays_a_run_and_costs_nothing(
    at: Job, sim: GitLabSim, runs: Runs, kind: OddGitLab, place: str
) -> None:
    at.script_answers(FINDING)
    runs.until_ended(at.make_trigger(), sim.answering(kind, *PLACES[place]))
    assert sim.given
    assert_one_finding(at, runs, at.make_trigger())


@pytest.mark.parametrize("method", ["", "PUT", "GET"])
@pytest.mark.parametrize("kind", list(OddGitLab))
def test_a_finished_finding_is_kept_and_posted_without_asking_the_model_again(
    at: Job, sim: GitLabSim, runs: Runs, kind: OddGitLab, method: str
) -> None:
    at.script_answers(FINDING)
    with ExitStack() as burst:

        def strike(event: Event) -> None:
            if isinstance(event, Asking):
                burst.enter_context(sim.answering(kind, method))

        runs.on_event = strike
        runs.deliver(at.make_trigger())
        burst.close()
    while runs.later:
        runs.deliver(runs.wait())
    assert sim.given or method == "GET"
    assert_one_finding(at, runs, at.make_trigger())


@pytest.mark.parametrize(
    "kind", [OddGitLab.UNAUTHORIZED, OddGitLab.PAGE, OddGitLab.LOGIN, OddGitLab.EMPTY]
)
def test_what_lasts_is_parked_after_ten_minutes_and_the_sweep_posts_what_was_found(
    at: Job, sim: GitLabSim, runs: Runs, kind: OddGitLab
) -> None:
    at.script_answers(FINDING)
    trigger = at.make_trigger()
    with sim.answering(kind, "PUT"):
        runs.deliver(trigger)
        while runs.later:
            assert runs.read_state(trigger) is State.WAITING
            runs.deliver(runs.wait())
        assert runs.read_state(trigger) is State.PARKED
        assert at.clock.time - runs.began >= DOUBT
    (promise,) = at.list_notes()
    assert "will replace this note" in promise.body
    assert any("parked trigger" in line for line in runs.sweep())
    assert_one_finding(at, runs, trigger)


def test_a_merge_request_that_is_gone_ends_its_trigger_after_ten_minutes(
    at: Job, sim: GitLabSim, runs: Runs
) -> None:
    trigger = at.make_trigger()
    with sim.answering(OddGitLab.MISSING, "GET", "/merge_requests/"):
        runs.deliver(trigger)
        while runs.later:
            runs.deliver(runs.wait())
    assert at.clock.time - runs.began >= DOUBT
    assert runs.read_state(trigger) is None
    assert at.list_notes() == []


def test_doubts_that_something_else_came_between_begin_anew(
    at: Job, sim: GitLabSim, runs: Runs
) -> None:
    at.script_answers(FINDING)
    trigger = at.make_trigger()
    for _ in range(4):
        with sim.answering(OddGitLab.LOGIN):
            runs.deliver(trigger)
        runs.wait()
        sim.fail_next("GET", "", 502, times=3)
        runs.deliver(trigger)
        at.clock.time += DOUBT
        runs.later.clear()
    runs.until_ended(trigger, None)
    assert_one_finding(at, runs, trigger)


def test_a_clock_that_jumps_ahead_ends_no_doubt(at: Job, sim: GitLabSim, runs: Runs) -> None:
    at.script_answers(FINDING)
    trigger = at.make_trigger()
    with sim.answering(OddGitLab.UNAUTHORIZED):
        runs.deliver(trigger)
        at.clock.time += 3600.0
        runs.deliver(runs.wait())
        assert runs.read_state(trigger) is State.WAITING
    runs.until_ended(runs.wait(), None)
    assert_one_finding(at, runs, trigger)


def test_a_parked_run_writes_its_reason_into_its_placeholder(
    at: Job, sim: GitLabSim, runs: Runs
) -> None:
    at.script_answers(FINDING)
    sim.fail_next("PUT", "/notes/", 422)
    runs.deliver(at.make_trigger())
    assert runs.read_state(at.make_trigger()) is State.PARKED
    (note,) = at.list_notes()
    assert "will replace this note" not in note.body
    assert "422" in note.body


def test_the_sweep_writes_the_reason_where_gitlab_took_none(
    at: Job, sim: GitLabSim, runs: Runs
) -> None:
    at.script_answers(FINDING)
    sim.fail_next("PUT", "/notes/", 422, times=2)
    runs.deliver(at.make_trigger())
    (note,) = at.list_notes()
    assert "will replace this note" in note.body
    assert any("it says why there is none" in line for line in runs.sweep())
    (note,) = at.list_notes()
    assert "will replace this note" not in note.body
    assert "422" in note.body
    assert runs.sweep() == []


def test_a_finding_that_gitlab_refused_to_the_end_is_posted_by_the_sweep(
    at: Job, sim: GitLabSim, runs: Runs
) -> None:
    at.script_answers(FINDING)
    trigger = at.make_trigger()
    with sim.answering(OddGitLab.MISSING, "PUT"):
        runs.deliver(trigger)
        while runs.later:
            runs.deliver(runs.wait())
    assert runs.read_state(trigger) is None
    assert any("the finding of its session is there now" in line for line in runs.sweep())
    assert_one_finding(at, runs, trigger)
