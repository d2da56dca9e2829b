"""What incidents have to know of a merge request's pipeline, and what it takes to read it."""

from collections.abc import Iterator

import pytest

from tests.contract.branches import ERROR, end, get_paths, land, run, write_log
from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline, Scene, User
from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.session_reader import Reader
from worker.incidents.record import BranchRecord, JobOutcome, PipelineKind
from worker.lab.gitlab.state import Bridge, Commit
from worker.safety.redact import Redactor
from worker.verdict.jobs import FailingJob


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        asked = {seen.path for seen in running.requests if seen.method != "GET"}
        assert asked <= {"/api/graphql"}


@pytest.fixture
def client(sim: GitLabSim, scene: Scene) -> ReadClient:
    return ReadClient(sim.url, scene.read_token, retries=0)


@pytest.fixture
def reader(sim: GitLabSim, client: ReadClient) -> GitLabReader:
    return GitLabReader(client, sim.url, (), 30)


def make_subject(sim: GitLabSim, mr: MergeRequest, pipeline: Pipeline) -> Subject:
    project = mr.project
    return Subject(
        sim.url, project.id, project.path, mr.iid, pipeline.project.id, pipeline.id, pipeline.sha,
        mr.web_url,
    )  # fmt: skip


def open_request(sim: GitLabSim, scene: Scene, name: str, by: User | None = None) -> MergeRequest:
    return sim.open_merge_request(
        scene.project,
        by or scene.developer,
        title=name,
        branch=name,
        files={f"{name}.md": name.encode()},
    )


def test_a_failed_pipeline_of_the_branch_alone(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR, lint="ok")
    found = reader.read_request(make_subject(sim, mr, red))
    assert (found.mr_iid, found.pipeline_id, found.kind) == (mr.iid, red.id, PipelineKind.DETACHED)
    assert (found.base, found.contains) == (scene.project.refs["main"], (mr.sha,))
    assert (found.author, found.is_member, found.is_over) == ("mara", True, False)
    assert {each.name: each.outcome for each in found.jobs} == {
        "unit": JobOutcome.FAILED,
        "lint": JobOutcome.PASSED,
    }
    assert [[text for _, text in each.errors] for each in found.jobs] == [[ERROR], []]
    assert found.ended_at > 0


def test_the_same_error_has_the_key_that_it_has_on_the_branch(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: GitLabReader
) -> None:
    spelt = "dial tcp db-{}-{}:{}: connection refused after {}s"
    sha = land(sim, scene, "a.py")
    on_branch = end(sim, run(sim, scene, sha), unit=spelt.format("7f9c4d5b8", "x2x9k", 41234, 30.1))
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=spelt.format("5c8d9f7b6", "k8s2p", 39871, 29.9))
    subject = make_subject(sim, mr, red)
    session = Reader.open(client, subject, Redactor(()).remove_secrets)
    job = red.jobs[0]
    failing = [FailingJob(job.id, "unit", reason="script_failure", read=True)]
    found = reader.read_request(subject, failing, session.logs)
    asked = client.with_deadline(1e12)
    branch = GitLabReader(asked, sim.url, (), 30).read_branch(
        BranchRecord(scene.project.id, scene.project.path, "main")
    )
    theirs = next(each for each in branch.pipelines if each.pipeline_id == on_branch.id).jobs[0]
    ours = found.jobs[0]
    assert ours.errors[0][0] == theirs.errors[0][0]
    assert ours.errors[0][1] != theirs.errors[0][1]


def test_what_the_session_has_read_is_not_read_again(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR, lint="ok")
    subject = make_subject(sim, mr, red)
    session = Reader.open(client, subject, Redactor(()).remove_secrets)
    assert list(session.logs.read_log(red.jobs[0].id).read_passed_lines()) == []
    sim.requests.clear()
    failing = [FailingJob(red.jobs[0].id, "unit", reason="script_failure", read=True)]
    alone = reader.read_request(subject, failing, session.logs)
    assert get_paths(sim) == {
        str(mr.iid): 1, "jobs": 1, "trigger_jobs": 1, "commits": 1, "deployments": 1,
        str(scene.developer.id): 1,
    }  # fmt: skip
    assert alone == reader.read_request(subject)


