"""What is read of a pipeline's test reports, and which pipelines have reported any."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.simulators.gitlab import Access, Bridge, GitLabSim, Job, MergeRequest, Pipeline, Scene
from worker.errors import SourceError
from worker.gitlab.ports import EndedPipeline
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.ledger.record import PipelineTests, RanOn


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {(seen.method, seen.token) for seen in running.requests} <= {("GET", "read")}


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene) -> GitLabReader:
    client = ReadClient(sim.url, scene.read_token, retries=0)
    return GitLabReader(
        client, sim.url, ("team/*",), 30,
        sleep=lambda seconds: None, redact=lambda text: text.replace("hush", "***"),
    )  # fmt: skip


def case(name: str, status: str = "success", output: Any = None, **more: Any) -> dict[str, Any]:
    """A test as GitLab shows it."""
    return {
        "name": name,
        "classname": "tests.Sum",
        "status": status,
        "system_output": output,
    } | more


FAILED = case("test_sum", "failed", "AssertionError: expected 3, got 4", file="tests/sum.py")
PASSED = case("test_sum")


def branch(sim: GitLabSim, scene: Scene, status: str = "failed", ref: str = "main") -> Pipeline:
    made = sim.add_pipeline(
        scene.project, scene.developer,
        ref=ref, sha=scene.project.refs["main"], source="push", status=status,
    )  # fmt: skip
    made.finished_at = sim.advance_clock()
    return made


def report(sim: GitLabSim, run: Pipeline, *tests: dict[str, Any], name: str = "unit") -> Job:
    """A job of the pipeline with these tests."""
    bad = any(each["status"] in ("failed", "error") for each in tests)
    job = sim.add_job(run, name, status="failed" if bad else "success")
    job.tests = list(tests)
    return job


def read(reader: GitLabReader, run: Pipeline, listed: EndedPipeline | None = None) -> PipelineTests:
    found = reader.read_tests(run.project.id, run.id, listed)
    assert isinstance(found, PipelineTests), found
    return found


def listed(reader: GitLabReader, since: float = 0.0) -> list[EndedPipeline]:
    return [
        each
        for some in reader.find_ended_pipelines(since)
        for each in (some if not isinstance(some, str) else ())
    ]


def find(reader: GitLabReader, run: Pipeline) -> EndedPipeline:
    return next(each for each in listed(reader) if each.pipeline_id == run.id)


def asked(sim: GitLabSim, begin: int = 0) -> list[str]:
    return [each.path.rpartition("/")[2] for each in sim.requests[begin:]]


def test_what_failed_is_told_with_its_text_its_job_and_how_many_ran(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    job = report(
        sim, run, FAILED, case("test_io", "error", "boom"), case("a"), case("b", "skipped")
    )
    found = read(reader, run)
    assert (found.pipeline_id, found.sha, found.source) == (run.id, run.sha, "push")
    assert (found.ran_on, found.ref, found.mr_iid) == (RanOn.DEFAULT, "main", 0)
    assert found.updated_at == run.touched_at
    assert found.created_at == datetime.fromisoformat(run.created_at).timestamp()
    (suite,) = found.suites
    assert (suite.job, suite.tests, suite.failed, suite.skipped) == ("unit", 4, 2, 1)
    assert (suite.newest_job, suite.runs, suite.seconds) == (job.id, 1, 42.5)
    first, second = found.failures
    assert (first.test.name, first.job, first.file) == ("test_sum", "unit", "tests/sum.py")
    assert first.text == "AssertionError: expected 3, got 4"
    assert first.key
    assert not first.has_passed
    assert (second.test.name, second.text) == ("test_io", "boom")
    assert found.is_whole("unit")


def test_the_whole_report_is_asked_for_only_where_a_test_has_failed(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    green, red = branch(sim, scene, "success"), branch(sim, scene)
    report(sim, green, PASSED)
    report(sim, red, FAILED)
    told = find(reader, green), find(reader, red)
    begin = len(sim.requests)
    assert [(each.tests, each.failed) for each in read(reader, green, told[0]).suites] == [(1, 0)]
    assert asked(sim, begin) == ["test_report_summary", "trigger_jobs"]
    begin = len(sim.requests)
    assert read(reader, red, told[1]).failures
    assert asked(sim, begin) == ["jobs", "test_report_summary", "test_report", "trigger_jobs"]


def test_without_a_list_the_project_is_asked_for_once(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, FAILED)
    assert read(reader, run) == read(reader, run, find(reader, run))
    begin = len(sim.requests)
    read(reader, run)
    assert asked(sim, begin) == ["jobs", "test_report_summary", "test_report", "trigger_jobs"]


def test_a_test_that_failed_and_passed_in_one_report_has_passed(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, PASSED, FAILED, case("test_io", "failed"))
    assert [each.has_passed for each in read(reader, run).failures] == [True, False]


def test_shards_are_one_suite_and_variants_of_a_matrix_are_not(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, case("a"), name="unit 1/2")
    last = report(sim, run, FAILED, name="unit 2/2")
    report(sim, run, case("c"), name="e2e: [3.11, pg14]")
    report(sim, run, case("c"), name="e2e: [3.12, pg14]")
    suites = {each.job: each for each in read(reader, run).suites}
    assert set(suites) == {"unit", "e2e: [3.11, pg14]", "e2e: [3.12, pg14]"}
    assert (suites["unit"].tests, suites["unit"].newest_job) == (2, last.id)
    assert [each.seconds for each in suites.values()] == [42.5, 0.0, 0.0]


def test_after_a_retry_both_looks_together_show_that_the_test_has_passed(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    job = report(sim, run, FAILED)
    first = read(reader, run)
    again = sim.retry_job(job, status="success")
    again.tests = [PASSED]
    second = read(reader, run)
    assert (second.failures, second.suites[0].runs) == ((), 2)
    (both,) = first.join(second).failures
    assert both.has_passed


def test_a_report_from_before_a_retry_is_not_taken_for_the_new_one(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    now = datetime.now(UTC)
    sim.set_clock(now)
    run = branch(sim, scene)
    job = report(sim, run, FAILED)
    read(reader, run)
    again = sim.retry_job(job, status="failed")
    again.tests = [PASSED, case("test_io", "failed", "boom"), case("test_new", "failed", "boom")]
    with pytest.raises(SourceError, match="earlier test report"):
        read(reader, run)
    sim.set_clock(now + timedelta(minutes=3))
    assert [each.test.name for each in read(reader, run).failures] == ["test_io", "test_new"]


def test_what_is_not_counted_yet_is_read_from_the_report(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    now = datetime.now(UTC)
    sim.set_clock(now)
    run = branch(sim, scene)
    job = report(sim, run, FAILED, case("a"))
    job.is_summarised = False
    found = read(reader, run)
    (suite,) = found.suites
    assert (suite.tests, suite.failed, suite.newest_job) == (2, 1, job.id)
    assert [each.test.name for each in found.failures] == ["test_sum"]


def test_a_report_that_gitlab_has_not_read_at_all_is_asked_for_later(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    now = datetime.now(UTC)
    sim.set_clock(now)
    run = branch(sim, scene)
    report(sim, run, case("a"), name="lint")
    report(sim, run, FAILED).is_summarised = False
    run.shown_report = now, {"test_suites": []}
    with pytest.raises(SourceError, match="not read all test reports"):
        read(reader, run)


def test_of_an_expired_report_the_numbers_stay(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, FAILED, case("a")).is_report_kept = False
    found = read(reader, run)
    assert [(each.tests, each.failed) for each in found.suites] == [(2, 1)]
    assert (found.failures, found.left_out, found.is_whole("unit")) == ((), 1, False)


def test_a_report_that_gitlab_cannot_parse_proves_nothing(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, FAILED).report_error = "JUnit XML parsing failed: 1:1"
    report(sim, run, case("a", "failed"), name="e2e")
    suites = {each.job: each for each in read(reader, run).suites}
    assert (suites["unit"].is_readable, suites["e2e"].is_readable) == (False, True)


def test_of_very_many_failures_some_are_kept_and_the_others_counted(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    report(sim, run, *(case(f"test_{n}", "failed", "boom") for n in range(150)))
    report(sim, run, *(case(f"test_{n}", "failed", "boom") for n in range(50)), name="e2e")
    found = read(reader, run)
    assert (len(found.failures), found.left_out) == (100, 100)


def test_output_that_was_xml_and_secrets(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    outputs: list[Any] = [
        {"message": "expected hush", "type": "AssertionError"},
        ["ValueError: 1", "ValueError: 2"],
        [{"message": ["deep"]}],
        None,
        7,
    ]
    tests = [case(f"t-hush{n}", "failed", each) for n, each in enumerate(outputs)]
    report(sim, run, *tests, name="unit hush")
    found = read(reader, run)
    texts = ["expected ***", "ValueError: 1", "deep", "", ""]
    assert [each.text for each in found.failures] == texts
    assert "hush" not in repr(found)


def test_a_very_long_output_costs_its_start(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    long = "AssertionError: first\n" + '{"a": "\\u00e9é😀"}\n' * 400_000
    report(sim, run, case("test_long", "failed", long), FAILED)
    assert [each.text for each in read(reader, run).failures] == [
        "AssertionError: first", "AssertionError: expected 3, got 4",
    ]  # fmt: skip


def child(sim: GitLabSim, run: Pipeline, name: str, status: str = "failed") -> Pipeline:
    made = sim.add_pipeline(
        run.project, run.user, ref=run.ref, sha=run.sha, source="parent_pipeline", status=status
    )
    run.bridges.append(Bridge(len(run.bridges) + 1, name, status, made))
    return made


def test_children_are_part_of_their_pipeline(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene)
    below = child(sim, run, "backend")
    report(sim, below, FAILED)
    report(sim, child(sim, below, "deep", "success"), case("a"), name="e2e")
    found = read(reader, run)
    assert [each.job for each in found.suites] == ["backend > unit", "backend > deep > e2e"]
    assert [each.job for each in found.failures] == ["backend > unit"]
    assert reader.read_tests(below.project.id, below.id) == (
        f"pipeline {below.id} is a child pipeline: it is part of its parent"
    )


def test_many_children_are_read_within_bounds(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene, "success")
    for number in range(30):
        report(sim, child(sim, run, f"part-{number}", "success"), case("a"))
    assert len(read(reader, run, find(reader, run)).suites) == 20
    assert len(sim.requests) < 50


def test_a_child_at_work_is_waited_for(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    now = datetime.now(UTC)
    sim.set_clock(now)
    run = branch(sim, scene, "success")
    report(sim, child(sim, run, "backend", "running"), case("a"))
    with pytest.raises(SourceError, match="is running"):
        read(reader, run)
    run.updated_at = "2026-01-01T00:00:00.000Z"
    assert [each.job for each in read(reader, run).suites] == ["backend > unit"]


def test_a_child_in_another_project_is_not_asked_for(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    other = sim.add_project("team/other")
    run = branch(sim, scene)
    child(sim, run, "deploy").project = other
    assert read(reader, run).suites == ()


@pytest.mark.parametrize("kind", ["head", "merge", "train"])
def test_a_merge_requests_pipeline_is_its_own(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str
) -> None:
    run = sim.run_pipeline(scene.mr, kind=kind)
    report(sim, run, FAILED)
    found = read(reader, run)
    assert (found.ran_on, found.mr_iid, found.ref) == (RanOn.REQUEST, scene.mr.iid, "")


def test_another_branch_is_told_from_the_default_one(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    found = read(reader, branch(sim, scene, ref="release/2"))
    assert (found.ran_on, found.ref) == (RanOn.BRANCH, "release/2")


def from_fork(sim: GitLabSim, scene: Scene) -> MergeRequest:
    eve = sim.add_user("eve")
    fork = sim.add_project("eve/service", parent=scene.project)
    return sim.open_merge_request(
        scene.project, eve, title="Mine", branch="patch", source=fork, files={"a": b"1"}
    )


def test_a_stranger_teaches_nothing_until_they_are_a_member(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, fresh: Callable[[], GitLabReader]
) -> None:
    mr = from_fork(sim, scene)
    run = sim.run_pipeline(mr, project=scene.project)
    report(sim, run, FAILED)
    refused = reader.read_tests(scene.project.id, run.id)
    assert refused == f"!{mr.iid} comes from a fork of somebody below gitlab.fork_min_access"
    sim.add_member(scene.project, mr.author, Access.DEVELOPER)
    assert read(fresh(), run).failures


@pytest.fixture
def fresh(sim: GitLabSim, scene: Scene) -> Callable[[], GitLabReader]:
    client = ReadClient(sim.url, scene.read_token, retries=0)
    return lambda: GitLabReader(client, sim.url, (), 30)


def test_what_the_bot_has_tried_is_not_the_projects(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    run = branch(sim, scene, ref="sandpiper/fix-12")
    assert "of the bot" in str(reader.read_tests(run.project.id, run.id))
    mr = sim.open_merge_request(
        scene.project, scene.bot, title="Fix", branch="sandpiper/fix-13", files={"a": b"1"}
    )
    run = sim.run_pipeline(mr)
    assert "the bot's own" in str(reader.read_tests(run.project.id, run.id))


def test_what_does_not_count_says_why(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    run = branch(sim, scene, "running")
    assert reader.read_tests(run.project.id, run.id) == f"pipeline {run.id} is running"
    gone = reader.read_tests(run.project.id, 7)
    assert isinstance(gone, str)
    foreign = sim.add_project("other/place")
    sim.add_member(foreign, scene.bot, Access.REPORTER)
    assert reader.read_tests(foreign.id, 7) == "project other/place is not among gitlab.projects"


def test_a_request_is_asked_for_once_for_many_of_its_pipelines(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    for _ in range(3):
        read(reader, sim.run_pipeline(scene.mr, status="success"))
    assert asked(sim).count(str(scene.mr.iid)) == 1


def test_the_ended_pipelines_of_each_served_project_are_listed(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    now = datetime.now(UTC)
    sim.set_clock(now - timedelta(days=2))
    branch(sim, scene)
    sim.set_clock(now)
    green, red, _ = (branch(sim, scene, each) for each in ("success", "failed", "running"))
    child(sim, red, "backend")
    since = (now - timedelta(hours=1)).timestamp()
    begin = len(sim.requests)
    found = listed(reader, since)
    assert [(each.pipeline_id, each.status) for each in found] == [
        (red.id, "failed"), (green.id, "success"),
    ]  # fmt: skip
    assert (found[1].project, found[1].default_branch) == (scene.project.path, "main")
    assert found[1].updated_at == green.touched_at
    assert len(sim.requests) - begin == 2


def test_very_many_pipelines_are_listed_within_bounds_and_a_refusal_is_said(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    for _ in range(510):
        branch(sim, scene)
    some, said = reader.find_ended_pipelines(0.0)
    assert len(some) == 500
    assert "only the newest 500" in str(said)
    sim.fail_next("GET", "/pipelines", 403)
    (said,) = reader.find_ended_pipelines(0.0)
    assert "too little access" in str(said)
