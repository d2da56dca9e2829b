"""What kind of trigger it is, and who deals with it."""

from worker.core.events import Watcher, unwatched
from worker.core.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger
from worker.jobs import comment, pipeline_failed, pipeline_passed, reaction
from worker.jobs.results import Counted, Told
from worker.turns.parts import Deps
from worker.turns.results import Ended, Settled, Skipped

Result = Ended | Told | Settled | Counted


def run(trigger: Trigger, deps: Deps, watch: Watcher = unwatched) -> Result:
    """Deal with one trigger. Raises SandpiperError; `transient` ones may be run again."""
    match trigger:
        case PipelineFailed():
            return pipeline_failed.analyse_pipeline(trigger, deps, watch)
        case PipelinePassed():
            return pipeline_passed.mark_notes(trigger, deps)
        case Replied():
            return comment.answer_comment(trigger, deps, watch)
        case Reacted():
            counted = reaction.count_votes(trigger, deps, watch)
            return Skipped(counted) if isinstance(counted, str) else counted