def test_merged_results_stand_on_the_targets_commit(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    mr.base_sha = land(sim, scene, "a.py")
    red = end(sim, sim.run_pipeline(mr, kind="merge"), unit=ERROR)
    found = reader.read_request(make_subject(sim, mr, red))
    assert (found.kind, found.base) == (PipelineKind.MERGED_RESULT, mr.base_sha)
    assert found.contains == (mr.sha,)


def put_on(sim: GitLabSim, scene: Scene, mr: MergeRequest, below: str) -> Pipeline:
    """Run a pipeline of a merge train on a commit that merges the request onto `below`."""
    pipeline = sim.run_pipeline(mr, kind="train")
    pipeline.sha = f"{mr.iid:040x}"
    scene.project.records[pipeline.sha] = Commit(
        pipeline.sha, "Merge", mr.author, sim.advance_clock(), parents=(below, mr.sha)
    )
    return end(sim, pipeline, unit=ERROR)


def test_a_train_has_cars_in_front(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    main = land(sim, scene, "a.py")
    requests = [open_request(sim, scene, name) for name in ("one", "two", "three")]
    below, pipelines = main, []
    for mr in requests:
        pipelines.append(put_on(sim, scene, mr, below))
        below = pipelines[-1].sha
    found = [
        reader.read_request(make_subject(sim, mr, pipeline))
        for mr, pipeline in zip(requests, pipelines, strict=True)
    ]
    first, second, _ = (mr.iid for mr in requests)
    assert [each.cars for each in found] == [(), (first,), (first, second)]
    assert {each.base for each in found} == {main}
    assert {each.kind for each in found} == {PipelineKind.MERGE_TRAIN}


def test_a_pipeline_that_passed_is_read_with_its_passed_jobs(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    bad = land(sim, scene, "a.py")
    mr = open_request(sim, scene, "fix")
    mr.commits[-1].message = f'Revert "a"\n\nThis reverts commit {bad}.\n'
    green = end(sim, sim.run_pipeline(mr), unit="ok", lint="ok")
    found = reader.read_request(make_subject(sim, mr, green))
    assert {each.outcome for each in found.jobs} == {JobOutcome.PASSED}
    assert (found.base, found.reverts) == (bad, (bad,))
    assert get_paths(sim)["deployments"] == 0


def test_newest_attempts_count_and_jobs_that_may_fail_do_not(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    sim.add_job(red, "scan", status="failed", trace=write_log(ERROR), allow_failure=True)
    sim.retry_job(red.jobs[0], status="success")
    found = reader.read_request(make_subject(sim, mr, red))
    assert [(each.name, each.outcome) for each in found.jobs] == [("unit", JobOutcome.PASSED)]


@pytest.mark.parametrize("gone", [False, True])
def test_a_job_with_an_environment_deploys(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, gone: bool
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), review=ERROR, unit=ERROR)
    red.jobs[0].environment = "review/docs"
    if gone:
        sim.fail_next("GET", "deployments$", 403)
    found = reader.read_request(make_subject(sim, mr, red))
    assert [each.deploys for each in found.jobs] == [True, gone]


def test_what_else_failed_is_listed_without_an_error(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit="ok")
    child = sim.run_pipeline(mr, kind="child")
    red.bridges += [Bridge(900_001, "web", "failed", child), Bridge(900_002, "lost", "failed")]
    end(sim, child, unit=ERROR)
    mr.head_pipeline = red
    subject = make_subject(sim, mr, red)
    session = Reader.open(client, subject, Redactor(()).remove_secrets)
    session.logs.allow_job(child.jobs[0].id, scene.project.id, ("web",))
    failing = [
        FailingJob(child.jobs[0].id, "unit", reason="script_failure", read=True),
        FailingJob(0, "lost", read=True),
        FailingJob(0, "ci/other", read=True, external=True, excerpt="it is red"),
    ]
    found = reader.read_request(subject, failing, session.logs)
    assert {each.name: (each.outcome, len(each.errors)) for each in found.jobs} == {
        "unit": (JobOutcome.PASSED, 0),
        "web > unit": (JobOutcome.FAILED, 1),
        "lost": (JobOutcome.FAILED, 0),
        "ci/other": (JobOutcome.FAILED, 0),
    }


@pytest.mark.parametrize("is_session", [False, True])
def test_a_job_that_failed_by_its_runner_has_failed_without_an_error(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: GitLabReader, is_session: bool
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    reason, log = "runner_system_failure", write_log(ERROR)
    lost = sim.add_job(red, "lint", status="failed", trace=log, failure_reason=reason)
    subject = make_subject(sim, mr, red)
    session = Reader.open(client, subject, Redactor(()).remove_secrets)
    failing = [
        FailingJob(each.id, each.name, reason=each.failure_reason or "", read=True)
        for each in red.jobs
    ]
    found = reader.read_request(subject, failing, session.logs if is_session else None)
    ends = {each.job_id: (each.outcome, len(each.errors)) for each in found.jobs}
    assert ends == {
        red.jobs[0].id: (JobOutcome.FAILED, 1),
        lost.id: (JobOutcome.FAILED, 0),
    }


def test_a_secret_is_taken_out_alike_on_both_sides(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    error = "ERROR: the server refused the token glpat-Ab3dEf9GhIjKlMn0pQrS of shop"
    redactor = Redactor(())
    reader = GitLabReader(client, sim.url, (), 30, redact=redactor.redact_text)
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit=error)
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=error)
    subject = make_subject(sim, mr, red)
    session = Reader.open(client, subject, redactor.remove_secrets)
    failing = [FailingJob(red.jobs[0].id, "unit", reason="script_failure", read=True)]
    ours = reader.read_request(subject, failing, session.logs).jobs[0].errors
    project = scene.project
    branch = reader.read_branch(BranchRecord(project.id, project.path, "main"))
    assert ours == branch.pipelines[-1].jobs[0].errors != ()
    assert "Ab3dEf9GhIjKlMn0pQrS" not in str(ours)


def test_a_stranger_is_no_member(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    mr = open_request(sim, scene, "docs", sim.add_user("somebody"))
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    assert not reader.read_request(make_subject(sim, mr, red)).is_member


@pytest.mark.parametrize("state", ["merged", "closed"])
def test_a_request_that_is_over_says_so(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, state: str
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    mr.state = state
    assert reader.read_request(make_subject(sim, mr, red)).is_over


def test_the_base_of_an_older_commit_is_not_known(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    sim.push(mr, {"more.md": b"more"})
    found = reader.read_request(make_subject(sim, mr, red))
    assert found.base == ""


@pytest.mark.parametrize("kind", ["merge", "train"])
def test_a_commit_that_is_gone_leaves_the_base_unknown(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr, kind=kind), unit=ERROR)
    del scene.project.records[red.sha]
    found = reader.read_request(make_subject(sim, mr, red))
    assert (found.base, found.cars) == ("", ())


@pytest.mark.parametrize("path", ["/jobs$", "commits$", r"merge_requests/\d+$", "members"])
def test_an_outage_makes_no_record(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, path: str
) -> None:
    mr = open_request(sim, scene, "docs")
    red = end(sim, sim.run_pipeline(mr), unit=ERROR)
    sim.fail_next("GET", path, 502)
    with pytest.raises(SourceError):
        reader.read_request(make_subject(sim, mr, red))
