"""What incidents of a branch explain of a merge request's failure, and whom they hit. Pure.

An incident explains an error in a job that fails so on the branch, and nothing else: an error of
another value, another host or another job is the merge request's own.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from worker.incidents.record import (
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.sightings import History
from worker.incidents.spans import Span, find_spans, join_spans
from worker.incidents.witnesses import contains_landing, is_one_of

Pair = tuple[str, str]
"""A job's name and the key of an error."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the branch's incidents explain of a merge request's newest failure."""

    incidents: tuple[Incident, ...] = ()
    """Those that explain something of it, in the order in which they were first seen."""
    failures: tuple[BranchFailure, ...] = ()
    """The failures of the branch that do, of open incidents first."""
    explained_errors: tuple[Pair, ...] = ()
    own: tuple[Pair, ...] = ()
    """What no incident explains; the key is "" for a job without a known error."""
    green: tuple[Pair, ...] = ()
    """What is explained, and green again on the branch."""

    @property
    def is_all(self) -> bool:
        """Whether the branch explains every error of every failed job."""
        return bool(self.explained_errors) and not self.own

    @property
    def is_green(self) -> bool:
        """Whether all that the branch explains is green again there."""
        return bool(self.explained_errors) and len(self.green) == len(self.explained_errors)

    @property
    def last_end(self) -> BranchFailure | None:
        """The failure that was green again last, if all are."""
        if not self.is_green:
            return None
        return max(self.failures, key=lambda each: (each.until_at, each.until_pipeline))


def explain_request(record: BranchRecord, request: RequestRecord) -> Explanation:
    """Return what the branch's incidents explain of a merge request's failed jobs."""
    return _Branch(record).explain(request)


def list_hits(
    record: BranchRecord, requests: Iterable[RequestRecord]
) -> dict[str, tuple[int, ...]]:
    """Return the open merge requests that each incident hits, by the incident's id."""
    branch = _Branch(record)
    found: dict[str, list[int]] = {}
    for request in requests:
        if not request.is_over:
            for incident in branch.explain(request).incidents:
                if request.mr_iid not in incident.menders:
                    found.setdefault(incident.incident_id, []).append(request.mr_iid)
    return {key: tuple(sorted(iids)) for key, iids in found.items()}


def count_others(record: BranchRecord, request: RequestRecord, named: Sequence[Incident]) -> int:
    """Return how many other merge requests the incidents hit: not those that broke the branch, or
    mend it."""
    hit = {iid for each in named for iid in (*each.told_requests, *each.hits)}
    shas = {sha for one in named for each in one.failures for sha in (each.suspect, each.ended_by)}
    apart = {landing.mr_iid for landing in record.landings if landing.sha in shas}
    apart |= {iid for each in named for iid in each.menders}
    return len(hit - apart - {request.mr_iid})


def blames_unproven(record: BranchRecord, incident: Incident, text: str) -> bool:
    """Whether a model's text names a landing, by its merge request or its commit, that is not
    proven to have broken the branch: nobody is named without proof."""
    suspects = {each.suspect for each in incident.failures}
    others = [each for each in record.landings if each.sha not in suspects]
    iids = {int(found) for found in _REQUEST.findall(text)}
    shas = tuple(_COMMIT.findall(text))
    return any(
        each.mr_iid in iids or each.sha.startswith(shas) or each.mr_sha.startswith(shas)
        for each in others
    )


_REQUEST = re.compile(r"!(\d{1,18})\b")
_COMMIT = re.compile(r"\b[0-9a-f]{7,64}\b")


def choose_runs_again(
    record: BranchRecord, incident: Incident, requests: Iterable[RequestRecord]
) -> tuple[tuple[int, int], ...]:
    """Return the jobs that may be run again, as merge request and job id: of the newest pipelines
    first.

    Only what passed again without a commit may pass on the same code: drift, and outages that went
    away.
    """
    branch = _Branch(record)
    chosen = []
    for request in sorted(requests, key=lambda each: each.pipeline_id, reverse=True):
        if request.is_over or not request.is_member or request.kind is PipelineKind.MERGE_TRAIN:
            continue
        for job in _list_failed(request):
            found = [branch.find(request, job, key) for key, _ in job.errors]
            reasons = [each for failures in found for each in failures]
            if (
                all(found)
                and reasons
                and any(owner.incident_id == incident.incident_id for owner, _ in reasons)
                and all(failure.ended_by == NOBODY for _, failure in reasons)
                and not job.deploys
                and job.job_id not in request.run_again
            ):
                chosen.append((request.mr_iid, job.job_id))
    return tuple(chosen)


