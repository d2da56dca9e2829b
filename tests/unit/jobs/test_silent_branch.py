"""A branch's job that fails without a known error, read from the simulated GitLab: told like any
other incident, in one incident when its log comes late, and never in a merge request's note."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.played_branches import ERROR, GREEN, Branch
from tests.simulators.gitlab import Bridge, GitLabSim, Job, Pipeline
from worker.conversation.events import IncidentClosed, IncidentOpened
from worker.gitlab.read.job_ends import MOST_LOGS
from worker.incidents.record import IncidentState, JobOutcome
from worker.incidents.sightings import has_known_error, is_silent
from worker.jobs.incident_rows import read_rows
from worker.lab.gitlab.world import show_time

pytestmark = pytest.mark.slow

SILENT = {"unit": "silent", "lint": "ok"}
LANDED: list[Mapping[str, Any]] = [
    {"at": "0m", "land": "A", "mr": 1},
    {"at": "6m", "pipeline": 101, "commit": "A", "jobs": GREEN},
    {"at": "10m", "land": "B", "mr": 2, "files": ["src/ferry.py"]},
    {"at": "16m", "pipeline": 102, "commit": "B", "jobs": SILENT},
    {"at": "17m", "open": 21, "base": "B", "files": ["src/a.py"]},
    {"at": "17m", "open": 22, "base": "B", "files": ["src/b.py"]},
    {"at": "24m", "pipeline": 121, "mr": 21, "jobs": SILENT},
    {"at": "25m", "pipeline": 122, "mr": 22, "jobs": {"unit": "E", "lint": "ok"}},
    {"at": "30m", "land": "C", "mr": 3, "files": ["src/ferry.py"]},
    {"at": "36m", "pipeline": 103, "commit": "C", "jobs": GREEN},
]
"""`main` is broken by !2, without a word, and mended by !3."""


@pytest.fixture
def silent(sim: GitLabSim, tmp_path: Path) -> Branch:
    return Branch(sim, tmp_path, LANDED)


def find_pipeline(branch: Branch, number: int) -> Pipeline:
    return branch.story.player.pipelines[number]


def find_job(branch: Branch, number: int, name: str = "unit") -> Job:
    (found,) = (each for each in find_pipeline(branch, number).jobs if each.name == name)
    return found


def test_it_is_told_like_any_other_but_not_in_notes(silent: Branch) -> None:
    silent.run_all("25m")
    incident = silent.incident
    assert incident.is_open
    assert is_silent(incident.first.key)
    assert incident.first.suspect == silent.story.player.commits["B"]
    assert (silent.issues, silent.analyses) == (["opened"], 1)
    (row,) = read_rows(silent.store)
    assert (row.jobs, row.is_told) == ("unit", True)
    silent.run_all("40m")
    assert silent.incident.state is IncidentState.CLOSED
    assert (silent.issues, silent.incident.told_requests) == (["closed"], ())
    told = [each for each in silent.events if isinstance(each, IncidentOpened | IncidentClosed)]
    assert [type(each) for each in told] == [IncidentOpened, IncidentClosed]
    assert len(silent.notes) == 2
    assert all("Already failing" not in each for each in silent.notes.values())
    assert all("Green again" not in each for each in silent.notes.values())


def remove_log(job: Job) -> None:
    job.trace = None


def erase_log(job: Job) -> None:
    job.trace, job.erased = None, True


def hang(job: Job) -> None:
    assert job.trace
    job.failure_reason = "job_execution_timeout"
    over = b"execution took longer than 1h0m0s seconds"
    job.trace = job.trace.replace(b"exit code 1", over)


def say_hello(job: Job) -> None:
    assert job.trace
    job.trace = job.trace.replace(b"section_end", b"hello\nsection_end")


@pytest.mark.parametrize("change", [remove_log, erase_log, hang, say_hello])
def test_whatever_the_reason_the_branch_is_red(
    silent: Branch, change: Callable[[Job], None]
) -> None:
    triggers = silent.play("20m")
    change(find_job(silent, 102))
    for each in triggers:
        silent.run(each)
    assert silent.incident.is_open
    assert is_silent(silent.incident.first.key)


def test_a_log_that_comes_late_leaves_one_incident_which_then_explains(silent: Branch) -> None:
    _, red = silent.play("20m")
    job = find_job(silent, 102)
    job.trace, job.finished_at = None, show_time(datetime.now(UTC))  # for a while it may come
    silent.run(red)
    name = silent.incident.incident_id
    assert is_silent(silent.incident.first.key)
    (hit, other) = silent.play("25m")
    job.trace = find_job(silent, 122).trace
    silent.run(red)
    assert silent.incident.incident_id == name
    assert [each.text for each in silent.incident.failures] == [ERROR]
    for each in (hit, other):
        silent.run(each)
    assert "Already failing" in silent.notes[22]
    assert "Already failing" not in silent.notes[21]
    assert (silent.issues, silent.analyses) == (["opened"], 1)


def test_errors_that_a_passing_job_writes_as_well_stay_none_when_they_are_read_again(
    silent: Branch,
) -> None:
    first, red = silent.play("20m")
    job, passed = find_job(silent, 102), find_job(silent, 101)
    assert job.trace
    assert passed.trace
    job.trace = job.trace.replace(b"section_end", f"{ERROR}\nsection_end".encode())
    passed.trace = passed.trace.replace(b"section_end", f"{ERROR}\nsection_end".encode())
    for updated_at in ("", "2030-01-01T00:00:00Z"):
        pipeline = find_pipeline(silent, 102)
        pipeline.updated_at = updated_at or pipeline.updated_at
        silent.run(first)
        silent.run(red)
        assert silent.incident.is_open
        assert is_silent(silent.incident.first.key)


def test_a_job_whose_log_was_not_read_for_their_number_is_none(
    sim: GitLabSim, tmp_path: Path
) -> None:
    jobs = {f"job-{chr(97 + at // 26)}{chr(97 + at % 26)}": "silent" for at in range(MOST_LOGS + 2)}
    events = [*LANDED[:3], {"at": "16m", "pipeline": 102, "commit": "B", "jobs": jobs}]
    branch = Branch(sim, tmp_path, events)
    branch.run_all("20m")
    failed = [
        job
        for each in branch.record.pipelines
        for job in each.jobs
        if job.outcome is JobOutcome.FAILED
    ]
    assert len(failed) == MOST_LOGS + 2
    assert not any(map(has_known_error, failed))
    assert sum(not job.errors for job in failed) == 2


@pytest.mark.parametrize(
    ("fields", "is_red"),
    [({}, True), ({"manual": True}, False), ({"allow_failure": True}, False)],
    ids=["failed", "manual", "may fail"],
)
def test_a_trigger_job_that_fails_is_one(
    silent: Branch, fields: Mapping[str, bool], is_red: bool
) -> None:
    first, red = silent.play("20m")
    find_job(silent, 102).status = "success"
    for number, status in ((101, "success"), (102, "failed")):
        pipeline = find_pipeline(silent, number)
        pipeline.bridges.append(Bridge(9000 + number, "deploy-docs", status, None, **fields))
    silent.run(first)
    silent.run(red)
    found = [each.first.jobs for each in silent.record.incidents if each.is_open]
    assert found == ([("deploy-docs",)] if is_red else [])
