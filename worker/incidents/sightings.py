"""What each run of a branch tells of one error, in the order of the branch's commits. Pure.

The newest commit counts, not the newest event: what ran is put in the order in which the commits
landed, and only within one commit in the order of time. All times are GitLab's, by one clock.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import groupby

from worker.incidents.record import BranchPipeline, BranchRecord, JobEnd, JobOutcome, Landing

_AT_ONCE, _MOST_QUEUEING = 1.5, 300.0
"""An attempt that follows another at once, as GitLab's own `retry:` makes it, has begun within so
many seconds, and has ended after at most this many times as long as the first one took from the
making of its pipeline."""

_SILENT = "silent:"
SILENT_TEXT = "no error is known: the log shows none, or could not be read"
"""What stands for the error of a branch's failed job of which none is known."""

_PART = re.compile(r" \d{1,4}/\d{1,4}$")
"""What GitLab adds to the name of a job with `parallel: 3`."""


class Sight(Enum):
    """What a run of a job says of one error."""

    GREEN = "the job passed"
    RED = "it failed with that error"
    MASKED = "it failed otherwise: the error may be there or not"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One run of a job, as it tells of one error."""

    sight: Sight
    rank: int
    """The place of its commit on the branch."""
    ended_at: float
    """When it ended."""
    pipeline: BranchPipeline
    job: JobEnd
    keys: frozenset[str] = frozenset()
    """What it failed with."""
    is_past: bool = False
    """Whether it is a failure of an older commit that ended when a newer one had passed."""


@dataclass(frozen=True)
class History:
    """A branch's commits and runs, put in order."""

    record: BranchRecord

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The place of each commit on the branch, the oldest is 0.

        GitLab runs pipelines on the branch's newest commit only, so a commit that is not among the
        landings has its place by the first pipeline that ran on it.
        """
        made: dict[str, int] = {}
        for pipeline in sorted(self.record.pipelines, key=lambda each: each.pipeline_id):
            made.setdefault(pipeline.sha, pipeline.pipeline_id)
        order = [landing.sha for landing in self.record.landings]
        for sha in (each for each in made if each not in self._places):
            before = [at for at, each in enumerate(order) if made.get(each, made[sha]) < made[sha]]
            order.insert(before[-1] + 1 if before else 0, sha)
        return {sha: rank for rank, sha in enumerate(order)}

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {landing.sha: at for at, landing in enumerate(self.record.landings)}

    @cached_property
    def pipelines(self) -> Sequence[BranchPipeline]:
        """The branch's pipelines in the order of their commits."""
        return sorted(
            self.record.pipelines, key=lambda each: (self.ranks[each.sha], each.pipeline_id)
        )

    @cached_property
    def names(self) -> Mapping[str, frozenset[str]]:
        """All names that each job has had, those of its parts too."""
        parts: dict[str, set[str]] = {}
        for pipeline in self.pipelines:
            for name in _list_names(pipeline):
                parts.setdefault(strip_part(name), set()).add(name)
        groups = {name: frozenset(each) for each in parts.values() for name in each}
        for old, new in _find_renames(self.pipelines):
            joined = groups[old] | groups[new]
            groups |= dict.fromkeys(joined, joined)
        return groups

    def find_between(self, older: str, newer: str) -> tuple[Landing, ...] | None:
        """Return what landed after one commit up to another one, the oldest first; None where that
        is not known."""
        first, last = self._places.get(older), self._places.get(newer)
        if first is None or last is None:
            return None
        return self.record.landings[first + 1 : last + 1]

    @cached_property
    def _runs(self) -> Mapping[frozenset[str], Sequence[Sighting]]:
        """The runs of each job in the order of the branch, as if none had an error."""
        found: dict[frozenset[str], list[Sighting]] = {}
        for pipeline in self.pipelines:
            by_names: dict[frozenset[str], list[JobEnd]] = {}
            for job in _list_results(pipeline):
                by_names.setdefault(self.names[job.name], []).append(job)
            for names, jobs in by_names.items():
                found.setdefault(names, []).extend(self._see(pipeline, jobs, names))
        return {names: _mark_past(runs) for names, runs in found.items()}

    def _see(
        self, pipeline: BranchPipeline, jobs: Sequence[JobEnd], names: frozenset[str]
    ) -> Iterator[Sighting]:
        """Yield what one pipeline shows of a job. One in several parts has passed when all have."""
        passed = []
        for job in jobs:
            at = job.ended_at or pipeline.ended_at
            sight = Sight.GREEN if job.outcome is JobOutcome.PASSED else Sight.MASKED
            run = Sighting(sight, self.ranks[pipeline.sha], at, pipeline, job, job.keys)
            if sight is Sight.MASKED:
                yield run
            else:
                passed.append(run)
        last = {job.name: job for job in sorted(pipeline.jobs, key=_get_id) if job.name in names}
        if len(last) <= 1:
            yield from passed
        elif all(job.outcome is JobOutcome.PASSED for job in last.values()):
            yield max(passed, key=lambda each: each.ended_at)

    def list_errors(self) -> Sequence[tuple[str, frozenset[str]]]:
        """Return each error that the branch has shown, as its key and its job's names."""
        found = {
            (key, names): None
            for names, runs in self._runs.items()
            for run in runs
            for key, _ in run.job.errors
        }
        return tuple(found)

    def list_sightings(self, key: str, names: frozenset[str]) -> Sequence[Sighting]:
        """Return what each run of a job tells of an error, in the order of the branch.

        A job that has failed without a known error is red, by whatever error, until it passes.
        """
        found, is_red = list[Sighting](), False
        for run in self._runs.get(names, ()):
            stays = is_red and is_silent(key)
            is_red = run.sight is Sight.MASKED and (stays or key in run.keys)
            found.append(replace(run, sight=Sight.RED) if is_red else run)
        return found