def count_runs(incident_id: str, requests: Iterable[RequestRecord]) -> int:
    """Return for how many merge requests jobs were run again because of an incident."""
    return sum(has_run(each, incident_id) for each in requests)


def has_run(request: RequestRecord, incident_id: str) -> bool:
    """Whether a job of a merge request was run again because of an incident."""
    return any(each == incident_id for _, each in request.ran_for)


def _list_failed(request: RequestRecord) -> Sequence[JobEnd]:
    newest = {job.name: job for job in sorted(request.jobs, key=lambda each: each.job_id)}
    return [job for job in newest.values() if job.outcome is JobOutcome.FAILED]


class _Branch:
    """A branch's incidents, ready to be held against many merge requests."""

    def __init__(self, record: BranchRecord) -> None:
        self._record = record
        self._history = History(record)
        self._spans: dict[str, list[Sequence[Span]]] = {}
        for spans in join_spans(find_spans(self._history)):
            self._spans.setdefault(spans[0].key, []).append(spans)
        self._failures: dict[str, list[tuple[Incident, BranchFailure]]] = {}
        for incident in record.incidents:
            if incident.state in (IncidentState.OPEN, IncidentState.CLOSED):
                for failure in incident.failures:
                    self._failures.setdefault(failure.key, []).append((incident, failure))
        self._landings = {each.sha: each for each in record.landings}

    def explain(self, request: RequestRecord) -> Explanation:
        """Return what the incidents explain of a merge request."""
        incidents: dict[str, Incident] = {}
        failures: dict[tuple[bool, int, str], BranchFailure] = {}
        explained: list[Pair] = []
        own: list[Pair] = []
        green: list[Pair] = []
        for job in _list_failed(request):
            own += [(job.name, "")] if not job.errors else []
            for key in dict.fromkeys(key for key, _ in job.errors):
                found = self.find(request, job, key)
                (explained if found else own).append((job.name, key))
                if found and all(failure.until_pipeline for _, failure in found):
                    green.append((job.name, key))
                for incident, failure in found:
                    incidents[incident.incident_id] = incident
                    failures[bool(failure.until_pipeline), failure.since_pipeline, key] = failure
        return Explanation(
            tuple(each for each in self._record.incidents if each.incident_id in incidents),
            tuple(failures[each] for each in sorted(failures)),
            tuple(explained),
            tuple(own),
            tuple(green),
        )

    def find(
        self, request: RequestRecord, job: JobEnd, key: str
    ) -> Sequence[tuple[Incident, BranchFailure]]:
        """Return the incidents' failures that are why a job fails with an error."""
        return [
            (incident, failure)
            for incident, failure in self._failures.get(key, ())
            if is_one_of(job.name, failure.jobs)
            and not self._is_suspect(request, failure)
            and not {*incident.menders, *incident.healers} & set(request.cars)
            and self._is_red_for(request, job.name, failure)
        ]

    def _is_suspect(self, request: RequestRecord, failure: BranchFailure) -> bool:
        """Whether the merge request is the one that the suspect brought."""
        suspect = self._landings.get(failure.suspect)
        return suspect is not None and (
            request.mr_iid == suspect.mr_iid
            or (suspect.mr_sha != "" and request.contains[:1] == (suspect.mr_sha,))
        )

    def _is_red_for(self, request: RequestRecord, name: str, failure: BranchFailure) -> bool:
        """Whether the job was broken in the branch's code that the merge request ran on, or while
        it ran: what stands on code that has passed since fails by itself."""
        mender = self._landings.get(failure.ended_by)
        if mender and contains_landing(request, mender):
            return False
        span = self._find_span(name, failure)
        rank = self._history.ranks.get(request.base)
        has_passed = span and span.green and 0 < request.ended_at <= span.green.ended_at
        if span and has_passed and not (rank is not None and span.covers(rank)):
            return False  # the branch has passed after that: it broke later
        if span is None or span.end is None:
            is_over = bool(failure.ended_by) or failure.until_pipeline != 0
            return not is_over or 0 < request.ended_at <= failure.until_at
        in_time = 0 < request.ended_at <= span.end.ended_at
        if rank is None or span.end_rank is None:
            return in_time
        before = rank < span.end_rank or any(each.rank == rank for each in span.reds)
        return span.covers(rank) or (in_time and before)

    def _find_span(self, name: str, failure: BranchFailure) -> Span | None:
        """Return when a job had a failure; None for what the kept history does not show."""
        for spans in self._spans.get(failure.key, ()):
            if any(failure.since_pipeline in each.pipelines for each in spans):
                return next((each for each in spans if is_one_of(name, each.names)), None)
        return None
