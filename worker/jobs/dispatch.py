"""What kind of trigger it is, and who deals with it."""

from worker.core.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger
from worker.jobs import comment, pipeline_failed, pipeline_passed, reaction
from worker.jobs.results import CommandAnswered, VotesCounted
from worker.turns.parts import Deps, Run
from worker.turns.results import Ended, NotesMarked, Skipped

_RUN = Run()

Result = Ended | CommandAnswered | NotesMarked | VotesCounted


def run_trigger(trigger: Trigger, deps: Deps, run: Run = _RUN) -> Result:
    """Deal with one trigger. Raises SandpiperError; `transient` ones may be run again."""
    match trigger:
        case PipelineFailed():
            return pipeline_failed.analyse_pipeline(trigger, deps, run)
        case PipelinePassed():
            return pipeline_passed.mark_notes(trigger, deps)
        case Replied():
            return comment.answer_comment(trigger, deps, run)
        case Reacted():
            counted = reaction.count_votes(trigger, deps, run.watch)
            return Skipped(counted) if isinstance(counted, str) else counted
