"""Finds the job for a trigger by its kind."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from worker.clock import Clock
from worker.conversation.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger
from worker.jobs import comment, pipeline_failed, pipeline_passed, reaction
from worker.jobs.results import CommandAnswered, VotesCounted
from worker.turns.parts import Attempt, Deps, Ended, NotesMarked


class SteadyClock:
    """The clock of one run. Its epoch seconds go on evenly from the run's beginning, so that a
    machine whose clock is set meanwhile neither ends the run nor gives it more time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shift = clock.now() - clock.monotonic()

    def now(self) -> float:
        """Epoch seconds."""
        return self._clock.monotonic() + self._shift

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._clock.sleep(seconds)


Result = Ended | CommandAnswered | NotesMarked | VotesCounted


def find_job(trigger: Trigger, deps: Deps, run: Attempt) -> Callable[[], Result]:
    """Return the function that handles a trigger.

    It runs by a SteadyClock. The function raises SandpiperError; after a `transient` one it may be
    called again.
    """
    clock = SteadyClock(deps.runtime.clock)
    deps = replace(deps, runtime=replace(deps.runtime, clock=clock))
    match trigger:
        case PipelineFailed():
            return partial(pipeline_failed.analyse_pipeline, trigger, deps, run)
        case PipelinePassed():
            return partial(pipeline_passed.mark_notes, trigger, deps, run.watch)
        case Replied():
            return partial(comment.answer_comment, trigger, deps, run)
        case Reacted():
            return partial(reaction.count_votes, trigger, deps, run.watch)
