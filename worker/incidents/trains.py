"""Who broke a merge train: the first car that failed while the one in front of it passed. Pure.

A car runs on the branch with all that is in front of it. Two runs are of the same code if the same
merge requests are in it, whether they have landed since or not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from worker.incidents.explain import Pair, explain_request
from worker.incidents.record import (
    BranchRecord,
    JobEnd,
    JobOutcome,
    PipelineKind,
    RequestRecord,
    TrainBreak,
    TrainCause,
)
from worker.incidents.sightings import History

_Code = tuple[str, ...]
"""What is in a run, from the branch's oldest landing: merge requests (`!7`) and other commits."""

_ORDER = (TrainCause.BRANCH, TrainCause.CAR, TrainCause.OWN)


def find_breaker(
    record: BranchRecord,
    request: RequestRecord,
    runs: Iterable[RequestRecord],
    others: Iterable[RequestRecord] = (),
) -> TrainBreak:
    """Return who broke the train in which a merge request failed.

    `runs` are runs of the train's cars, passed ones too, and other runs of the merge request. What
    one of the `others` shows without the car is not what the car brought.
    """
    if request.kind is not PipelineKind.MERGE_TRAIN:
        return TrainBreak()
    runs = tuple(runs)
    train = _Train(record, request, runs)
    by_branch = set(explain_request(record, request).explained_errors)
    brought: dict[Pair, TrainBreak] = {}
    for job in request.jobs:
        for key in [*job.keys] or [""] if job.outcome is JobOutcome.FAILED else ():
            found = TrainBreak(TrainCause.BRANCH)
            if (job.name, key) not in by_branch:
                found = train.find(job, key)
            if found.car and train.is_shown_without(found.car, job.name, key, (*runs, *others)):
                found = TrainBreak()
            brought[job.name, key] = found
    known = [each for each in brought.values() if each.cause is not TrainCause.UNKNOWN]
    if not known:
        return TrainBreak()
    first = min(known, key=lambda each: (_ORDER.index(each.cause), each.car))
    explained = tuple(
        pair
        for pair, each in brought.items()
        if (each.cause, each.car) == (first.cause, first.car) and first.cause is not TrainCause.OWN
    )
    own = tuple(pair for pair in brought if pair not in explained)
    return TrainBreak(
        first.cause,
        first.car,
        first.together_with,
        explained,
        own,
        first.red_pipeline,
        first.green_pipeline,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    pipeline_id: int
    jobs: Sequence[JobEnd]
    is_train: bool

    def lacks(self, job: str) -> bool:
        """Whether it is a car's run that has passed without such a job."""
        passed = all(each.outcome is JobOutcome.PASSED for each in self.jobs)
        return self.is_train and bool(self.jobs) and passed and self.find(job) == []

    def find(self, job: str) -> list[JobEnd]:
        """Return the attempts of a job."""
        return [each for each in self.jobs if each.name == job]


class _Train:
    """The runs of a train, by the code that they ran on."""

    def __init__(
        self, record: BranchRecord, request: RequestRecord, runs: Iterable[RequestRecord]
    ) -> None:
        self._request = request
        self._landings = record.landings
        self._tokens = [f"!{e.mr_iid}" if e.mr_iid else e.sha for e in record.landings]
        self._ranks = {each.sha: at for at, each in enumerate(record.landings)}
        self._requests = [each for each in runs if each.base in self._ranks]
        self._runs: dict[_Code, list[_Run]] = {}
        base = self._ranks.get(request.base, -1)
        for pipeline in History(record).pipelines:
            # What landed later may be another state of a merge request than was in the train.
            if self._ranks.get(pipeline.sha, base + 1) <= base:
                self._add(pipeline.sha, (), _Run(pipeline.pipeline_id, pipeline.jobs, False))
        for each in self._requests:
            if each.kind is PipelineKind.MERGE_TRAIN:
                run = _Run(each.pipeline_id, each.jobs, True)
                self._add(each.base, (*each.cars, each.mr_iid), run)

    def _add(self, base: str, cars: Sequence[int], run: _Run) -> None:
        self._runs.setdefault(self._spell(base, cars), []).append(run)

    def _spell(self, base: str, cars: Sequence[int]) -> _Code:
        landed = self._tokens[: self._ranks[base] + 1]
        return (*landed, *(f"!{car}" for car in cars))

    def _list_code(self, request: RequestRecord) -> _Code:
        return self._spell(request.base, (*request.cars, request.mr_iid))

    def find(self, job: JobEnd, key: str) -> TrainBreak:
        """Return who brought an error of the car's job."""
        request = self._request
        if request.base not in self._ranks:
            return TrainBreak()
        cars = (*request.cars, request.mr_iid)
        codes = [self._spell(request.base, cars[:at]) for at in range(len(cars))]
        seen = [self._see(code, job, key) for code in codes]
        # What a car in front has mended is not why those behind it fail.
        mended = (at for at, code in enumerate(codes) if seen[at][0] and self._has(code, job.name))
        last = max(mended, default=-1)
        seen.append((False, request.pipeline_id))
        first = next(at for at in range(last + 1, len(seen)) if seen[at][0] is False)
        if first == 0:
            return TrainBreak(TrainCause.BRANCH)
        passed, pipeline_id = seen[first - 1]
        if not passed:
            return TrainBreak()
        car, is_own = cars[first - 1], first == len(cars)
        return TrainBreak(
            TrainCause.OWN if is_own else TrainCause.CAR,
            car,
            self._find_partner(job.name) if is_own else 0,
            red_pipeline=seen[first][1],
            green_pipeline=pipeline_id,
        )

    def _has(self, code: _Code, job: str) -> bool:
        return any(run.find(job) for run in self._runs.get(code, ()))

    def _see(self, code: _Code, job: JobEnd, key: str) -> tuple[bool | None, int]:
        """Whether a job passes without an error on some code, and the pipeline that shows it; None
        if that is not known.

        A job that fails with fewer errors has passed the error that it has not.
        """
        runs = [(run, run.find(job.name)) for run in self._runs.get(code, ())]
        for run, jobs in runs:
            if any(each.outcome is JobOutcome.FAILED and key in each.keys for each in jobs):
                return False, run.pipeline_id
        for run, jobs in runs:
            if any(each.outcome is JobOutcome.PASSED for each in jobs) or run.lacks(job.name):
                return True, run.pipeline_id
            failed = [each for each in jobs if each.outcome is JobOutcome.FAILED]
            if any(each.keys and each.keys < job.keys for each in failed):
                return True, run.pipeline_id
        return None, 0

    def is_shown_without(
        self, car: int, job: str, key: str, requests: Iterable[RequestRecord]
    ) -> bool:
        """Whether a run that has not the car's change in it fails so, too."""
        requests = tuple(requests)
        commits = {
            sha for each in (self._request, *requests) if each.mr_iid == car
            for sha in each.contains
        }  # fmt: skip
        landed = [at for at, each in enumerate(self._landings) if each.mr_iid == car]
        return any(
            end.outcome is JobOutcome.FAILED and end.name == job and key in end.keys
            for each in requests
            if each.kind is PipelineKind.DETACHED or each.base in self._ranks
            if car not in (*each.cars, each.mr_iid)
            and commits.isdisjoint(each.contains)
            and self._ranks.get(each.base, -1) < min(landed, default=len(self._landings))
            for end in each.jobs
        )

    def _find_partner(self, job: str) -> int:
        """Return the one car in front without which the job passes, 0 if there is none, or several
        may be it."""
        missing: list[frozenset[str]] = []
        code = frozenset(self._list_code(self._request))
        for each in self._requests:
            other = frozenset(self._list_code(each))
            passed = any(e.name == job and e.outcome is JobOutcome.PASSED for e in each.jobs)
            if each.mr_iid == self._request.mr_iid and passed and other <= code:
                missing.append(code - other)
        named = min(missing, key=len, default=frozenset())
        return int(next(iter(named))[1:]) if len(named) == 1 and min(named)[:1] == "!" else 0
