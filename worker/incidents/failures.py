"""The failures of a branch as they are told: the spans of one error in all of its jobs. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from worker.incidents.record import (
    GONE,
    BranchFailure,
    BranchRecord,
    IncidentState,
    JobOutcome,
    Landing,
    RequestRecord,
)
from worker.incidents.sightings import History, Sighting, is_silent
from worker.incidents.spans import Span, find_spans, join_spans
from worker.incidents.suspects import find_innocent, find_mender, find_suspect
from worker.incidents.witnesses import fails_alike, has_seen, heals, reduce_run

_WEEK = 7 * 24 * 3600.0
_FEW_RUNS = 3
"""A job is taken for removed when so many pipelines passed without it, over a week."""


@dataclass(frozen=True)
class Evidence:
    """All that a judgement rests on."""

    record: BranchRecord
    requests: Sequence[RequestRecord]
    judged_at: float

    @cached_property
    def history(self) -> History:
        """The branch's commits and runs in their order."""
        return History(self.record)

    @cached_property
    def spans(self) -> Sequence[Span]:
        """When each job failed with each error."""
        return find_spans(self.history)

    @cached_property
    def spans_by_key(self) -> Mapping[str, Sequence[Span]]:
        """The same, by the error."""
        found: dict[str, list[Span]] = {}
        for span in self.spans:
            found.setdefault(span.key, []).append(span)
        return found

    @cached_property
    def members(self) -> Sequence[RequestRecord]:
        """The merge requests that may be witnesses."""
        return [each for each in self.requests if each.is_member]

    @cached_property
    def runs_by_key(self) -> Mapping[str, Sequence[RequestRecord]]:
        """The members' runs that show an error, by its key."""
        found: dict[str, list[RequestRecord]] = {}
        for request in self.members:
            for key in {key for job in request.jobs for key in job.keys}:
                found.setdefault(key, []).append(request)
        return found

    @cached_property
    def commits(self) -> Mapping[int, frozenset[str]]:
        """The commits of each merge request, as far as they are known: what it brings by itself."""
        found = {each.mr_iid: frozenset({each.sha, each.mr_sha}) for each in self.record.landings}
        for each in self.requests:
            found[each.mr_iid] = found.get(each.mr_iid, frozenset()).union(each.contains)
        return found

    @cached_property
    def shas(self) -> frozenset[str]:
        """The commits of the merge requests that have landed."""
        landed = (self.commits[each.mr_iid] for each in self.record.landings if each.mr_iid)
        return frozenset(each.sha for each in self.record.landings).union(*landed)

    def find_landing(self, sha: str) -> Landing | None:
        """Return a landing by its commit."""
        return next((each for each in self.record.landings if each.sha == sha), None)


@dataclass(frozen=True, slots=True)
class JudgedFailure:
    """One error of the branch as it stands now; `spans` are those of its jobs at that time."""

    failure: BranchFailure
    state: IncidentState
    spans: Sequence[Span]

    def includes(self, key: str, pipeline_id: int) -> bool:
        """Whether it is what a failure was that was first seen in a pipeline."""
        return self.failure.key == key and any(pipeline_id in each.pipelines for each in self.spans)

    def has_begun_in(self, other: "JudgedFailure") -> bool:
        """Whether each job that fails so had been failing as the other one says, or began to."""
        return all(any(each.contains(span) for each in other.spans) for span in self.spans)

    def was_there(self, failure: BranchFailure) -> bool:
        """Whether a job failed so when a failure was first seen in it."""
        return any(
            not span.names.isdisjoint(failure.jobs)
            and span.first.ended_at <= failure.since_at
            and (span.end is None or failure.since_at <= span.end.ended_at)
            for span in self.spans
        )


def judge_failures(evidence: Evidence, stored: Iterable[BranchFailure]) -> Sequence[JudgedFailure]:
    """Return every failure that the kept history shows, in the order of the branch. What `stored`
    failures have learnt of merge requests that have moved on since is kept."""
    known = list(stored)
    found = []
    for spans in join_spans(evidence.spans):
        seen = {number for span in spans for number in span.pipelines}
        before = [e for e in known if e.key == spans[0].key and e.since_pipeline in seen]
        found.append(_judge(evidence, spans, before))
    return found


def _judge(
    evidence: Evidence, spans: Sequence[Span], before: Sequence[BranchFailure]
) -> JudgedFailure:
    witnesses = _list_witnesses(evidence, spans, before)
    seeing = next((each for each in witnesses if _has_seen(evidence, each, spans)), None)
    seen_twice = (
        len({number for span in spans for number in span.pipelines}) > 1
        or not all(span.is_seen_once for span in spans)
        or seeing is not None
    )
    lasting = [
        span for span in spans if not _is_flake(evidence, span, witnesses, seen_twice=seen_twice)
    ]
    stays = lasting or spans
    first = stays[0]
    beginnings = [e for e in stays if e.first.pipeline is first.first.pipeline]
    narrowest = min(beginnings, key=_count_between)
    clearing = _list_cleared(evidence, narrowest, witnesses)
    innocent = frozenset[str]().union(*(cleared for _, cleared in clearing))
    suspect = find_suspect(narrowest, innocent, evidence.record.project)
    proofs = [*islice((each for each, cleared in clearing if cleared), 2)]
    if seeing and seeing not in proofs:
        proofs.append(seeing)
    names = frozenset(name for each in stays for name in each.names)
    failure = BranchFailure(
        key=first.key,
        text=first.text,
        jobs=tuple(sorted(names)),
        since_pipeline=first.first.pipeline.pipeline_id,
        since_at=first.first.ended_at,
        since_url=first.first.pipeline.url,
        since_sha=first.first.pipeline.sha,
        green_sha=narrowest.green.pipeline.sha if narrowest.green else "",
        green_pipeline=narrowest.green.pipeline.pipeline_id if narrowest.green else 0,
        landings=tuple(each.sha for each in narrowest.landings or ()),
        suspect=suspect,
        witnesses=tuple(reduce_run(e, first.key, names, evidence.shas) for e in proofs),
    )
    ended = _end(evidence, failure, stays, seen_twice=seen_twice, is_flake=not lasting)
    return JudgedFailure(*ended, spans)


