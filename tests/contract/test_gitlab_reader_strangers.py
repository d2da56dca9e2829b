"""Strangers start no run: which projects are served, and whose forks are looked at unasked."""

from collections.abc import Iterator

import pytest

from tests.contract.test_gitlab_reader import failed, make_reader
from tests.simulators.gitlab import Access, GitLabSim, MergeRequest, Pipeline, Project, Scene, User
from worker.conversation.context import Subject
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.policy import MEMBER_SECONDS, MOST, REFUSAL_SECONDS, Memberships, Policy

pytestmark = pytest.mark.attack("strangers")


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {seen.method for seen in running.requests} <= {"GET"}


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene) -> GitLabReader:
    return make_reader(sim, scene)


@pytest.fixture
def stranger(sim: GitLabSim) -> User:
    return sim.add_user("mallory")


def elsewhere(sim: GitLabSim, owner: User, *, public: bool = True) -> tuple[Project, Pipeline]:
    """Somebody's own project, in which the bot is no member, with a failed pipeline."""
    project = sim.add_project("mallory/farm", public=public)
    sim.add_member(project, owner, Access.OWNER)
    mr = sim.open_merge_request(project, owner, title="Free tokens", branch="free")
    return project, sim.run_pipeline(mr)


def from_fork(sim: GitLabSim, scene: Scene, author: User) -> MergeRequest:
    fork = sim.add_project("mallory/service", parent=scene.project, public=True)
    sim.add_member(fork, author, Access.OWNER)
    return sim.open_merge_request(scene.project, author, title="F", branch="f", source=fork)


def by_job(pipeline: Pipeline) -> PipelineFailed:
    """What the door makes of a CI job's id token."""
    return failed(pipeline, by_job=True, mr_iid=0, mr_project_id=0)


# ------------------------------------------------------------------------------- whose projects


@pytest.mark.parametrize("public", [True, False])
def test_without_a_list_a_project_that_is_only_seen_is_not_served(
    sim: GitLabSim, reader: GitLabReader, stranger: User, public: bool
) -> None:
    project, pipeline = elsewhere(sim, stranger, public=public)
    for trigger in (failed(pipeline), by_job(pipeline)):
        assert "the bot is no member there" in str(reader.find_failed_subject(trigger))
    assert "the bot is no member there" in reader.explain_unserved(project.id)
    asked = [seen.path for seen in sim.requests if "/pipelines/" in seen.path]
    assert asked == []


