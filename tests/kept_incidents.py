"""Incidents in a store, as the commands and pages that show them need them."""

from collections.abc import Iterable

from worker.incidents.record import (
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    Landing,
    RequestRecord,
)
from worker.sessions.incidents import IncidentStore
from worker.sessions.store import SessionStore

HOUR = 3600.0
SESSION = "0123456789abcdef0123"
LANDINGS = (
    Landing("a" * 40, 1_799_990_000.0, "Count hours anew", "dev1", 123, files=("clock.py",)),
    Landing("b" * 40, 1_799_991_000.0, "Mend the clock", "dev2", 130),
)


def make_failure(at: float, key: str = "clock", **changes: object) -> BranchFailure:
    """A failure of the job `test` in a pipeline that ended at this time, after LANDINGS[0]."""
    fields: dict[str, object] = {
        "key": key,
        "text": f"E   assert {key}() == 24",
        "jobs": ("test",),
        "since_pipeline": 101,
        "since_at": at,
        "since_url": "https://gitlab.example.com/aviary/tern/-/pipelines/101",
        "green_sha": "9" * 40,
        "green_pipeline": 100,
        "landings": ("a" * 40,),
        "suspect": "a" * 40,
    }
    return BranchFailure(**(fields | changes))  # type: ignore[arg-type]


def make_open(at: float) -> Incident:
    """An incident that is open since then, looked into in two minutes, and told to two."""
    return Incident(
        "main-101",
        IncidentState.OPEN,
        (make_failure(at),),
        opened_at=at + 60,
        menders=(130,),
        session_id=SESSION,
        cause="The clock counts to 25.",
        to_do="Wait for !130.",
        verdict="change",
        told_requests=(40, 41),
        short=(40,),
        seconds=120.0,
    )


def make_closed(at: float, by: str = LANDINGS[1].sha, number: int = 90) -> Incident:
    """An incident that was red from then on for two hours."""
    failure = make_failure(
        at,
        since_pipeline=number,
        until_pipeline=number + 5,
        until_at=at + 2 * HOUR,
        ended_by=by,
        suspect="",
    )
    state = IncidentState.WITHDRAWN if by == NOBODY else IncidentState.CLOSED
    return Incident(f"main-{number}", state, (failure,), at, at + 2 * HOUR, told_requests=(30,))


def keep(
    store: SessionStore,
    incidents: Iterable[Incident],
    requests: Iterable[RequestRecord] = (),
    *,
    project_id: int = 7,
    project: str = "aviary/tern",
    branch: str = "main",
    landings: tuple[Landing, ...] = LANDINGS,
) -> BranchRecord:
    """Put a branch and the merge requests into it into the store."""
    record = BranchRecord(project_id, project, branch, landings, (), tuple(incidents))
    kept = IncidentStore(store.records)
    kept.change_branch(project_id, branch, lambda stored: record)
    for request in requests:
        kept.change_request(
            project_id, branch, request.mr_iid, lambda stored, request=request: request  # type: ignore[misc]
        )  # fmt: skip
    return record
