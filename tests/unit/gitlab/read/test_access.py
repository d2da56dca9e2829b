"""What the model cannot read, whatever ids and paths it or the merge request names."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.simulators.gitlab import Access, Bridge, GitLabSim, Job, Pipeline, Project, Scene
from tests.unit.conftest import fetch, files_in, subject_of, told, zipped
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.ci_config import MAX_PROJECTS, has_foreign_includes, names_includes
from worker.gitlab.read.session_reader import Reader

pytestmark = pytest.mark.attack("binding")

SECRET = b'{"deploy": {"script": "vault read kv/prod"}}'


def on_branch(sim: GitLabSim, scene: Scene, branch: str, **more: Any) -> Pipeline:
    """A pipeline of a branch that has nothing to do with the merge request."""
    pipeline = sim.run_pipeline(scene.mr, kind="branch", project=scene.project, **more)
    scene.mr.pipelines.remove(pipeline)
    scene.mr.head_pipeline = scene.pipeline
    pipeline.ref = branch
    pipeline.sha = sim.commit(scene.project, branch, {f"{branch}.txt": str(pipeline.id).encode()})
    return pipeline


# ------------------------------------------------------------------------------------ includes (6)


@pytest.fixture
def secret(sim: GitLabSim, scene: Scene) -> Project:
    """A project that the bot can see and the merge request's author cannot."""
    project = sim.add_project("ops/secret", {"ci.yml": SECRET})
    sim.add_member(project, scene.bot, Access.REPORTER)
    return project


def configured(sim: GitLabSim, scene: Scene, reader: Reader, *include: Mapping[str, str]) -> None:
    """Let the commit that the pipeline ran on include these."""
    config = {"include": list(include), "unit-tests": {"script": "make test"}}
    tree = scene.project.commits[reader.subject.sha]
    tree[".gitlab-ci.yml"] = json.dumps(config).encode()


@pytest.mark.parametrize("path", ["ops/secret", "Ops/SECRET"])
def test_what_is_included_from_another_project_is_withheld(
    sim: GitLabSim, scene: Scene, reader: Reader, secret: Project, path: str
) -> None:
    configured(sim, scene, reader, {"project": path, "file": "ci.yml"})
    document = fetch(reader, "gitlab_get_ci_config")
    assert b"vault" not in bytes(document.data)
    assert b"# included: file ci.yml of ops/secret" in bytes(document.data)
    assert b'"script": "make test"' in bytes(document.data)
    assert document.gaps.startswith("the merged configuration: it includes")


def test_what_an_own_file_includes_is_withheld_too_and_foreign_names_are_not_told(
    sim: GitLabSim, scene: Scene, reader: Reader, secret: Project
) -> None:
    deeper = sim.add_project("ops/deeper", {"more.yml": SECRET})
    sim.add_member(deeper, scene.bot, Access.REPORTER)
    nested = {"include": [{"project": "ops/deeper", "file": "more.yml"}]}
    sim.commit(secret, "main", {"ci.yml": json.dumps(nested).encode()})
    own = {"include": [{"project": "ops/secret", "file": "ci.yml"}]}
    scene.project.commits[reader.subject.sha]["own.yml"] = json.dumps(own).encode()
    configured(sim, scene, reader, {"local": "own.yml"})
    data = bytes(fetch(reader, "gitlab_get_ci_config").data)
    assert b"# included: local own.yml of team/service" in data
    assert b"vault" not in data
    assert b"deeper" not in data


@pytest.mark.parametrize("config", [b"include", b'"in\\u0063lude"'])
def test_what_gitlab_says_of_an_include_that_fails_is_withheld(
    sim: GitLabSim, scene: Scene, reader: Reader, secret: Project, config: bytes
) -> None:
    """It tells apart a project that is not there, a file that is not, and what is wrong in it."""
    include = {"project": "ops/secret", "file": "no.yml"}
    configured(sim, scene, reader, include)
    tree = scene.project.commits[reader.subject.sha]
    tree[".gitlab-ci.yml"] = tree[".gitlab-ci.yml"].replace(
        b'"include"', b'"' + config.strip(b'"') + b'"'
    )
    scene.pipeline.yaml_errors = "Project `ops/secret` not found or access denied!"
    data = bytes(fetch(reader, "gitlab_get_ci_config").data)
    assert b"does not exist" not in data
    # What the author was told is theirs to know.
    assert b"# error: Project `ops/secret` not found or access denied!" in data


