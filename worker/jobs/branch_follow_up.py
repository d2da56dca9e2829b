"""What follows from what is known of a watched branch: the notes of merge requests, runs again, the
issue, and the branch's own analysis.

Each is the difference between what holds and what was done before: doing it again changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from worker.errors import Busy, ForgeError, NotFinished, SandpiperError, SourceError, StoreError
from worker.incidents.record import BranchRecord, Incident, IncidentState, RequestRecord
from worker.turns import incident_actions, incident_notes
from worker.turns.branch_session import analyse_branch, find_branch_key, read_branch_finding
from worker.turns.parts import Attempt, Deps, Skipped

log = logging.getLogger("sandpiper.incidents")

RED = (IncidentState.SUSPECTED, IncidentState.OPEN)
"""The states of incidents that are not over."""

_MOST_FAILURES = 3
"""Failures in a row after which no further note is tried: GitLab, or the store, is away."""

_SETTLED = 24 * 3600.0
"""Seconds after an incident's end in which jobs are run again for it, and its issue is kept."""


@dataclass(frozen=True, slots=True)
class BranchWatched:
    """A branch was looked at; `incidents` are those of its incidents that are not over."""

    project_id: int
    branch: str
    incidents: tuple[str, ...]


@dataclass(slots=True)
class _Failures:
    """What failed while the rest was done."""

    found: list[SandpiperError] = field(default_factory=list)

    def attempt(self, what: str, act: Callable[[], None]) -> bool:
        """Act; keep the error of GitLab or the store if that fails, and return whether it did."""
        try:
            act()
        except (ForgeError, SourceError, StoreError) as error:
            log.warning("%s: left as it is: %s", what, error)
            self.found.append(error)
            return True
        return False

    def raise_first(self, *, is_gone: bool) -> None:
        """Raise the first error after which it is worth trying again, if there is one. If the
        branch `is_gone`, no second look is: nobody writes into an archived project."""
        for each in self.found:
            if each.transient or (each.doubtful and not is_gone):
                raise each


def follow_up(
    record: BranchRecord, requests: Sequence[RequestRecord], deps: Deps, run: Attempt
) -> BranchWatched:
    """Do what follows from a record: what people wait for comes before what takes long, and what
    fails keeps nothing else waiting."""
    failures = _Failures()
    record = _announce(record, requests, deps, run, failures)
    looked = record if run.give_up_reason else _look_into_all(record, deps, run, failures)
    if _list_findings(looked) != _list_findings(record):
        # Others have failed while it was looked into.
        requests = deps.storage.incidents.list_requests(record.project_id, record.branch)
        looked = incident_actions.confirm_menders(looked, deps)
        record = _announce(looked, requests, deps, run, failures)
    failures.raise_first(is_gone=bool(looked.gone_at))
    if not run.may_pay and is_waiting(looked, deps):
        raise Busy("another branch of the project is being analysed")
    red = tuple(each.incident_id for each in record.incidents if each.state in RED)
    return BranchWatched(record.project_id, record.branch, red)


def _list_findings(record: BranchRecord) -> Sequence[tuple[str, str]]:
    return [(each.incident_id, each.session_id) for each in record.incidents]


def _announce(
    record: BranchRecord,
    requests: Sequence[RequestRecord],
    deps: Deps,
    run: Attempt,
    failures: _Failures,
) -> BranchRecord:
    """Bring the notes of the merge requests up to date, run jobs again and keep the issues; return
    the record with the issues."""
    in_a_row = 0
    for request in requests:

        def tell(told: RequestRecord = request) -> None:
            incident_notes.tell_request(record, told, deps, run.begin)

        has_failed = failures.attempt(f"the note of !{request.mr_iid}", tell)
        in_a_row = in_a_row + 1 if has_failed else 0
        if in_a_row >= _MOST_FAILURES:
            break
    failures.attempt("the notes of a merge train", lambda: incident_notes.tell_trains(record, deps))
    settings, now = deps.options.incident_settings, deps.runtime.clock.now()
    for incident in record.incidents:
        if incident.closed_at and now - incident.closed_at > _SETTLED:
            continue
        if settings.rerun and incident.state is IncidentState.CLOSED:
            requests = _run_again(record, incident, requests, deps, failures)
        if settings.issue:
            record = _keep_issue(record, incident, requests, deps, failures)
    return record