def _mark_past(runs: Sequence[Sighting]) -> Sequence[Sighting]:
    """Return the runs in the order of the branch, those marked that are over by a newer pass."""
    passed = [(run.rank, run.ended_at) for run in runs if run.sight is Sight.GREEN]
    return [
        replace(run, is_past=True)
        if run.sight is not Sight.GREEN
        and any(rank > run.rank and at < run.ended_at for rank, at in passed)
        else run
        for run in sorted(runs, key=lambda each: (each.rank, each.ended_at, each.job.job_id))
    ]


def strip_part(name: str) -> str:
    """Return a job's name without the number of its part: `unit 2/3` is a part of `unit`."""
    return _PART.sub("", name)


def make_silent_error(name: str) -> tuple[str, str]:
    """Return what a branch's failed job has in the place of an error if none is known: the same in
    each of its runs and parts, and in no other job.

    No log has that key, so it explains nothing of a merge request.
    """
    return f"{_SILENT}{strip_part(name)}", SILENT_TEXT


def is_silent(key: str) -> bool:
    """Whether it is the key of a failure without a known error."""
    return key.startswith(_SILENT)


def has_known_error(job: JobEnd) -> bool:
    """Whether a failed job has an error of its log."""
    return not all(map(is_silent, job.keys))


def _get_id(job: JobEnd) -> int:
    return job.job_id


def _list_names(pipeline: BranchPipeline) -> frozenset[str]:
    return frozenset(job.name for job in pipeline.jobs)


def _list_results(pipeline: BranchPipeline) -> Iterator[JobEnd]:
    """Return the runs of a pipeline's jobs that have a result. Of the attempts that followed each
    other at once only the last one stands: a job that passes so has never failed."""
    jobs = sorted(pipeline.jobs, key=lambda each: (each.name, each.job_id))
    for _, attempts in groupby(jobs, key=lambda each: each.name):
        stands: list[JobEnd] = []
        allowed = 0.0
        for job in attempts:
            allowed = allowed or _AT_ONCE * (job.ended_at - pipeline.created_at)
            before = stands[-1] if stands else None
            if before and before.outcome is not JobOutcome.PASSED:
                known = before.ended_at and job.ended_at
                waited = job.started_at - before.ended_at if job.started_at else 0.0
                in_time = job.ended_at - before.ended_at <= allowed and waited <= _MOST_QUEUEING
                if not known or in_time:
                    stands.pop()
            stands.append(job)
        yield from (job for job in stands if job.outcome is not JobOutcome.NO_RESULT)


def _find_renames(pipelines: Iterable[BranchPipeline]) -> Iterator[tuple[str, str]]:
    """Return the jobs that were renamed while they were red, as the old and the new name.

    The old name was last seen with an error, and the new one has come after it, in pipelines of the
    same kind, with the same error before it ever passed.
    """
    ordered = list(pipelines)
    for source in sorted({each.source for each in ordered}):
        seen: dict[str, tuple[int, int]] = {}
        new_keys: dict[str, frozenset[str]] = {}
        last_keys: dict[str, frozenset[str]] = {}
        has_passed = set[str]()
        for at, pipeline in enumerate(ordered):
            if pipeline.source == source:
                for name in _list_names(pipeline):
                    seen[name] = (seen.get(name, (at, at))[0], at)
                for job in _list_results(pipeline):
                    last_keys[job.name] = job.keys
                    if job.outcome is JobOutcome.PASSED:
                        has_passed.add(job.name)
                    elif job.name not in has_passed:
                        new_keys[job.name] = new_keys.get(job.name, frozenset()) | job.keys
        for old, (_, last) in seen.items():
            still = any(old in _list_names(each) for each in ordered[last + 1 :])
            for new, keys in new_keys.items() if not still else ():
                if last < seen[new][0] and keys & last_keys.get(old, frozenset()):
                    yield old, new
