"""What the reader leaves alone, what it says of a run that goes on, and what a sweep is shown."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.contract.test_gitlab_reader import failed, fork_of
from tests.simulators.gitlab import Access, DiffFile, GitLabSim, Pipeline, Scene
from worker.conversation.context import Subject
from worker.conversation.triggers import PipelineFailed
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.policy import Policy
from worker.verdict.facts import parse_time

TODAY = datetime.fromisoformat("2026-11-20T00:00:00Z").timestamp()


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {seen.method for seen in running.requests} <= {"GET"}
        assert {seen.token for seen in running.requests} <= {"read"}


def make_reader(
    sim: GitLabSim, scene: Scene, projects: tuple[str, ...] = (), **policy: Any
) -> GitLabReader:
    client = ReadClient(sim.url, scene.read_token)
    return GitLabReader(client, sim.url, projects, 30, Policy(**policy), lambda seconds: None)


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene) -> GitLabReader:
    return make_reader(sim, scene)


def subject_of(reader: GitLabReader, scene: Scene) -> Subject:
    found = reader.find_named_subject(str(scene.project.id), scene.mr.iid, None)
    assert isinstance(found, Subject)
    return found


# --------------------------------------------------------------------------------------- opt-outs

OPT_OUTS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"skip_labels": ("no-ci-bot", "Docs")}, "has the label docs (gitlab.skip_labels)"),
    ({"skip_labels": ("doc",)}, ""),
    ({"skip_drafts": True}, "is a draft (gitlab.skip_drafts)"),
    ({"skip_paths": ("app/*",)}, "changes only files that are left alone (gitlab.skip_paths)"),
    ({"skip_paths": ("*.md", "app/s?m.py")}, "changes only files that are left alone"),
    ({"skip_paths": ("*.md",)}, ""),
]


@pytest.mark.parametrize(("policy", "says"), OPT_OUTS)
def test_an_operator_may_have_merge_requests_left_alone(
    sim: GitLabSim, scene: Scene, policy: dict[str, Any], says: str
) -> None:
    scene.mr.draft = True
    scene.mr.labels = ["bug", "docs"]
    found = make_reader(sim, scene, **policy).find_failed_subject(failed(scene.pipeline))
    if says:
        assert isinstance(found, str)
        assert says in found
    else:
        assert isinstance(found, Subject)


@pytest.mark.parametrize("policy", [policy for policy, says in OPT_OUTS if says])
def test_a_human_who_asks_is_not_stopped_by_an_opt_out(
    sim: GitLabSim, scene: Scene, policy: dict[str, Any]
) -> None:
    scene.mr.draft, scene.mr.labels, scene.mr.author.bot = True, ["docs"], True
    assert isinstance(
        make_reader(sim, scene, **policy).find_named_subject("team/service", 1, None), Subject
    )


def test_one_other_file_is_enough_to_be_looked_at(sim: GitLabSim, scene: Scene) -> None:
    reader = make_reader(sim, scene, skip_paths=("docs/*",))
    scene.mr.diffs[:] = [DiffFile("docs/a.md", ""), DiffFile("docs/b.md", "", old_path="src/b.md")]
    assert isinstance(reader.find_failed_subject(failed(scene.pipeline)), Subject)
    scene.mr.diffs.pop()
    assert "left alone" in str(reader.find_failed_subject(failed(scene.pipeline)))


def test_a_diff_that_cannot_be_seen_whole_is_looked_at(sim: GitLabSim, scene: Scene) -> None:
    scene.mr.diffs[:] = [DiffFile(f"docs/{number}.md", "") for number in range(1001)]
    reader = make_reader(sim, scene, skip_paths=("docs/*",))
    assert isinstance(reader.find_failed_subject(failed(scene.pipeline)), Subject)


def test_a_merge_request_by_a_bot_is_left_alone_unless_wanted(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    scene.mr.author = sim.add_user("renovate", bot=True)
    reason = "merge request !1 is by a bot (gitlab.bot_merge_requests)"
    assert reader.find_failed_subject(failed(scene.pipeline)) == reason
    wanted = make_reader(sim, scene, bot_merge_requests=True)
    assert isinstance(wanted.find_failed_subject(failed(scene.pipeline)), Subject)


def test_a_bot_is_one_by_gitlabs_word_and_not_by_its_name(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    talbot = sim.add_user("project_1_bot_talbot")
    machine = sim.add_user("alice", bot=True)
    assert not reader.is_bot(talbot.id)
    assert reader.is_bot(machine.id)
    assert not reader.is_bot(4711)
    sim.fail_next("GET", "/users/", 500, times=9, headers={"Retry-After": "0"})
    assert reader.is_bot(machine.id), "what never changes is asked once"
    with pytest.raises(SourceError):
        make_reader(sim, scene).is_bot(talbot.id)


# --------------------------------------------------------------------------------- asked by a job


def by_job(scene: Scene, **changes: Any) -> PipelineFailed:
    trigger = failed(scene.pipeline, by_job=True, mr_iid=0, mr_project_id=0)
    return PipelineFailed(**{**_fields(trigger), **changes})


def _fields(trigger: PipelineFailed) -> dict[str, Any]:
    names = ("project_id", "pipeline_id", "sha", "ref", "mr_iid", "mr_project_id", "by_job")
    return {name: getattr(trigger, name) for name in names}


def test_a_job_may_ask_while_its_own_pipeline_runs(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    scene.pipeline.status = "running"
    found = reader.find_failed_subject(by_job(scene))
    assert isinstance(found, Subject)
    assert (found.mr_iid, found.pipeline_id) == (1, scene.pipeline.id)
    reason = f"pipeline {scene.pipeline.id} is running by now"
    assert reader.find_failed_subject(by_job(scene, by_job=False)) == reason


def test_a_running_pipeline_in_which_nothing_counts_as_failed_is_left_alone(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    scene.pipeline.status = "running"
    scene.job.allow_failure = True
    reason = f"pipeline {scene.pipeline.id} is running by now"
    assert reader.find_failed_subject(by_job(scene)) == reason
    scene.pipeline.status = "success"
    scene.job.allow_failure = False
    assert (
        reader.find_failed_subject(by_job(scene))
        == f"pipeline {scene.pipeline.id} is success by now"
    )


@pytest.mark.parametrize("kind", ["head", "merge", "train", "branch"])
def test_the_merge_request_of_a_job_is_found_without_its_word(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind=kind)
    trigger = failed(pipeline, by_job=True, mr_iid=0, mr_project_id=0)
    found = reader.find_failed_subject(trigger)
    assert isinstance(found, Subject)
    assert (found.project_id, found.mr_iid) == (scene.project.id, 1)


def test_a_forks_job_leads_to_the_parents_merge_request_and_not_to_its_namesake(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    fork = fork_of(sim, scene)
    sim.open_merge_request(fork, scene.developer, title="Inside", branch="inside")
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="Far", branch="far", source=fork
    )
    for number in range(2):
        sim.open_merge_request(fork, scene.developer, title="More", branch=f"more-{number}")
    pipeline = sim.run_pipeline(mr)
    assert {1, 2} <= set(fork.merge_requests)
    found = reader.find_failed_subject(failed(pipeline, by_job=True, mr_iid=0, mr_project_id=0))
    assert isinstance(found, Subject)
    assert (found.project_id, found.mr_iid) == (scene.project.id, mr.iid)


# ------------------------------------------------------------------------------ while a run goes on


def test_a_pipeline_matters_until_something_newer_is_there(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    subject = subject_of(reader, scene)
    assert reader.explain_superseded(subject) == ""
    sim.push(scene.mr, {"a": b"1"})
    assert reader.explain_superseded(subject) == f"superseded by commit {scene.mr.sha[:8]}"
    newer = sim.run_pipeline(scene.mr, status="running")
    assert reader.explain_superseded(subject) == f"superseded by pipeline {newer.id}"
    scene.mr.state = "merged"
    assert reader.explain_superseded(subject) == "merge request !1 is merged"


@pytest.mark.parametrize("kind", ["merge", "train"])
def test_a_synthetic_commit_is_not_taken_for_an_old_one(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str
) -> None:
    sim.run_pipeline(scene.mr, kind=kind)
    assert reader.explain_superseded(subject_of(reader, scene)) == ""


def test_another_pipeline_on_the_same_commit_supersedes_only_when_it_passes(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    subject = subject_of(reader, scene)
    again = sim.run_pipeline(scene.mr, status="running")
    for status in ("running", "failed"):
        again.status = status
        assert reader.explain_superseded(subject) == ""
    again.status = "success"
    assert reader.explain_superseded(subject) == f"superseded by pipeline {again.id}, which passed"


def test_a_run_goes_on_when_gitlab_does_not_answer(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    subject = subject_of(reader, scene)
    sim.fail_next("GET", "/merge_requests/", 500, times=9, headers={"Retry-After": "0"})
    assert reader.explain_superseded(subject) == ""


def test_the_other_pipelines_of_the_commit_are_known(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    beside = sim.run_pipeline(scene.mr, kind="branch")
    passed = sim.run_pipeline(scene.mr, status="success")
    sim.run_pipeline(scene.mr, kind="child")
    sim.run_pipeline(scene.mr, kind="merge")
    newest = sim.run_pipeline(scene.mr)
    subject = reader.find_named_subject("team/service", 1, newest.id)
    assert isinstance(subject, Subject)
    assert list(reader.list_same_commit(subject)) == [passed.id, beside.id, scene.pipeline.id]
    sim.push(scene.mr, {"a": b"1"})
    sim.run_pipeline(scene.mr)
    assert list(reader.list_same_commit(subject_of(reader, scene))) == []


def test_notes_carry_gitlabs_time(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    first = sim.comment(scene.mr, scene.developer, "One.")
    assert first is not None
    sim.comment(scene.mr, scene.developer, "Two.", first.discussion_id)
    one, two = reader.read_thread(scene.project.id, 1, first.discussion_id)
    assert TODAY < one.written_at < two.written_at < TODAY + 86_400


# ------------------------------------------------------------------------------------------ sweep


def end_of(pipeline: Pipeline) -> int:
    """When GitLab says that it ended, in epoch seconds."""
    return int(parse_time(pipeline.finished_at or pipeline.created_at) or 0)


def test_a_sweep_sees_the_failed_head_pipelines_of_open_merge_requests(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    green = sim.open_merge_request(scene.project, scene.developer, title="G", branch="g")
    sim.run_pipeline(green, status="success")
    closed = sim.open_merge_request(scene.project, scene.developer, title="C", branch="c")
    sim.run_pipeline(closed)
    closed.state = "closed"
    sim.open_merge_request(scene.project, scene.developer, title="N", branch="n")
    old = sim.run_pipeline(scene.mr)
    newest = sim.run_pipeline(scene.mr, kind="merge")
    assert old.id < newest.id
    (found,) = reader.find_failed_pipelines(TODAY)
    assert found == failed(newest, finished_at=end_of(newest))
    assert isinstance(found, PipelineFailed)
    assert isinstance(reader.find_failed_subject(found), Subject)


def test_a_sweep_finds_a_forks_pipeline(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="Far", branch="far", source=fork_of(sim, scene)
    )
    pipeline = sim.run_pipeline(mr)
    scene.pipeline.status = "success"
    (found,) = reader.find_failed_pipelines(TODAY)
    assert found == failed(pipeline, finished_at=end_of(pipeline))


def test_a_sweep_looks_back_only_so_far(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    assert list(reader.find_failed_pipelines(TODAY + 86_400)) == []
    assert len(list(reader.find_failed_pipelines(0.0))) == 1


GLOBS: list[tuple[tuple[str, ...], int]] = [
    ((), 2),
    (("team/*",), 1),
    (("team/service",), 1),
    (("Team/Service", "team/*"), 1),
    (("*",), 2),
    (("other/thing", "team/service"), 2),
    (("nothing/*",), 0),
]


@pytest.mark.parametrize(("globs", "count"), GLOBS)
def test_a_sweep_keeps_to_the_configured_projects_and_to_memberships(
    sim: GitLabSim, scene: Scene, globs: tuple[str, ...], count: int
) -> None:
    other = sim.add_project("other/thing")
    sim.add_member(other, scene.bot, Access.DEVELOPER)
    sim.run_pipeline(sim.open_merge_request(other, scene.developer, title="O", branch="o"))
    public = sim.add_project("public/thing", public=True)
    sim.run_pipeline(sim.open_merge_request(public, scene.developer, title="P", branch="p"))
    found = list(make_reader(sim, scene, globs).find_failed_pipelines(TODAY))
    assert len(found) == count
    assert all(isinstance(each, PipelineFailed) for each in found)


def test_a_sweep_says_that_a_project_was_renamed(sim: GitLabSim, scene: Scene) -> None:
    moved = {"Location": f"{sim.url}/api/v4/projects/{scene.project.id}"}
    sim.fail_next("GET", r"/projects/team(%2F|/)old$", 302, headers=moved)
    (told,) = make_reader(sim, scene, ("team/old",)).find_failed_pipelines(TODAY)
    assert told == "the project team/old is team/service now: correct gitlab.projects"


def test_a_sweep_says_what_it_could_not_see_and_goes_on(sim: GitLabSim, scene: Scene) -> None:
    reader = make_reader(sim, scene, ("team/*",))
    other = sim.add_project("team/other")
    sim.add_member(other, scene.bot, Access.DEVELOPER)
    sim.run_pipeline(sim.open_merge_request(other, scene.developer, title="O", branch="o"))
    sim.fail_next("GET", f"/projects/{scene.project.id}/merge_requests", 403)
    refused, found = reader.find_failed_pipelines(TODAY)
    assert isinstance(refused, str)
    assert "the merge requests of team/service" in refused
    assert isinstance(found, PipelineFailed)
    sim.fail_next("GET", "/projects$", 403)
    (refused,) = reader.find_failed_pipelines(TODAY)
    assert str(refused).startswith("the projects: ")


def test_a_merge_request_that_cannot_be_read_is_said_and_passed_over(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    for number in range(5):
        sim.run_pipeline(
            sim.open_merge_request(scene.project, scene.developer, title="M", branch=f"m{number}")
        )
    sim.fail_next("GET", "/merge_requests/3$", 404)
    found = list(reader.find_failed_pipelines(0.0))
    (said,) = (each for each in found if isinstance(each, str))
    assert "merge request !3: not found" in said
    assert len(found) == 6
    sim.fail_next("GET", r"/merge_requests/\d+$", 403, times=99)
    assert len(list(reader.find_failed_pipelines(0.0))) == 4


def test_a_project_that_is_named_and_not_there_is_said(sim: GitLabSim, scene: Scene) -> None:
    (said,) = make_reader(sim, scene, ("team/nothing",)).find_failed_pipelines(TODAY)
    assert "the project team/nothing: not found" in str(said)


def test_a_sweep_takes_its_time(sim: GitLabSim, scene: Scene) -> None:
    pauses: list[float] = []
    client = ReadClient(sim.url, scene.read_token)
    reader = GitLabReader(client, sim.url, (), 30, sleep=pauses.append)
    started = time.monotonic()
    list(reader.find_failed_pipelines(TODAY))
    assert len(pauses) == 1
    assert pauses[0] > 0
    assert time.monotonic() - started < 5