def _run_again(
    record: BranchRecord,
    incident: Incident,
    requests: Sequence[RequestRecord],
    deps: Deps,
    failures: _Failures,
) -> Sequence[RequestRecord]:
    def run() -> None:
        nonlocal requests
        most = deps.options.incident_settings.rerun
        requests = incident_actions.run_again(record, incident, requests, deps, most)

    failures.attempt(f"incident {incident.incident_id}: its jobs", run)
    return requests


def _keep_issue(
    record: BranchRecord,
    incident: Incident,
    requests: Sequence[RequestRecord],
    deps: Deps,
    failures: _Failures,
) -> BranchRecord:
    def write() -> None:
        nonlocal record
        number = incident_actions.write_issue(record, incident, requests, deps)
        if number != incident.issue_iid:
            change = _change_incident(incident, lambda each: replace(each, issue_iid=number))
            store = deps.storage.incidents
            record = store.change_branch(record.project_id, record.branch, change) or record

    failures.attempt(f"incident {incident.incident_id}: its issue", write)
    return record


# ------------------------------------------------------------------------------ the analysis


def is_waiting(record: BranchRecord, deps: Deps) -> bool:
    """Whether an open incident is to be looked into, and nobody has done it or is at it."""
    sessions, leases = deps.storage.sessions, deps.queue.leases
    for incident in record.open_incidents:
        if not incident.session_id:
            key = find_branch_key(record, incident, deps)
            if sessions.find_latest_turn(key) is None and not leases.find_holder(key, 0):
                return True
    return False


def _look_into_all(
    record: BranchRecord, deps: Deps, run: Attempt, failures: _Failures
) -> BranchRecord:
    """Have every open incident analysed, once; return the record with what was found."""
    # Telling many takes a while, and what is over by now is not paid for.
    store = deps.storage.incidents
    record = store.read_branch(record.project_id, record.branch) or record
    for incident in record.open_incidents:
        if incident.session_id:
            continue
        try:
            record = _look_into(record, incident, deps, run)
        except NotFinished:
            raise
        except SandpiperError as error:
            log.warning("incident %s is not looked into: %s", incident.incident_id, error)
            failures.found.append(error)
    return record


def _look_into(record: BranchRecord, incident: Incident, deps: Deps, run: Attempt) -> BranchRecord:
    """Have an incident analysed, once, and return the record with what was found."""
    try:
        ended = analyse_branch(record, incident, deps, run) if run.may_pay else None
    except Busy:
        ended = None  # another worker is at it, and stores what it finds
    if isinstance(ended, Skipped):
        log.info("incident %s: %s", incident.incident_id, ended.reason)
    found = read_branch_finding(find_branch_key(record, incident, deps), deps)
    if found is None:
        return record

    def add(each: Incident) -> Incident:
        return replace(
            each,
            session_id=found.session_id,
            cause=found.cause,
            to_do=found.to_do,
            verdict=found.verdict.value,
            seconds=found.seconds,
        )

    store, change = deps.storage.incidents, _change_incident(incident, add)
    return store.change_branch(record.project_id, record.branch, change) or record


def _change_incident(
    incident: Incident, change: Callable[[Incident], Incident]
) -> Callable[[BranchRecord | None], BranchRecord | None]:
    """Return what changes the incident in a stored record, if it is there."""

    def change_record(stored: BranchRecord | None) -> BranchRecord | None:
        for each in stored.incidents if stored else ():
            if stored and each.incident_id == incident.incident_id:
                return stored.put(change(each))
        return stored

    return change_record
