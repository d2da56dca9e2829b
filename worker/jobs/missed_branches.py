"""Begins what the lost webhooks of watched branches were to begin; part of `sandpiper sweep`.

A branch is looked at as a whole, so its newest pipeline that was not seen is enough: the look reads
the others from GitLab, too. A red branch is looked at in any case: no webhook tells that a branch
or a project is no more; and so is one with cars of a merge train that wait for a run in front,
which is no run of the branch. Beginning one twice does no harm.
"""

from collections.abc import Callable, Iterator, Sequence

from worker.conversation.triggers import BranchEnded
from worker.gitlab.ports import EndedRun
from worker.incidents.record import BranchRecord
from worker.jobs.repair import Swept
from worker.safety.untrusted import one_line
from worker.turns.parts import Deps

_LONGEST_NAME = 80


def begin_missed_branches(
    deps: Deps, since: float, most: int, begin: Callable[[BranchEnded], None]
) -> Iterator[Swept]:
    """Call `begin` for at most `most` watched branches that are red or awaited, or have a pipeline
    that nobody has looked at, and yield all branches that were compared.

    `since` is in epoch seconds. Raises StoreError and what `begin` raises.
    """
    watched, begun = deps.options.incident_settings.branches, set[tuple[int, str]]()
    for runs in deps.gitlab.pipelines.find_ended_runs(watched, since):
        if len(begun) >= most:
            return
        if isinstance(runs, str):
            yield Swept("GitLab", runs, is_gap=True)
            continue
        project, branch = runs[0].project_id, runs[0].branch
        missed = find_missed(runs, deps.storage.incidents.read_branch(project, branch))
        if isinstance(missed, str):
            yield Swept(_describe(project, branch), missed)
            continue
        begun.add((project, branch))
        yield _begin(BranchEnded(project, missed.pipeline_id, missed.sha, branch), deps, begin)
    for record in deps.storage.incidents.list_branches() if watched else ():
        if len(begun) >= most:
            return
        place = (record.project_id, record.branch)
        is_awaited = bool(record.open_incidents or record.waiting_cars)
        if is_awaited and record.pipelines and place not in begun:
            begun.add(place)
            last = record.pipelines[-1]
            trigger = BranchEnded(record.project_id, last.pipeline_id, last.sha, record.branch)
            yield _begin(trigger, deps, begin)


def _begin(trigger: BranchEnded, deps: Deps, begin: Callable[[BranchEnded], None]) -> Swept:
    place = _describe(trigger.project_id, trigger.ref)
    what = f"pipeline {trigger.pipeline_id} of {place}"
    if deps.queue.journal.has_pipeline(trigger):
        return Swept(what, "its trigger is in the journal")
    begin(trigger)
    return Swept(what)


def _describe(project_id: int, branch: str) -> str:
    return f"branch {one_line(branch, _LONGEST_NAME)} of project {project_id}"


def find_missed(runs: Sequence[EndedRun], record: BranchRecord | None) -> EndedRun | str:
    """Return the newest pipeline that the record does not have, or has as it was before its jobs
    ran again; or why there is nothing to look at. `runs` are the newest first, at least one.

    A branch of which nothing is known and whose newest pipeline has passed has nothing to tell,
    unless cars of a merge train wait for that.
    """
    if record is None or not record.pipelines:
        is_idle = runs[0].has_passed and not (record and record.waiting_cars)
        return "nothing is known of it, and it is green" if is_idle else runs[0]
    known = {each.pipeline_id: each.updated_at for each in record.pipelines}
    oldest = min(known)
    for run in runs:
        if run.pipeline_id < oldest:
            break  # it is too old to be kept
        seen = known.get(run.pipeline_id)
        if seen is None or (run.updated_at and seen and run.updated_at != seen):
            return run
    return "its pipelines are known"
