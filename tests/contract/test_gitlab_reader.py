"""What the job reads of GitLab: the merge request of a pipeline, threads, members."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulators.gitlab import Access, GitLabSim, Pipeline, Project, Scene
from worker.conversation.context import Subject
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {seen.method for seen in running.requests} <= {"GET"}
        assert {seen.token for seen in running.requests} <= {"read"}


def make_reader(
    sim: GitLabSim, scene: Scene, projects: tuple[str, ...] = (), least: int = 30
) -> GitLabReader:
    return GitLabReader(ReadClient(sim.url, scene.read_token), f"{sim.url}/", projects, least)


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene) -> GitLabReader:
    return make_reader(sim, scene)


def failed(pipeline: Pipeline, **changes: Any) -> PipelineFailed:
    """The trigger that the door makes of a pipeline's hook."""
    mr = pipeline.mr
    fields: dict[str, Any] = {
        "project_id": pipeline.project.id,
        "pipeline_id": pipeline.id,
        "sha": pipeline.sha,
        "ref": mr.source_branch if mr else pipeline.ref,
        "mr_iid": mr.iid if mr else 0,
        "mr_project_id": mr.project.id if mr else 0,
    }
    return PipelineFailed(**(fields | changes))


def fork_of(sim: GitLabSim, scene: Scene) -> Project:
    fork = sim.add_project("mara/service", parent=scene.project)
    fork.members.update(scene.project.members)
    return fork