def _list_cleared(
    evidence: Evidence, span: Span, witnesses: Iterable[RequestRecord]
) -> Sequence[tuple[RequestRecord, frozenset[str]]]:
    """Return each witness with the landings that it clears of having begun a span."""
    spans = evidence.spans_by_key[span.key]
    return [
        (each, find_innocent(span, spans, each, evidence.history, evidence.commits))
        for each in witnesses
    ]


def _list_witnesses(
    evidence: Evidence, spans: Sequence[Span], before: Iterable[BranchFailure]
) -> Sequence[RequestRecord]:
    """Return the runs of members' merge requests that failed alike, those on the oldest code
    first."""
    key, names = spans[0].key, frozenset(name for span in spans for name in span.names)
    found = {
        (each.mr_iid, each.pipeline_id): each
        for each in (
            *(witness for failure in before for witness in failure.witnesses),
            *(evidence.members if is_silent(key) else evidence.runs_by_key.get(key, ())),
        )
        if fails_alike(each, key, names)
    }
    ranks = evidence.history.ranks
    return sorted(found.values(), key=lambda e: (ranks.get(e.base, 0), e.ended_at, e.pipeline_id))


def _has_seen(evidence: Evidence, request: RequestRecord, spans: Sequence[Span]) -> bool:
    """Whether a merge request's run is a second witness: one before all jobs passed again."""
    ends = [span.end.ended_at for span in spans if span.end]
    in_time = len(ends) < len(spans) or request.ended_at < max(ends)
    return in_time and any(has_seen(request, span, evidence.history) for span in spans)


def _count_between(span: Span) -> float:
    return float("inf") if span.green is None or span.landings is None else len(span.landings)


def _is_flake(
    evidence: Evidence, span: Span, witnesses: Iterable[RequestRecord], *, seen_twice: bool
) -> bool:
    """Whether a pass undoes the only failure of a commit. That merge requests failed as well is a
    second witness only where no landing can be the reason."""
    if not (span.is_at_one_commit and span.is_seen_once):
        return False
    if not (span.is_explained and seen_twice):
        return not seen_twice
    cleared = (shas for _, shas in _list_cleared(evidence, span, witnesses))
    landings = {each.sha for each in span.landings or ()}
    return not landings or not landings <= frozenset[str]().union(*cleared)


def _end(
    evidence: Evidence,
    failure: BranchFailure,
    spans: Sequence[Span],
    *,
    seen_twice: bool,
    is_flake: bool,
) -> tuple[BranchFailure, IncidentState]:
    """Return the failure with its end, and what it is at."""
    needs_witness = not any(each.is_explained for each in spans) or any(
        each.has_gone_before for each in spans
    )
    is_told = seen_twice or not needs_witness
    ends = [(each.end.ended_at, each) for each in spans if each.end]
    if len(ends) < len(spans):
        gone_at = evidence.record.gone_at or min(
            _find_removal(evidence, each) for each in spans if not each.end
        )
        if not gone_at:
            return failure, IncidentState.OPEN if is_told else IncidentState.SUSPECTED
        state = IncidentState.CLOSED if is_told else IncidentState.WITHDRAWN
        return replace(failure, ended_by=GONE, until_at=gone_at), state
    if not is_told or is_flake:
        return replace(failure, suspect=""), IncidentState.WITHDRAWN
    _, last = max(ends, key=lambda each: each[0])
    suspect = evidence.find_landing(failure.suspect)
    healers = frozenset(
        each.mr_iid for each in evidence.members if heals(each, last, suspect, evidence.history)
    )
    ended_by = find_mender(last, suspect, healers, evidence.record.project)
    return set_end(failure, last.end or last.last_failure, ended_by), IncidentState.CLOSED


def set_end(failure: BranchFailure, end: Sighting, ended_by: str) -> BranchFailure:
    """Return the failure as it is since the job passed."""
    return replace(
        failure,
        until_pipeline=end.pipeline.pipeline_id,
        until_at=end.ended_at,
        until_url=end.pipeline.url,
        ended_by=ended_by,
    )


def _find_removal(evidence: Evidence, span: Span) -> float:
    """Return when the branch had a first pipeline without a red job that has gone since, 0 if it
    may come back: a job that only some pipelines have is not gone."""
    last = span.last_failure
    later = [
        each
        for each in evidence.history.pipelines
        if (evidence.history.ranks[each.sha], each.pipeline_id)
        > (last.rank, last.pipeline.pipeline_id)
    ]
    if any(job.name in span.names for each in later for job in each.jobs):
        return 0.0
    passed = [
        each.ended_at
        for each in later
        if each.source == last.pipeline.source
        and {job.outcome for job in each.jobs} == {JobOutcome.PASSED}
    ]
    if len(passed) < _FEW_RUNS or evidence.judged_at - passed[0] < _WEEK:
        return 0.0
    return passed[0]
