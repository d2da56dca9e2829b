"""What is read of a watched branch: its pipelines with every attempt; within bounds."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.contract.branches import (
    ERROR,
    end,
    get_job,
    get_landing,
    get_paths,
    get_pipeline,
    land,
    merge,
    run,
    write_log,
)
from tests.simulators.gitlab import GitLabSim, Scene
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.record import BranchRecord, JobOutcome
from worker.incidents.sightings import has_known_error, make_silent_error
from worker.lab.gitlab.state import Bridge


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        asked = {(seen.method, seen.path) for seen in running.requests if seen.method != "GET"}
        assert asked <= {("POST", "/api/graphql")}
        assert {seen.token for seen in running.requests} <= {"read"}


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene) -> GitLabReader:
    client = ReadClient(sim.url, scene.read_token, retries=0)
    return GitLabReader(client, sim.url, (), 30, redact=lambda text: text.replace("hush", "***"))


@pytest.fixture
def record(scene: Scene) -> BranchRecord:
    return BranchRecord(scene.project.id, scene.project.path, "main")


def test_a_first_red_is_read_with_what_lies_between(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    first = land(sim, scene, "a.py")
    green = end(sim, run(sim, scene, first), unit="ok", lint="ok")
    second = land(sim, scene, "app/sum.py", "Sum faster")
    merge(scene.mr, second)
    red = end(sim, run(sim, scene, second), unit=ERROR, lint="ok")
    found = reader.read_branch(record)
    assert [each.pipeline_id for each in found.pipelines] == [green.id, red.id]
    unit = get_job(found, red.jobs[0])
    assert (unit.name, unit.outcome, unit.url) == ("unit", JobOutcome.FAILED, red.jobs[0].web_url)
    assert [text for _, text in unit.errors] == [ERROR]
    assert get_job(found, green.jobs[0]).outcome is JobOutcome.PASSED
    landing = get_landing(found, second)
    assert (landing.mr_iid, landing.mr_sha, landing.author) == (1, scene.mr.sha, "mara")
    assert landing.files == ("app/sum.py",)
    assert get_landing(found, first).files is None  # it explains nothing
    assert found.landings[-1] == landing
    told = get_pipeline(found, red)
    assert told.created_at < told.ended_at
    assert told.updated_at


def test_how_many_requests_a_typical_red_takes(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit="ok", lint="ok")
    record = reader.read_branch(record)
    sim.requests.clear()
    red = land(sim, scene, "b.py")
    end(sim, run(sim, scene, red), unit=ERROR, lint="ok")
    record = reader.read_branch(record)
    assert get_paths(sim) == {
        "pipelines": 1, "jobs": 1, "trigger_jobs": 1, "graphql": 1, "trace": 2,
        "commits": 1, "merge_requests": 1, "diff": 1,
    }  # fmt: skip
    sim.requests.clear()
    assert reader.read_branch(record) == record
    assert get_paths(sim) == {"pipelines": 1, "commits": 1}
    sim.requests.clear()
    end(sim, run(sim, scene, land(sim, scene, "c.py")), unit="ok", lint="ok")
    reader.read_branch(record)
    assert len(sim.requests) == 6


def test_a_pipeline_that_ran_again_is_read_again_but_no_log_twice(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    red = end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=ERROR)
    record = reader.read_branch(record)
    sim.requests.clear()
    again = sim.retry_job(red.jobs[0], status="success")
    found = reader.read_branch(record)
    assert get_job(found, red.jobs[0]) == get_job(record, red.jobs[0])
    assert get_job(found, again).outcome is JobOutcome.PASSED
    assert get_paths(sim)["trace"] == 0
    assert get_pipeline(found, red).ended_at > get_pipeline(record, red).ended_at


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("script_failure", JobOutcome.FAILED),
        ("unknown_failure", JobOutcome.FAILED),
        ("job_execution_timeout", JobOutcome.FAILED),
        ("server_timeout_running", JobOutcome.FAILED),
        ("runner_system_failure", JobOutcome.NO_RESULT),
        ("stuck_or_timeout_failure", JobOutcome.NO_RESULT),
        ("api_failure", JobOutcome.NO_RESULT),
        ("a_reason_of_a_later_version", JobOutcome.NO_RESULT),
    ],
)
def test_only_what_the_code_may_have_done_is_a_failure(
    sim: GitLabSim,
    scene: Scene,
    reader: GitLabReader,
    record: BranchRecord,
    reason: str,
    outcome: JobOutcome,
) -> None:
    red = run(sim, scene, land(sim, scene, "a.py"))
    job = sim.add_job(red, "unit", status="failed", trace=write_log(ERROR), failure_reason=reason)
    sim.end_pipeline(red)
    found = get_job(reader.read_branch(record), job)
    assert found.outcome is outcome
    assert bool(found.errors) == (outcome is JobOutcome.FAILED)


def test_jobs_that_may_fail_and_manual_ones_are_left_out(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    red = run(sim, scene, land(sim, scene, "a.py"))
    sim.add_job(red, "scan", status="failed", trace=write_log(ERROR), allow_failure=True)
    sim.add_job(red, "deploy", status="failed", trace=write_log(ERROR)).manual = True
    sim.add_job(red, "publish", status="manual", trace=None).manual = True
    sim.add_job(red, "unit", status="failed", trace=write_log(ERROR))
    sim.add_job(red, "docs", status="canceled", trace=None)
    sim.add_job(red, "pages", status="skipped", trace=None)
    sim.end_pipeline(red)
    jobs = get_pipeline(reader.read_branch(record), red).jobs
    assert {each.name: each.outcome for each in jobs} == {
        "unit": JobOutcome.FAILED,
        "docs": JobOutcome.NO_RESULT,
        "pages": JobOutcome.NO_RESULT,
    }


def test_child_pipelines_are_part_of_their_parent(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    sha = land(sim, scene, "a.py")
    parent, child, allowed = run(sim, scene, sha), *(
        run(sim, scene, sha, "parent_pipeline") for _ in range(2)
    )  # fmt: skip
    parent.bridges += [
        Bridge(900_001, "web", "failed", child),
        Bridge(900_002, "nightly", "failed", allowed, allow_failure=True),
        Bridge(900_003, "elsewhere", "failed", None),
    ]
    end(sim, child, unit=ERROR)
    end(sim, allowed, unit=ERROR)
    end(sim, parent, unit="ok")
    found = reader.read_branch(record)
    assert [each.pipeline_id for each in found.pipelines] == [parent.id]
    jobs = get_pipeline(found, parent).jobs
    assert {each.name: each.outcome for each in jobs} == {
        "unit": JobOutcome.PASSED,
        "web > unit": JobOutcome.FAILED,
        "elsewhere": JobOutcome.FAILED,
    }
    assert [has_known_error(each) for each in jobs if each.name == "elsewhere"] == [False]


def test_what_is_no_pipeline_of_the_branch_is_left_out(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    sha = land(sim, scene, "a.py")
    ended = [end(sim, run(sim, scene, sha, source), unit="ok") for source in ("schedule", "web")]
    run(sim, scene, sha)  # still at work
    other = sim.open_merge_request(
        scene.project, scene.developer, title="Release", branch="main-2", target_branch="main"
    )
    other.source_branch = "main"
    sim.run_pipeline(other)
    found = reader.read_branch(record)
    assert [each.pipeline_id for each in found.pipelines] == [each.id for each in ended]


def test_a_branch_that_was_never_looked_at_is_read_back_to_a_pass_of_what_fails(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    green = [
        end(sim, run(sim, scene, land(sim, scene, f"{n}.py")), unit="ok", lint="ok")
        for n in range(12)
    ]
    red = [
        end(sim, run(sim, scene, land(sim, scene, f"r{n}.py")), unit=ERROR, lint="ok")
        for n in range(8)
    ]
    found = reader.read_branch(record)
    assert [each.pipeline_id for each in found.pipelines] == [
        green[-1].id, *(each.id for each in red)
    ]  # fmt: skip


def test_a_log_that_is_gone_leaves_the_error_unknown(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    red = end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=ERROR, lint=ERROR, docs=ERROR)
    red.jobs[0].erased = True
    red.jobs[1].trace = b""
    found = reader.read_branch(record)
    jobs = [get_job(found, each) for each in red.jobs]
    assert list(map(has_known_error, jobs)) == [False, False, True]
    assert [each.errors for each in jobs[:2]] == [(make_silent_error(n),) for n in ("unit", "lint")]


@pytest.mark.parametrize("path", ["pipelines$", "/jobs$", "trigger_jobs$", "trace$", "commits$"])
@pytest.mark.parametrize("status", [500, 429])
def test_an_outage_is_no_half_record(
    sim: GitLabSim,
    scene: Scene,
    reader: GitLabReader,
    record: BranchRecord,
    path: str,
    status: int,
) -> None:
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=ERROR)
    sim.fail_next("GET", path, status, times=3, headers={"Retry-After": "0"})
    with pytest.raises(SourceError) as caught:
        reader.read_branch(record)
    assert caught.value.transient
    sim.clear_faults()
    assert reader.read_branch(record).pipelines


@pytest.mark.parametrize("path", ["graphql$", "merge_requests$", "/diff$", "trace$", "/commits$"])
@pytest.mark.parametrize("status", [403, 404])
def test_what_the_token_may_not_see_is_not_known(
    sim: GitLabSim,
    scene: Scene,
    reader: GitLabReader,
    record: BranchRecord,
    path: str,
    status: int,
) -> None:
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit="ok")
    red = end(sim, run(sim, scene, land(sim, scene, "b.py")), unit=ERROR)
    sim.fail_next("", path, status, times=50)
    found = reader.read_branch(record)
    assert get_job(found, red.jobs[0]).outcome is JobOutcome.FAILED


def test_a_child_pipeline_that_nobody_waits_for_is_read_until_it_ends(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    sha = land(sim, scene, "a.py")
    parent, child = run(sim, scene, sha), run(sim, scene, sha, "parent_pipeline")
    parent.bridges.append(Bridge(900_001, "web", "success", child))
    job = sim.add_job(child, "unit", status="running", trace=b"")
    record = reader.read_branch(replace(record, pipelines=()))
    end(sim, parent, lint="ok")
    record = reader.read_branch(record)
    assert get_job(record, job).outcome is JobOutcome.NO_RESULT
    job.status, job.failure_reason, job.trace = "failed", "script_failure", write_log(ERROR)
    record = reader.read_branch(record)
    assert get_job(record, job).outcome is JobOutcome.FAILED
    sim.requests.clear()
    reader.read_branch(record)
    assert get_paths(sim)["jobs"] == 0


def test_a_log_that_is_late_is_read_when_it_has_come(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    sim.set_clock(datetime.now(UTC))
    red = end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=ERROR)
    log, red.jobs[0].trace = red.jobs[0].trace, b""
    record = reader.read_branch(record)
    assert not has_known_error(get_job(record, red.jobs[0]))
    red.jobs[0].trace = log
    assert has_known_error(get_job(reader.read_branch(record), red.jobs[0]))


def test_a_log_that_is_too_long_leaves_the_error_unknown(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    red = end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=ERROR)
    red.jobs[0].trace = b"x" * 80 * 120_000 + write_log(ERROR)
    assert not has_known_error(get_job(reader.read_branch(record), red.jobs[0]))


def test_very_many_jobs_are_read_within_bounds(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    jobs = {f"unit{n}": ERROR for n in range(260)}
    red = end(sim, run(sim, scene, land(sim, scene, "a.py")), **jobs)
    found = get_pipeline(reader.read_branch(record), red).jobs
    assert len(found) == 260
    assert sum(bool(each.errors) for each in found) == 30
    assert len(sim.requests) < 45


def test_texts_of_strangers_are_made_harmless(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    land(sim, scene, "a.py", "hush\n\u202eTitle\x1b[31m" + "!" * 400)
    sha = land(sim, scene, "hush.py", "ok")
    red = run(sim, scene, sha)
    name = "unit\n/close @all hush\u200b"
    job = sim.add_job(red, name, status="failed", trace=write_log("ERROR: hush is wrong \x1b[0m"))
    sim.end_pipeline(red)
    found = reader.read_branch(record)
    titles = [each.title for each in found.landings]
    assert all("hush" not in each and "\n" not in each and len(each) <= 300 for each in titles)
    end_of_job = get_job(found, job)
    assert end_of_job.name == "unit /close @all ***"
    assert [text for _, text in end_of_job.errors] == ["ERROR: *** is wrong"]