@pytest.mark.parametrize(
    ("answer", "tells"),
    [
        ({"valid": True, "merged_yaml": SECRET.decode()}, False),
        ({"valid": True, "includes": None}, False),
        ({"valid": True, "includes": []}, True),
        ({"valid": False, "includes": []}, False),
        ({"valid": False, "includes": [{"type": "local"}]}, True),
    ],
)
def test_an_answer_that_does_not_say_what_was_merged_is_not_believed(
    answer: dict[str, Any], tells: bool
) -> None:
    assert names_includes(wire.Lint.model_validate(answer)) is tells


@pytest.mark.parametrize(
    "include",
    [
        {"type": "file", "extra": {}},
        {"type": "file", "extra": {"project": "ops/secret"}},
        {"type": "local", "context_project": "ops/secret"},
        {"type": "local"},
        {"type": "component", "location": "gitlab.example/ops/secret/scan@1.0"},
        {"type": "component", "location": "[MASKED]"},
        {"type": "something new", "location": "ops/secret"},
    ],
)
def test_an_include_whose_project_is_not_the_sessions_or_not_known_is_foreign(
    reader: Reader, secret: Project, include: dict[str, Any]
) -> None:
    assert has_foreign_includes((wire.Include.model_validate(include),), reader)


def test_own_files_and_what_belongs_to_no_project_are_merged(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.project.commits[reader.subject.sha]["own.yml"] = b"lint: {script: ruff}\n"
    configured(sim, scene, reader, {"local": "own.yml"})
    assert b"ruff" in bytes(fetch(reader, "gitlab_get_ci_config").data)


def test_a_project_that_the_operator_lists_is_merged(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: Reader, secret: Project
) -> None:
    configured(sim, scene, reader, {"project": "ops/secret", "file": "ci.yml"})
    secret.public = True
    allowed = Reader.open(client, reader.subject, bytes, also=["ops/*"])
    assert b"vault" in bytes(fetch(allowed, "gitlab_get_ci_config").data)


@pytest.mark.parametrize("is_mr_public", [True, False])
@pytest.mark.parametrize(
    "closed", [{"public": False}, {"public_jobs": False}, {"builds_access": "private"}]
)
def test_what_a_listed_project_keeps_for_its_members_is_not_read(
    sim: GitLabSim,
    scene: Scene,
    client: ReadClient,
    reader: Reader,
    secret: Project,
    is_mr_public: bool,
    closed: dict[str, Any],
) -> None:
    """The members of the merge request's project are no members of it."""
    secret.public, scene.project.public = True, is_mr_public
    for name, value in closed.items():
        setattr(secret, name, value)
    job = sim.add_job(
        sim.run_pipeline(scene.mr, kind="child", project=secret),
        "rollout",
        status="failed",
        trace=b"TOP SECRET\n",
    )
    scene.pipeline.bridges.append(Bridge(1, "deploy", "failed", job.pipeline))
    configured(sim, scene, reader, {"project": "ops/secret", "file": "ci.yml"})
    allowed = Reader.open(client, reader.subject, bytes, also=["ops/*"])
    assert b"vault" not in bytes(fetch(allowed, "gitlab_get_ci_config").data)
    assert b"not one this session may read" in bytes(
        fetch(allowed, "gitlab_list_pipeline_jobs").data
    )
    with pytest.raises(SourceError, match="not found"):
        fetch(allowed, "gitlab_get_job_log", job_id=job.id)


def test_only_so_many_projects_are_looked_up(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: Reader
) -> None:
    many = [{"project": f"ops/{number}", "file": "ci.yml"} for number in range(MAX_PROJECTS + 1)]
    for each in many:
        sim.add_member(
            sim.add_project(each["project"], {"ci.yml": b"x: 1\n"}), scene.bot, Access.REPORTER
        )
    configured(sim, scene, reader, *many)
    allowed = Reader.open(client, reader.subject, bytes, also=["ops/*"])
    before = len(sim.requests)
    assert fetch(allowed, "gitlab_get_ci_config").gaps.startswith("the merged configuration:")
    assert len(sim.requests) - before < 6


# -------------------------------------------------------------------------------- ids of jobs (7)


def foreign_jobs(sim: GitLabSim, scene: Scene) -> dict[str, Job]:
    """Jobs of the project that are none of the merge request's business."""
    release = on_branch(sim, scene, "release")
    main = on_branch(sim, scene, "main")
    beside = sim.open_merge_request(scene.project, scene.developer, title="x", branch="x")
    other = sim.run_pipeline(beside)
    trace = b"TOP SECRET\n"
    return {
        "another branch's, of the same name": sim.add_job(release, "unit-tests", trace=trace),
        "another branch's": sim.add_job(release, "deploy", trace=trace),
        "the target branch's, of another name": sim.add_job(main, "deploy", trace=trace),
        "another merge request's": sim.add_job(other, "unit-tests", trace=trace),
    }


def test_jobs_that_are_not_the_merge_requests_are_not_read(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    for what, job in foreign_jobs(sim, scene).items():
        job.archive = zipped({"env.txt": b"TOP SECRET"})
        for name, more in [
            ("gitlab_get_job_log", {}),
            ("gitlab_list_artifacts", {}),
            ("gitlab_get_artifact", {"path": "env.txt"}),
            ("gitlab_get_artifacts", {}),
        ]:
            with pytest.raises(SourceError, match="is not of this merge request"):
                fetch(reader, name, job_id=job.id, **more)
            assert what
        with pytest.raises(SourceError, match="is not of this merge request"):
            _ = reader.logs.read_log(job.id).lines
    assert not [seen for seen in sim.requests if "/trace" in seen.path or "/artifacts" in seen.path]


def test_pipelines_that_are_not_the_merge_requests_are_not_read(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    jobs = foreign_jobs(sim, scene)
    for what in ("another branch's", "another merge request's"):
        number = jobs[what].pipeline.id
        for name in ("gitlab_list_pipeline_jobs", "gitlab_get_test_report"):
            with pytest.raises(SourceError, match="is not of this merge request"):
                fetch(reader, name, pipeline_id=number)


def test_the_last_green_log_is_of_a_job_that_the_merge_request_has(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    foreign_jobs(sim, scene)
    with pytest.raises(SourceError, match="is not of this merge request"):
        fetch(reader, "gitlab_get_last_green_log", job_name="deploy")


def test_what_a_target_branchs_pipeline_has_started_is_bound_by_name(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: Reader
) -> None:
    """A listing of the target branch's pipeline opens no other project's jobs of other names."""
    other = sim.add_project("shared/deploy", public=True)
    sim.add_member(other, scene.bot, Access.REPORTER)
    main = on_branch(sim, scene, "main")
    child = on_branch(sim, scene, "main")
    child.project, child.source = other, "pipeline"
    job = sim.add_job(child, "rollout", status="failed", trace=b"TOP SECRET\n")
    main.bridges.append(Bridge(1, "deploy", "failed", child))
    allowed = Reader.open(client, reader.subject, bytes, also=["shared/*"])
    fetch(allowed, "gitlab_list_pipeline_jobs", pipeline_id=main.id)
    with pytest.raises(SourceError, match="not found"):
        fetch(allowed, "gitlab_get_job_log", job_id=job.id)


def test_a_project_that_was_renamed_is_known_by_its_present_path(
    scene: Scene, client: ReadClient, reader: Reader
) -> None:
    renamed = Reader.open(client, replace(reader.subject, project="team/former"), bytes)
    assert renamed.may_read_path(scene.project.path.upper())
    assert not renamed.may_read_path("team/former")


def test_a_target_branchs_test_report_shows_the_same_jobs_only(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    main = on_branch(sim, scene, "main")
    sim.add_job(scene.pipeline, "rspec 1/2")
    case = {"status": "failed", "name": "t", "system_output": "TOP SECRET"}
    main.test_suites = [
        {"name": "audit", "total_count": 1, "failed_count": 1, "test_cases": [case]},
        {"name": "rspec", "total_count": 1, "success_count": 1, "test_cases": []},
        {"name": "unit-tests", "total_count": 1, "success_count": 1, "test_cases": []},
    ]
    document = fetch(reader, "gitlab_get_test_report", pipeline_id=main.id)
    assert [each["job"] for each in told(document)["suites"]] == ["rspec", "unit-tests"]
    assert b"SECRET" not in bytes(document.data)
    assert document.gaps == "the tests of 1 jobs that the merge request does not have"


def test_a_forks_merge_request_of_the_same_number_is_another_one(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    fork = sim.add_project("mara/service", parent=scene.project)
    sim.add_member(fork, scene.bot, Access.REPORTER)
    far = sim.open_merge_request(
        scene.project, scene.developer, title="Far", branch="far", source=fork
    )
    pipeline = sim.run_pipeline(far)
    for number in range(far.iid):
        within = sim.open_merge_request(fork, scene.developer, title="In", branch=f"in-{number}")
    assert within.iid == far.iid
    job = sim.add_job(sim.run_pipeline(within), "unit-tests", trace=b"TOP SECRET\n")
    reader = Reader.open(client, subject_of(sim, far, pipeline), bytes)
    with pytest.raises(SourceError, match="is not of this merge request"):
        fetch(reader, "gitlab_get_job_log", job_id=job.id)


@pytest.mark.parametrize("is_mr_public", [True, False])
def test_of_a_private_fork_only_the_merge_requests_own_commits_are_read(
    sim: GitLabSim, scene: Scene, client: ReadClient, is_mr_public: bool
) -> None:
    """Its author has opened the merge request, and nothing else, to the readers of the note."""
    scene.project.public = is_mr_public
    fork = sim.add_project("mara/service", parent=scene.project)
    sim.add_member(fork, scene.bot, Access.REPORTER)
    far = sim.open_merge_request(
        scene.project,
        scene.developer,
        title="Far",
        branch="far",
        source=fork,
        files={"far.py": b"1\n"},
    )
    hidden = sim.commit(fork, "plans", {"plans.txt": b"TOP SECRET\n"})
    subject = subject_of(sim, far, sim.run_pipeline(far, kind="branch"))
    reader = Reader.open(client, subject, bytes)
    for ref in ("far", far.sha, far.sha[:12]):
        assert fetch(reader, "gitlab_get_file", path="far.py", ref=ref).data == b"1\n"
    for ref in ("plans", hidden, hidden[:12]):
        for name, more in [
            ("gitlab_get_file", {"path": "plans.txt", "ref": ref}),
            ("gitlab_list_files", {"ref": ref}),
            ("gitlab_compare", {"old": far.sha, "new": ref}),
        ]:
            with pytest.raises((ArgumentError, SourceError)):
                fetch(reader, name, **more)
        archive = fetch(reader, "gitlab_get_source_archive", ref=ref)
        with pytest.raises(SourceError):
            files_in(archive)
    fork.public = True
    opened = Reader.open(client, subject, bytes)
    secret = fetch(opened, "gitlab_get_file", path="plans.txt", ref="plans")
    assert secret.data == b"TOP SECRET\n"


# ----------------------------------------------------------------------- what may be read, cheaply


def test_the_merge_requests_own_jobs_are_read_without_another_request(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    older = sim.run_pipeline(scene.mr, kind="merge")
    jobs = [scene.job, sim.add_job(older, "unit-tests", trace=b"before\n")]
    before = len(sim.requests)
    for job in jobs:
        assert fetch(reader, "gitlab_get_job_log", job_id=job.id).data
    assert len(sim.requests) - before == 2 * len(jobs)


def test_a_branch_pipeline_of_the_merge_request_is_looked_up_once(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    branch = sim.run_pipeline(scene.mr, kind="branch")
    child = sim.run_pipeline(scene.mr, kind="child")
    jobs = [sim.add_job(each, f"job-{each.id}", trace=b"mine\n") for each in (branch, child)]
    for job in jobs:
        assert fetch(reader, "gitlab_get_job_log", job_id=job.id).data == b"mine\n"
    asked = [seen.path for seen in sim.requests]
    assert sum(path.endswith(f"/merge_requests/{scene.mr.iid}/pipelines") for path in asked) == 1


def test_the_same_job_on_the_target_branch_is_read(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    main = on_branch(sim, scene, "main", status="success")
    job = sim.add_job(main, "unit-tests", trace=b"fine\n")
    assert fetch(reader, "gitlab_get_job_log", job_id=job.id).data == b"fine\n"
    log = fetch(reader, "gitlab_get_last_green_log", job_name="unit-tests")
    assert log.data.startswith(b"fine\n")
