"""The runs by which it is seen who broke a merge train: those of what is in front of a car.

A train's pipeline runs on a commit that GitLab has made onto that of the car in front. Only runs on
the very same commits count, as a merge request may change between two trains.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing, NotFound, ReadClient
from worker.gitlab.read.branch import ENDED
from worker.gitlab.read.job_ends import JobEndReader, get_end_time
from worker.gitlab.read.subjects import list_pipelines, read_merge_request
from worker.incidents.record import BranchPipeline, BranchRecord, PipelineKind, RequestRecord
from worker.verdict.facts import parse_time

MOST_RUNS = 8
"""Cars in front whose jobs are read, from the nearest on; those stored before are not counted."""

MOST_OWN = 3
"""Other runs of the car's own merge request that are read, the newest."""

_BELOW = 60
"""Commits below a train's that are listed: a train that only moves the branch forward has all
commits of its cars."""

_KINDS = {"merge": PipelineKind.MERGED_RESULT, "train": PipelineKind.MERGE_TRAIN}


@dataclass(frozen=True, slots=True)
class TrainRuns:
    """What a car failed on, and the runs of what is in front of it."""

    request: RequestRecord
    """The car, with what is in front of it."""
    record: BranchRecord
    """The branch, with what a train has shown of its commit."""
    runs: tuple[RequestRecord, ...] = ()
    is_known: bool = False
    """Whether it is known on what it ran."""
    is_settled: bool = True
    """Whether all the runs have ended, and the branch's own."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What a commit that GitLab made stands on: the branch's newest commit, and the pipelines of
    the cars in front, the first one first. `content` is the merge request's own last commit, "" if
    that is not seen."""

    base: str
    cars: tuple[wire.Pipeline, ...] = ()
    content: str = ""

    @property
    def iids(self) -> tuple[int, ...]:
        """The merge requests in front."""
        return tuple(_find_iid(each) for each in self.cars)