def test_a_merge_requests_pipeline_gives_its_subject(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    assert reader.find_failed_subject(failed(scene.pipeline)) == Subject(
        gitlab_url=sim.url,
        project_id=scene.project.id,
        project="team/service",
        mr_iid=1,
        pipeline_project_id=scene.project.id,
        pipeline_id=scene.pipeline.id,
        sha=scene.mr.sha,
        web_url=scene.mr.web_url,
        pipeline_web_url=scene.pipeline.web_url,
        title=scene.mr.title,
        author=scene.mr.author.username,
    )


def test_a_title_is_kept_without_its_secrets_on_one_line_as_it_is_now(
    sim: GitLabSim, scene: Scene
) -> None:
    client = ReadClient(sim.url, scene.read_token)
    reader = GitLabReader(client, sim.url, (), 30, redact=lambda text: text.replace("hush", "***"))
    scene.mr.title = "Tell hush\nto nobody\u202e" + "!" * 400
    first = reader.find_failed_subject(failed(scene.pipeline))
    assert isinstance(first, Subject)
    assert first.title.startswith("Tell *** to nobody!!!")
    assert len(first.title) == 300
    scene.mr.title = "Another one"
    confirmed = reader.confirm_subject(first)
    assert isinstance(confirmed, Subject)
    assert confirmed.title == "Another one"
    assert confirmed.author == scene.mr.author.username


@pytest.mark.parametrize("kind", ["merge", "train"])
def test_a_pipeline_on_a_synthetic_commit_is_matched_by_its_id(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind=kind)
    assert pipeline.sha != scene.mr.sha
    found = reader.find_failed_subject(failed(pipeline))
    assert isinstance(found, Subject)
    assert found.sha == pipeline.sha
    scene.mr.head_pipeline = None
    assert (
        reader.find_failed_subject(failed(pipeline))
        == f"pipeline {pipeline.id} is not the head of !1"
    )


def test_a_branch_pipeline_is_matched_by_branch_and_sha(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    found = reader.find_failed_subject(failed(pipeline))
    assert isinstance(found, Subject)
    assert (found.mr_iid, found.pipeline_id) == (1, pipeline.id)


def test_a_branch_without_merge_request_is_a_plain_reason(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    scene.mr.state = "closed"
    sha = pipeline.sha
    assert reader.find_failed_subject(failed(pipeline)) == (
        f"no open merge request for branch sum-faster at {sha}"
    )


def test_a_stale_branch_pipeline_has_no_merge_request(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    sim.push(scene.mr, {"a": b"1"})
    assert str(reader.find_failed_subject(failed(pipeline))).startswith(
        "no open merge request for branch"
    )


def test_of_several_merge_requests_the_oldest_is_taken_and_that_is_logged(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, caplog: pytest.LogCaptureFixture
) -> None:
    second = sim.open_merge_request(
        scene.project, scene.developer, title="Backport", branch="sum-faster", target_branch="v1"
    )
    second.sha = scene.mr.sha
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    with caplog.at_level(logging.INFO, "sandpiper.gitlab"):
        found = reader.find_failed_subject(failed(pipeline))
    assert isinstance(found, Subject)
    assert found.mr_iid == 1
    assert "the oldest of !1 to main, !2 to v1 is taken" in caplog.text


def test_a_forks_pipeline_leads_to_the_merge_request_of_the_target_project(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    fork = fork_of(sim, scene)
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="Far", branch="far", source=fork
    )
    for kind in ("head", "branch"):
        pipeline = sim.run_pipeline(mr, kind=kind)
        found = reader.find_failed_subject(failed(pipeline))
        assert isinstance(found, Subject)
        assert (found.project_id, found.mr_iid) == (scene.project.id, mr.iid)
        assert (found.pipeline_project_id, found.sha) == (fork.id, mr.sha)


def test_a_fork_with_the_same_branch_name_is_not_taken_for_the_branch(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    mr = sim.open_merge_request(
        scene.project,
        scene.developer,
        title="Twin",
        branch="sum-faster",
        source=fork_of(sim, scene),
    )
    mr.sha = scene.mr.sha
    scene.mr.state = "closed"
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    assert str(reader.find_failed_subject(failed(pipeline))).startswith("no open merge request")


@pytest.mark.parametrize("status", ["running", "success", "canceled"])
def test_a_pipeline_that_is_not_failed_any_more_is_left_alone(
    scene: Scene, reader: GitLabReader, status: str
) -> None:
    scene.pipeline.status = status
    reason = f"pipeline {scene.pipeline.id} is {status} by now"
    assert reader.find_failed_subject(failed(scene.pipeline)) == reason


@pytest.mark.parametrize("state", ["merged", "closed", "locked"])
def test_a_settled_merge_request_is_left_alone(
    scene: Scene, reader: GitLabReader, state: str
) -> None:
    scene.mr.state = state
    assert reader.find_failed_subject(failed(scene.pipeline)) == f"merge request !1 is {state}"


def test_a_superseded_pipeline_is_left_alone(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    newer = sim.run_pipeline(scene.mr, status="running")
    reason = f"pipeline {scene.pipeline.id} is superseded by pipeline {newer.id}"
    assert reader.find_failed_subject(failed(scene.pipeline)) == reason


def test_a_branch_pipeline_beside_an_older_head_pipeline_of_the_same_commit_counts(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    beside = sim.run_pipeline(scene.mr, kind="branch")
    scene.mr.head_pipeline = scene.pipeline
    assert isinstance(reader.find_failed_subject(failed(beside)), Subject)


def test_a_merge_request_that_moved_on_is_left_alone(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    old = scene.mr.sha
    new = sim.push(scene.mr, {"a": b"1"})
    reason = f"merge request !1 has moved on from {old} to {new}"
    assert reader.find_failed_subject(failed(scene.pipeline)) == reason


def test_a_child_pipeline_is_left_to_its_parent(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    child = sim.run_pipeline(scene.mr, kind="child")
    assert reader.find_failed_subject(failed(child)) == (
        f"pipeline {child.id} is a child pipeline: its parent is looked at instead"
    )


GLOBS = [
    (("team/*",), True),
    (("other/*", "TEAM/Service"), True),
    (("*/service",), True),
    (("team",), False),
    (("team/serv",), False),
    (("other/*",), False),
]


@pytest.mark.parametrize(("globs", "allowed"), GLOBS)
def test_only_allowed_projects_are_served(
    sim: GitLabSim, scene: Scene, globs: tuple[str, ...], allowed: bool
) -> None:
    reader = make_reader(sim, scene, globs)
    found = [
        reader.find_failed_subject(failed(scene.pipeline)),
        reader.find_named_subject("team/service", 1, None),
    ]
    if allowed:
        assert all(isinstance(each, Subject) for each in found)
    else:
        assert found == ["project team/service is not among gitlab.projects"] * 2


def test_a_pipeline_that_cannot_be_read_is_an_error_with_the_cause(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    sim.fail_next("GET", "/pipelines/", 403)
    with pytest.raises(SourceError, match=r"pipeline .* of project 501: ") as caught:
        reader.find_failed_subject(failed(scene.pipeline))
    assert not caught.value.transient
    sim.fail_next("GET", "/pipelines/", 503, times=9, headers={"Retry-After": "0"})
    with pytest.raises(SourceError, match="GitLab answered 503") as caught:
        reader.find_failed_subject(failed(scene.pipeline))
    assert caught.value.transient


def test_a_human_gets_the_newest_failed_pipeline_however_old(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    newer = sim.run_pipeline(scene.mr)
    green = sim.run_pipeline(scene.mr, status="success")
    sim.push(scene.mr, {"a": b"1"})
    scene.mr.state = "merged"
    found = reader.find_named_subject("Team/Service", 1, None)
    assert isinstance(found, Subject)
    assert (found.project, found.pipeline_id) == ("team/service", newer.id)
    named = reader.find_named_subject("team/service", 1, scene.pipeline.id)
    assert isinstance(named, Subject)
    assert named.pipeline_id == scene.pipeline.id
    assert reader.find_named_subject("team/service", 1, green.id) == (
        f"pipeline {green.id} of team/service!1 has passed, and has not failed"
    )
    assert reader.find_named_subject("team/service", 1, 4711) == (
        "pipeline 4711 is not one of the pipelines of team/service!1, of which failed: "
        f"{newer.id}, {scene.pipeline.id}"
    )


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("success", "its newest, {}, has passed"),
        ("running", "its newest, {}, is not over yet (running)"),
        ("pending", "its newest, {}, is not over yet (pending)"),
        ("canceled", "its newest, {}, is canceled"),
        ("skipped", "its newest, {}, is skipped"),
    ],
)
def test_a_human_is_told_what_the_newest_pipeline_is_when_none_failed(
    scene: Scene, reader: GitLabReader, status: str, why: str
) -> None:
    scene.pipeline.status = status
    told = f"team/service!1 has no failed pipeline: {why.format(scene.pipeline.id)}"
    assert reader.find_named_subject("team/service", 1, None) == told


def test_a_human_is_told_when_no_pipeline_has_run(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    new = sim.open_merge_request(
        scene.project, scene.developer, title="New", branch="new", files={}
    )
    told = f"team/service!{new.iid} has no failed pipeline: none has run yet"
    assert reader.find_named_subject("team/service", new.iid, None) == told
    assert reader.find_named_subject("team/service", new.iid, 7) == (
        f"pipeline 7 is not one of the pipelines of team/service!{new.iid}, of which none failed"
    )


def test_a_human_who_mistypes_is_told_what_was_not_found(reader: GitLabReader) -> None:
    with pytest.raises(SourceError, match="the project team/servise: not found"):
        reader.find_named_subject("team/servise", 1, None)
    with pytest.raises(SourceError, match="merge request team/service!9: not found"):
        reader.find_named_subject("team/service", 9, None)


def test_a_forks_pipeline_is_found_with_the_project_it_ran_in(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    fork = fork_of(sim, scene)
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="Far", branch="far", source=fork
    )
    sim.run_pipeline(mr)
    found = reader.find_named_subject("team/service", mr.iid, None)
    assert isinstance(found, Subject)
    assert (found.project_id, found.pipeline_project_id) == (scene.project.id, fork.id)


def test_a_thread_comes_oldest_first_with_what_each_note_is(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    root = sim.comment(scene.mr, scene.bot, "It is red.", internal=True)
    assert root is not None
    reply = sim.comment(scene.mr, scene.developer, "Why?", root.discussion_id)
    system = sim.comment(scene.mr, scene.developer, "changed", root.discussion_id, system=True)
    assert reply is not None
    assert system is not None
    notes = reader.read_thread(scene.project.id, 1, root.discussion_id)
    assert [
        (each.note_id, each.author_id, each.body, each.system, each.internal) for each in notes
    ] == [
        (root.id, scene.bot.id, "It is red.", False, True),
        (reply.id, scene.developer.id, "Why?", False, True),
        (system.id, scene.developer.id, "changed", True, True),
    ]
    assert len(reader.read_thread(scene.project.id, 1, "0" * 40)) == 0


@pytest.mark.parametrize(
    ("level", "least", "may"),
    [
        (None, 10, False),
        (Access.REPORTER, 30, False),
        (Access.DEVELOPER, 30, True),
        (Access.OWNER, 30, True),
        (Access.DEVELOPER, 40, False),
    ],
)
def test_only_members_of_enough_access_may_command(
    sim: GitLabSim, scene: Scene, level: Access | None, least: int, may: bool
) -> None:
    user = sim.add_user("gast")
    if level:
        sim.add_member(scene.project, user, level)
    assert make_reader(sim, scene, least=least).may_command(scene.project.id, user.id) is may


def test_a_blocked_member_may_not_command(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    assert reader.may_command(scene.project.id, scene.developer.id)
    scene.developer.state = "blocked"
    assert not reader.may_command(scene.project.id, scene.developer.id)


def test_whether_somebody_may_command_is_not_guessed_when_gitlab_is_down(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    sim.fail_next("GET", "/members/", 500, times=9)
    with pytest.raises(SourceError, match="answered 500"):
        reader.may_command(scene.project.id, scene.developer.id)


# ------------------------------------------------------------------------------- what is gone


def test_what_is_gone_is_a_reason_and_no_error(scene: Scene, reader: GitLabReader) -> None:
    gone = failed(scene.pipeline, pipeline_id=424242)
    passed = PipelinePassed(gone.project_id, 424242, gone.sha, gone.ref, gone.mr_iid)
    for found in (reader.find_failed_subject(gone), reader.find_passed_subject(passed)):
        assert isinstance(found, str)
        assert "pipeline 424242 of project 501: not found" in found
    assert reader.find_end_time(gone) == 0.0
    without = reader.find_failed_subject(failed(scene.pipeline, mr_iid=99))
    assert isinstance(without, str)
    assert "no open merge request" in without


def test_a_thread_whose_only_note_was_deleted_has_no_notes(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    note = sim.comment(scene.mr, scene.developer, "/sandpiper status")
    assert note is not None
    project = scene.mr.project.id
    assert len(reader.read_thread(project, scene.mr.iid, note.discussion_id)) == 1
    sim.delete(note)
    assert len(reader.read_thread(project, scene.mr.iid, note.discussion_id)) == 0
