"""What is asked and done in GitLab about an incident, besides the notes: which merge requests are
still open, jobs run again, and its own issue.

All may be repeated at any time by any number of workers: what was done is not done again.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from worker.errors import ForgeError, SourceError, StoreError
from worker.gitlab.ports import IssueText
from worker.incidents import explain
from worker.incidents.issue_text import (
    IssueScene,
    make_issue_marker,
    write_issue_body,
    write_issue_title,
)
from worker.incidents.judge import judge_branch
from worker.incidents.owners import list_owners
from worker.incidents.record import (
    BranchRecord,
    Incident,
    IncidentState,
    JobOutcome,
    PipelineKind,
    RequestRecord,
)
from worker.logs.named_places import find_places
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.incidents")

_Change = Callable[[RequestRecord | None], RequestRecord | None]

NOT_DONE = (401, 429)
"""The status of a refusal that has nothing to do with the job: it has surely not run again."""

_MOST_ASKED = 100
"""Merge requests of which is asked whether they are open: in one request."""

_MOST_REFUSED = 20
"""Jobs that one call tries in vain: the older ones are left to a later call."""

# ------------------------------------------------------------------------------ what is open


def confirm_requests(
    record: BranchRecord, requests: Sequence[RequestRecord], deps: Deps
) -> tuple[RequestRecord, ...]:
    """Return the merge requests as they are open now, as GitLab sends no event that we get when one
    is closed or opened again; that is stored.

    Asked are those that would mend a red branch, and the newest that were told of its incidents: in
    one request, none if there are none. Raises SourceError and StoreError.
    """
    judged = judge_branch(record, requests, deps.runtime.clock.now())
    red = {each.incident_id for each in (*record.open_incidents, *judged.open_incidents)}
    menders = {iid for each in judged.open_incidents for iid in each.healers}
    merged = {each.mr_iid for each in record.landings}
    named = [
        each.mr_iid
        for each in sorted(requests, key=lambda e: (e.mr_iid not in menders, -e.pipeline_id))
        if each.mr_iid in menders or not red.isdisjoint(each.told_incidents)
        if each.mr_iid not in merged
    ][:_MOST_ASKED]
    is_open = deps.gitlab.pipelines.list_open(record.project_id, named) if named else ()
    found = []
    for each in requests:
        is_over = each.mr_iid in merged or (
            each.mr_iid not in is_open if each.mr_iid in named else each.is_over
        )
        found.append(each if is_over is each.is_over else _put_end(record, each, is_over, deps))
    return tuple(found)


def confirm_menders(record: BranchRecord, deps: Deps) -> BranchRecord:
    """Return the record without those who mend its open incidents and are not open any more, as it
    is then stored: before a note names them. One request, none where nobody mends; if GitLab does
    not answer, nobody is named until the branch is judged again. Raises StoreError."""
    menders = {iid for each in record.open_incidents for iid in each.menders}
    if not menders:
        return record
    store, asked = deps.storage.incidents, sorted(menders)[-_MOST_ASKED:]
    over, dropped = set[int](), menders
    try:
        over = dropped = set(asked) - deps.gitlab.pipelines.list_open(record.project_id, asked)
    except SourceError as error:
        log.warning("who mends %s is not known: %s", record.branch, error)
    for request in (store.read_request(record.project_id, record.branch, iid) for iid in over):
        if request:
            _put_end(record, request, True, deps)
    if dropped:
        store.change_branch(
            record.project_id,
            record.branch,
            lambda now: _drop_menders(now, dropped) if now else None,
        )
    return _drop_menders(record, dropped)


def _put_end(
    record: BranchRecord, request: RequestRecord, is_over: bool, deps: Deps
) -> RequestRecord:
    """Store whether a merge request is over, unless it has a newer pipeline by now."""

    def change(now: RequestRecord | None) -> RequestRecord | None:
        is_same = now is not None and now.pipeline_id == request.pipeline_id
        return replace(now, is_over=is_over) if now and is_same else now

    deps.storage.incidents.change_request(record.project_id, record.branch, request.mr_iid, change)
    return replace(request, is_over=is_over)


def _drop_menders(record: BranchRecord, iids: Collection[int]) -> BranchRecord:
    for each in record.open_incidents:
        left = tuple(iid for iid in each.menders if iid not in iids)
        record = record.put(replace(each, menders=left))
    return record


# ------------------------------------------------------------------------------ jobs run again


def run_again(
    record: BranchRecord,
    incident: Incident,
    requests: Sequence[RequestRecord],
    deps: Deps,
    most: int,
) -> tuple[RequestRecord, ...]:
    """Run the jobs again that the incident alone made fail and that may pass now, for at most
    `most` merge requests; return `requests` as they stand now. One for which GitLab refuses it does
    not count.

    Each job runs at most once more, however often this is called: that it is run again is written
    down *before* GitLab is asked for it. A worker that is killed in between, or an answer that is
    lost, costs one run, which a person can start with one click; the other way round a job could
    run twice or without end, at the project's cost. Only where GitLab has surely not done it (the
    token is refused, too many requests) is it taken back. Raises StoreError, and transient
    ForgeErrors and SourceErrors; the rest is left to a later call.
    """
    found = {each.mr_iid: each for each in requests}
    runs, number = _Runs(record, incident, deps, most), incident.incident_id
    refused = 0
    for mr_iid, job_id in explain.choose_runs_again(record, incident, requests):
        request = found[mr_iid]
        is_new = not explain.has_run(request, number)
        if is_new and explain.count_runs(number, found.values()) >= most:
            continue
        if reason := _explain_known(request, job_id) or runs.explain_no_run(request, job_id):
            log.info("!%d: job %d is not run again: %s", mr_iid, job_id, reason)
        else:
            found[mr_iid] = runs.run(request, job_id)
        refused += not explain.has_run(found[mr_iid], number)
        if runs.is_over or refused >= _MOST_REFUSED:
            break
    return tuple(found[each.mr_iid] for each in requests)


def _explain_known(request: RequestRecord, job_id: int) -> str:
    """Return why the record forbids to run a job again, "" if it does not."""
    job = next((each for each in request.jobs if each.job_id == job_id), None)
    if job is None or job.outcome is not JobOutcome.FAILED:
        return "it is not one of its failed jobs"
    if job_id in request.run_again:
        return "it was run again before"
    if request.is_over or not request.is_member:
        return "the merge request is over" if request.is_over else "its author is no member"
    if request.kind is PipelineKind.MERGE_TRAIN:
        return "it ran in a merge train"
    # GitLab goes on with the skipped jobs behind one that passes now.
    waiting = (each for each in request.jobs if each.outcome is JobOutcome.NO_RESULT)
    if job.deploys or any(each.deploys for each in waiting):
        return "it deploys, or a job behind it does"
    return ""


@dataclass(slots=True)
class _Runs:
    """The jobs that one call runs again."""

    record: BranchRecord
    incident: Incident
    deps: Deps
    most: int
    is_over: bool = False
    """Whether no further job may be run again now."""

    def explain_no_run(self, request: RequestRecord, job_id: int) -> str:
        """Ask GitLab why a job must not be run again; "" if it may."""
        try:
            return self.deps.gitlab.pipelines.explain_no_run(
                *(self.record.project_id, request.mr_iid, request.pipeline_id, job_id),
                ran=request.run_again,
            )
        except SourceError as error:
            if error.transient:
                raise
            return str(error)

    def run(self, request: RequestRecord, job_id: int) -> RequestRecord:
        """Write down that a job runs again, then run it; return what stands."""
        marked = self._mark(request, job_id)
        if marked is None:
            return request
        if self._count_reached() > self.most:
            # Other workers were at it: of all who see too many, none goes on.
            self.is_over = True
            return self._take_back(marked, job_id, may_run=True)
        try:
            answer = self.deps.gitlab.incident_writer.retry_job(self.record.project_id, job_id)
        except ForgeError as error:
            if error.status in NOT_DONE:
                with suppress(StoreError):
                    self._take_back(marked, job_id, may_run=True)
            if error.transient:
                raise
            log.warning("!%d: job %d may not run again: %s", request.mr_iid, job_id, error)
            return marked
        said = "is not run again" if isinstance(answer, str) else "runs again as"
        log.info("!%d: job %d %s: %s", request.mr_iid, job_id, said, answer)
        return self._take_back(marked, job_id) if isinstance(answer, str) else marked

    def _mark(self, request: RequestRecord, job_id: int) -> RequestRecord | None:
        """Write down that a job was run again; None if somebody has, or the pipeline is another."""
        is_first = False

        def mark(now: RequestRecord | None) -> RequestRecord | None:
            nonlocal is_first
            same = now is not None and now.pipeline_id == request.pipeline_id
            is_first = now is not None and same and job_id not in now.run_again
            if now is None or not is_first:
                return now
            ran_for = (*now.ran_for, (job_id, self.incident.incident_id))
            return replace(now, run_again=(*now.run_again, job_id), ran_for=ran_for)

        stands = self._change(request.mr_iid, mark)
        return stands if is_first else None

    def _take_back(
        self, request: RequestRecord, job_id: int, *, may_run: bool = False
    ) -> RequestRecord:
        """Write down that a job has not run, and perhaps that it may run later."""

        def remove(now: RequestRecord | None) -> RequestRecord | None:
            if now is None:
                return None
            asked = tuple(each for each in now.run_again if each != job_id or not may_run)
            ran_for = tuple(each for each in now.ran_for if each[0] != job_id)
            return replace(now, run_again=asked, ran_for=ran_for)

        return self._change(request.mr_iid, remove) or request

    def _change(self, mr_iid: int, change: _Change) -> RequestRecord | None:
        incidents = self.deps.storage.incidents
        return incidents.change_request(self.record.project_id, self.record.branch, mr_iid, change)

    def _count_reached(self) -> int:
        listed = self.deps.storage.incidents.list_requests(
            self.record.project_id, self.record.branch
        )
        return explain.count_runs(self.incident.incident_id, listed)


# ------------------------------------------------------------------------------------ the issue


def write_issue(
    record: BranchRecord, incident: Incident, requests: Sequence[RequestRecord], deps: Deps
) -> int:
    """Make the incident's issue say what holds now; return its number, 0 if there is none.

    One is made for an open incident, edited in place, closed at the end and reopened when the
    trouble is back. It is confidential where fewer people may open the project's job logs than read
    its issues. Raises transient ForgeErrors and SourceErrors; after others, the issue stays.
    """
    is_told = incident.is_open or incident.issue_iid
    if not is_told or incident.state is IncidentState.SUSPECTED:
        return incident.issue_iid
    try:
        place = deps.gitlab.pipelines.needs_confidential_issue(record.project_id)
        if isinstance(place, str):
            log.info("incident %s has no issue: %s", incident.incident_id, place)
            return incident.issue_iid
        issue = _make_issue(record, incident, requests, deps, is_confidential=place)
        return deps.gitlab.incident_writer.put_issue(record.project_id, issue, incident.issue_iid)
    except (ForgeError, SourceError) as error:
        if error.transient:
            raise
        log.warning("incident %s: its issue stays: %s", incident.incident_id, error)
        return incident.issue_iid


def _make_issue(
    record: BranchRecord,
    incident: Incident,
    requests: Sequence[RequestRecord],
    deps: Deps,
    *,
    is_confidential: bool,
) -> IssueText:
    page = f"{deps.gitlab.url}/{record.project}"
    hosts = deps.gitlab.hosts | {page.partition("://")[2]}
    owners = find_owners(record, incident, deps)
    scene = IssueScene(requests, owners, hosts, deps.runtime.redact)
    red = [each.since_at for each in incident.failures if not each.until_pipeline]
    return IssueText(
        make_issue_marker(record, incident),
        write_issue_title(record, incident),
        write_issue_body(record, incident, scene),
        page=page,
        is_over=not incident.is_open,
        began_at=max(red, default=0.0),
        is_confidential=is_confidential,
    )


def find_owners(record: BranchRecord, incident: Incident, deps: Deps) -> tuple[str, ...]:
    """Find who owns, by CODEOWNERS at the branch's head, what the suspects have changed and what
    the errors name, as plain words; nobody if that cannot be read. Raises nothing."""
    suspects = {each.suspect for each in incident.failures}
    paths = [path for each in record.landings if each.sha in suspects for path in each.files or ()]
    paths += [place.path for each in incident.failures for place in find_places(each.text)]
    if not paths:
        return ()
    try:
        text = deps.gitlab.pipelines.read_owners_file(record.project_id, record.branch)
    except SourceError as error:
        log.info("the owners on %s are not known: %s", record.branch, error)
        return ()
    return list_owners(text, paths)