@dataclass(frozen=True, slots=True)
class TrainReader:
    """Reads the trains into one branch. `redact` takes the secrets out of a text."""

    client: ReadClient
    record: BranchRecord
    redact: Callable[[str], str]

    def read(self, request: RequestRecord, known: Iterable[RequestRecord]) -> TrainRuns:
        """Return the runs in front of a car that has failed, from the nearest to the first one that
        has passed. Those that are `known` are not read again. Raises SourceError."""
        listed = self._list_trains()
        place = self._find_place(self._read_pipeline(request.pipeline_id).sha, listed)
        if place is None:
            return TrainRuns(request, self.record)
        stored = {each.pipeline_id: each for each in known}
        found: list[RequestRecord] = []
        is_settled, passed, read = True, False, 0
        for at in reversed(range(len(place.cars))):
            pipeline, front = place.cars[at], place.iids[:at]
            is_settled = is_settled and pipeline.status in ENDED
            before = stored.get(pipeline.id)
            if before is None and read < MOST_RUNS and pipeline.status in ("success", "failed"):
                before, read = self._read_run(pipeline, PipelineKind.MERGE_TRAIN), read + 1
            if before is not None:
                found.append(replace(before, base=place.base, cars=front))
            if passed := pipeline.status == "success":
                break
        ran, record = passed or self._has_run(place.base), self.record
        if not ran and (landed := self._find_landed(place.base, listed)):
            record, ran = replace(record, pipelines=(*record.pipelines, landed)), True
        request = replace(request, base=place.base, cars=place.iids)
        return TrainRuns(request, record, tuple(found), True, is_settled and ran)

    def find_base(self, sha: str) -> tuple[str, tuple[int, ...]]:
        """Return the branch's newest commit in the one that a train's pipeline ran on, "" if that
        is not certain, and the cars in front. Raises SourceError."""
        place = self._find_place(sha, self._list_trains())
        return (place.base, place.iids) if place else ("", ())

    def read_own(self, request: RequestRecord) -> tuple[RequestRecord, ...]:
        """Return other runs of a car's merge request that have passed, with the same own commits.
        Raises SourceError."""
        project, listed = self.record.project_id, self._list_trains()
        own = self._find_place(self._read_pipeline(request.pipeline_id).sha, listed)
        if own is None or not own.content:
            return ()
        found: list[RequestRecord] = []
        pipelines = list_pipelines(self.client, project, request.mr_iid)
        passed = [each for each in pipelines if each.status == "success"]
        for each in sorted(passed, key=lambda one: -one.id)[:MOST_OWN]:
            ref = wire.OF_MR.fullmatch(each.ref)
            kind = _KINDS.get(ref[2] if ref else "", PipelineKind.DETACHED)
            place: _Place | None = None
            if kind is not PipelineKind.DETACHED:
                place = self._find_place(each.sha, listed)
            elif each.sha == own.content:
                refs = read_merge_request(self.client, project, request.mr_iid).diff_refs
                if refs and refs.head_sha == each.sha:
                    place = _Place(refs.base_sha, content=each.sha)
            if place and place.content == own.content:
                run = self._read_run(each, kind, request.mr_iid)
                found.append(replace(run, base=place.base, cars=place.iids))
        return tuple(found)

    def _has_run(self, sha: str) -> bool:
        return any(each.sha == sha for each in self.record.pipelines)

    def _read_run(
        self, pipeline: wire.Pipeline, kind: PipelineKind, mr_iid: int = 0
    ) -> RequestRecord:
        ends = JobEndReader(self.client, self.record.project_id, self.redact)
        with_errors = pipeline.status == "failed"
        jobs, _ = ends.read_newest(pipeline.id, with_errors=with_errors)
        iid = mr_iid or _find_iid(pipeline)
        return RequestRecord(iid, pipeline.id, get_end_time(jobs), kind, jobs=jobs)

    def _read_pipeline(self, pipeline_id: int) -> wire.Pipeline:
        path = f"/projects/{self.record.project_id}/pipelines/{pipeline_id}"
        return self.client.one(path, wire.Pipeline, f"pipeline {pipeline_id}")

    def _list_trains(self) -> Listing[wire.Pipeline]:
        """List the newest pipelines of merge requests."""
        path, what = f"/projects/{self.record.project_id}/pipelines", "the merge trains' pipelines"
        query = {"source": "merge_request_event"}
        return self.client.page(path, wire.Pipeline, what, 1, 100, query)

    def _find_place(self, sha: str, listed: Listing[wire.Pipeline]) -> _Place | None:
        """Return what a commit stands on, None if that is not certain."""
        commits = self._list_below(sha)
        own = commits[0].parent_ids[1:] if commits else ()
        landed_at = {each.sha: each.landed_at for each in self.record.landings}
        tips = _find_tips(listed)
        cars: list[wire.Pipeline] = []
        has_gap = False
        for commit in commits[1:]:
            if commit.id in landed_at:
                if has_gap and not _reaches(listed, landed_at[commit.id]):
                    return None
                content = own[0] if len(own) == 1 else ""
                return _Place(commit.id, tuple(reversed(cars)), content)
            if tip := tips.get(commit.id):
                cars.append(tip)
            elif len(commit.parent_ids) != 1:
                return None  # a car whose pipeline is not known
            else:
                has_gap = True  # one of the commits of a car that is moved forward, or a car
        return None

    def _list_below(self, sha: str) -> Sequence[wire.Commit]:
        """Return the commit and what it was made onto, by the first parents; none if it is gone."""
        path = f"/projects/{self.record.project_id}/repository/commits"
        query, what = {"ref_name": sha, "first_parent": "true"}, f"the commits below {sha[:8]}"
        try:
            return self.client.page(path, wire.Commit, what, 1, _BELOW, query).items
        except NotFound:
            return ()

    def _find_landed(self, base: str, listed: Listing[wire.Pipeline]) -> BranchPipeline | None:
        """Return the passed run of a train whose only car has become the branch's commit `base`:
        it ran on the same code."""
        run = _find_tips(listed).get(base) or self._find_merged(base, listed)
        if run is None or run.status != "success":
            return None
        jobs = self._read_run(run, PipelineKind.MERGE_TRAIN).jobs
        ended = get_end_time(jobs)
        return BranchPipeline(run.id, base, run.source, ended, ended, jobs, run.web_url)

    def _find_merged(self, base: str, listed: Listing[wire.Pipeline]) -> wire.Pipeline | None:
        """Return the newest run of a train whose only car was merged as `base`, on what was the
        branch before; the branch was not moved forward to the run's own commit."""
        landings = [each.sha for each in self.record.landings]
        at = landings.index(base)
        path = f"/projects/{self.record.project_id}/repository/commits/{base}/merge_requests"
        what, query = f"the merge requests of commit {base[:8]}", {"state": "merged"}
        try:
            found = self.client.many(path, wire.MergeRequest, what, query, pages=1).items
        except NotFound:
            return None
        made = [each for each in found if base in (each.merge_commit_sha, each.squash_commit_sha)]
        if len(made) != 1 or not at:
            return None
        name = f"refs/merge-requests/{made[0].iid}/train"
        runs = (each for each in listed.items if each.ref == name)
        newest = max(runs, key=lambda each: each.id, default=None)
        place = self._find_place(newest.sha, listed) if newest else None
        return newest if place and not place.cars and place.base == landings[at - 1] else None


def _find_iid(pipeline: wire.Pipeline) -> int:
    named = wire.OF_MR.fullmatch(pipeline.ref)
    return int(named[1]) if named else 0


def _find_tips(listed: Listing[wire.Pipeline]) -> Mapping[str, wire.Pipeline]:
    """Return the trains' pipelines by the commits that they ran on."""
    refs = ((each, wire.OF_MR.fullmatch(each.ref)) for each in listed.items)
    trains = [each for each, ref in refs if ref and ref[2] == "train"]
    return {each.sha: each for each in sorted(trains, key=lambda each: each.id)}


def _reaches(listed: Listing[wire.Pipeline], since: float) -> bool:
    """Whether all pipelines that were made since then are listed."""
    oldest = min((parse_time(each.created_at or "") or 0.0 for each in listed.items), default=0.0)
    return not listed.more or oldest < since
