"""Finds the job for a trigger by its kind."""

from collections.abc import Callable
from functools import partial

from worker.core.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger
from worker.jobs import comment, pipeline_failed, pipeline_passed, reaction
from worker.jobs.results import CommandAnswered, VotesCounted
from worker.turns.parts import Deps, Run
from worker.turns.results import Ended, NotesMarked

Result = Ended | CommandAnswered | NotesMarked | VotesCounted


def find_job(trigger: Trigger, deps: Deps, run: Run) -> Callable[[], Result]:
    """Return the function that handles a trigger.

    The function raises SandpiperError; after a `transient` one it may be called again.
    """
    match trigger:
        case PipelineFailed():
            return partial(pipeline_failed.analyse_pipeline, trigger, deps, run)
        case PipelinePassed():
            return partial(pipeline_passed.mark_notes, trigger, deps, run.watch)
        case Replied():
            return partial(comment.answer_comment, trigger, deps, run)
        case Reacted():
            return partial(reaction.count_votes, trigger, deps, run.watch)