def test_without_a_list_a_project_of_the_bots_is_served(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    assert isinstance(reader.find_failed_subject(by_job(scene.pipeline)), Subject)
    assert reader.explain_unserved(scene.project.id) == ""
    scene.bot.state = "blocked"
    assert "no member" in make_reader(sim, scene).explain_unserved(scene.project.id)


def test_with_a_list_membership_is_not_asked_for(
    sim: GitLabSim, scene: Scene, stranger: User
) -> None:
    _, pipeline = elsewhere(sim, stranger)
    listed = make_reader(sim, scene, ("mallory/*",))
    assert isinstance(listed.find_failed_subject(failed(pipeline)), Subject)
    assert "not among gitlab.projects" in listed.explain_unserved(scene.project.id)
    assert [seen.path for seen in sim.requests if "/members/" in seen.path] == []


def test_a_membership_that_gitlab_refuses_to_tell_is_none_and_a_failure_is_tried_again(
    sim: GitLabSim, scene: Scene, reader: GitLabReader
) -> None:
    sim.fail_next("GET", "/members/", 503, times=9, headers={"Retry-After": "0"})
    with pytest.raises(SourceError) as caught:
        reader.find_failed_subject(failed(scene.pipeline))
    assert caught.value.transient
    other = make_reader(sim, scene)
    sim._faults.clear()
    sim.fail_next("GET", "/members/", 403)
    assert "cannot be told" in str(other.find_failed_subject(failed(scene.pipeline)))


def test_memberships_are_asked_for_once_in_some_minutes_and_not_kept_without_bound(
    sim: GitLabSim, scene: Scene, stranger: User
) -> None:
    now = 0.0
    known = Memberships(ReadClient(sim.url, scene.read_token), lambda: now)
    theirs, _ = elsewhere(sim, stranger)

    def asked() -> int:
        return sum("/members/" in seen.path for seen in sim.requests)

    for _ in range(3):
        assert known.explain_refusal(scene.project.id) == ""
        assert known.explain_refusal(theirs.id)
    assert asked() == 2
    sim.add_member(theirs, scene.bot, Access.REPORTER)
    now = REFUSAL_SECONDS
    assert known.explain_refusal(theirs.id) == ""
    scene.project.members.clear()
    assert known.explain_refusal(scene.project.id) == ""
    now = MEMBER_SECONDS
    assert known.explain_refusal(scene.project.id)
    with sim.fail_all(404):
        for number in range(MOST + 10):
            known.explain_refusal(10_000 + number)
    assert len(known._answers) == MOST


# ----------------------------------------------------------------------------------- whose forks


@pytest.mark.parametrize("access", [None, Access.GUEST, Access.REPORTER])
def test_a_strangers_fork_is_not_looked_at_unasked(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, stranger: User, access: Access | None
) -> None:
    if access:
        sim.add_member(scene.project, stranger, access)
    mr = from_fork(sim, scene, stranger)
    for kind in ("head", "merge", "branch"):
        pipeline = sim.run_pipeline(mr, kind=kind)
        for trigger in (failed(pipeline), by_job(pipeline)):
            reason = reader.find_failed_subject(trigger)
            assert "below gitlab.fork_min_access; a member may ask" in str(reason)
    assert isinstance(reader.find_named_subject(str(scene.project.id), mr.iid, None), Subject)


def test_a_blocked_member_is_a_stranger(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    mr = from_fork(sim, scene, scene.developer)
    pipeline = sim.run_pipeline(mr)
    assert isinstance(reader.find_failed_subject(failed(pipeline)), Subject)
    scene.developer.state = "blocked"
    assert "fork_min_access" in str(reader.find_failed_subject(failed(pipeline)))


def test_a_fork_counts_when_a_member_ran_its_pipeline_in_the_target_project(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, stranger: User
) -> None:
    mr = from_fork(sim, scene, stranger)
    pipeline = sim.run_pipeline(mr, project=scene.project)
    assert isinstance(reader.find_failed_subject(failed(pipeline)), Subject)
    pipeline = sim.run_pipeline(mr)
    assert "fork_min_access" in str(reader.find_failed_subject(failed(pipeline)))


def test_the_operator_says_from_which_role_on_forks_are_looked_at(
    sim: GitLabSim, scene: Scene
) -> None:
    client = ReadClient(sim.url, scene.read_token)
    pipeline = sim.run_pipeline(from_fork(sim, scene, scene.developer))
    strict = GitLabReader(client, sim.url, (), 30, Policy(fork_min_access=40))
    assert "fork_min_access" in str(strict.find_failed_subject(failed(pipeline)))
    sim.add_member(scene.project, scene.developer, Access.MAINTAINER)
    assert isinstance(strict.find_failed_subject(failed(pipeline)), Subject)


def test_whether_an_author_is_a_member_is_not_guessed_when_gitlab_is_down(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, stranger: User
) -> None:
    pipeline = sim.run_pipeline(from_fork(sim, scene, stranger))
    path = f"/members/all/{stranger.id}"
    sim.fail_next("GET", path, 503, times=9, headers={"Retry-After": "0"})
    with pytest.raises(SourceError) as caught:
        reader.find_failed_subject(failed(pipeline))
    assert caught.value.transient


# ------------------------------------------------------------------------------ forged events


@pytest.mark.parametrize("status", ["failed", "success"])
def test_a_pipeline_is_a_merge_requests_only_if_gitlab_says_so(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, status: str
) -> None:
    farm = sim.add_project("mallory/farm", public=True)
    fields = {"ref": scene.mr.source_branch, "sha": scene.mr.sha, "status": status}
    foreign = sim.add_pipeline(farm, scene.developer, source="push", **fields)
    fields["ref"] = "refs/merge-requests/1/head"
    of_farm = sim.add_pipeline(farm, scene.developer, source="merge_request_event", **fields)
    fields["ref"] = "evil"
    of_branch = sim.add_pipeline(scene.project, scene.developer, source="push", **fields)
    for pipeline in (foreign, of_farm, of_branch):
        trigger = failed(pipeline, mr_iid=scene.mr.iid, mr_project_id=scene.project.id)
        passed = PipelinePassed(
            *(pipeline.project.id, pipeline.id, pipeline.sha, scene.mr.source_branch),
            mr_iid=scene.mr.iid,
            mr_project_id=scene.project.id,
        )
        reason = (
            reader.find_failed_subject(trigger)
            if status == "failed"
            else reader.find_passed_subject(passed)
        )
        assert "is not one of merge request !1" in str(reason)


@pytest.mark.parametrize("kind", ["head", "merge", "train", "branch"])
@pytest.mark.parametrize("is_fork", [False, True])
def test_a_listed_pipeline_is_the_merge_requests_also_when_it_is_not_its_newest(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, kind: str, is_fork: bool
) -> None:
    mr = from_fork(sim, scene, scene.developer) if is_fork else scene.mr
    pipeline, head = sim.run_pipeline(mr, kind=kind), sim.run_pipeline(mr)
    for trigger in (failed(pipeline), by_job(pipeline)):
        assert str(reader.find_failed_subject(trigger)) == (
            f"pipeline {pipeline.id} is superseded by pipeline {head.id}"
        )


# -------------------------------------------------------------------------- whose word is kept


@pytest.mark.parametrize("access", [None, Access.REPORTER, Access.DEVELOPER])
def test_only_a_members_merge_request_that_is_no_fork_is_a_members(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, stranger: User, access: Access | None
) -> None:
    if access:
        sim.add_member(scene.project, stranger, access)
    fork = from_fork(sim, scene, stranger)
    inside = sim.open_merge_request(scene.project, stranger, title="I", branch="i")
    for mr, members in ((fork, False), (inside, access is Access.DEVELOPER)):
        sim.run_pipeline(mr)
        subject = reader.find_named_subject(str(scene.project.id), mr.iid, None)
        assert isinstance(subject, Subject)
        assert reader.is_members(subject) is members
