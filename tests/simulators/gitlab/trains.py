"""Merge trains: their cars, the commits that they run on, and what GitLab notes of a dropped car.

See https://docs.gitlab.com/api/merge_trains/. They are part of Premium: a project has none until
`Trains.open` is called.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.lab.gitlab import views
from worker.lab.gitlab.history import find_tree
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import (
    Access,
    Commit,
    Discussion,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    User,
)
from worker.lab.gitlab.world import World

Json = dict[str, Any]

NOT_SUCCEEDED = "the pipeline did not succeed"
_ACTIVE = frozenset({"idle", "stale", "fresh"})


@dataclass(slots=True)
class Car:
    """A merge request in a train. `status` is one of GitLab's: idle, fresh, stale, merging, merged,
    skip_merged."""

    id: int
    merge_request: MergeRequest
    user: User
    created_at: str
    pipeline: Pipeline | None = None
    status: str = "idle"
    merged_at: str | None = None


@dataclass(slots=True)
class Trains:
    """The trains of all projects; `projects` are those that may have any."""

    world: World
    projects: set[int] = field(default_factory=set)
    cars: list[Car] = field(default_factory=list)

    def open(self, project: Project) -> None:
        """Let the project have merge trains."""
        self.projects.add(project.id)

    def find(self, mr: MergeRequest) -> Car | None:
        """Return the merge request's car, if it is on a train or was merged by one."""
        found = (each for each in self.cars if each.merge_request is mr)
        return next(found, None)

    def add(self, mr: MergeRequest, user: User, pipeline: Pipeline | None = None) -> Car:
        """Put a merge request at the end of its target's train, or give its car a new pipeline."""
        car = self.find(mr)
        if car is None:
            self.open(mr.project)
            car = Car(len(self.cars) + 1, mr, user, self.world.advance_clock())
            self.cars.append(car)
            at = sum(
                each.status in _ACTIVE
                and each.merge_request.project is mr.project
                and each.merge_request.target_branch == mr.target_branch
                for each in self.cars
            )
            place = f"added this merge request to the merge train at position {at}"
            add_system_note(self.world, mr, user, "started a merge train" if at == 1 else place)
        car.pipeline, car.status = pipeline, "fresh" if pipeline else "idle"
        return car

    def drop(
        self, mr: MergeRequest, reason: str = NOT_SUCCEEDED, *, is_cancelling: bool = True
    ) -> None:
        """Take a merge request off its train: of its car only a note is left. Cars behind it become
        stale, and their running pipelines are cancelled."""
        car = self.find(mr)
        if car is None or car.status not in _ACTIVE:
            return
        behind = self.cars[self.cars.index(car) + 1 :]
        self.cars.remove(car)
        page = f"{self.world.url}/help/ci/pipelines/merge_trains.md#merge-request-dropped"
        text = f"removed this merge request from the merge train because {reason}."
        add_system_note(self.world, mr, car.user, f"{text} [Learn more]({page}).")
        for each in behind:
            is_same = each.merge_request.target_branch == mr.target_branch
            if is_same and each.merge_request.project is mr.project and each.status in _ACTIVE:
                each.status = "stale"
                if is_cancelling and each.pipeline and not each.pipeline.has_ended:
                    cancel_pipeline(self.world, each.pipeline)

    def merge(self, mr: MergeRequest) -> None:
        """Let a car be merged."""
        if car := self.find(mr):
            car.status, car.merged_at = "merged", self.world.advance_clock()


def cancel_pipeline(world: World, pipeline: Pipeline) -> None:
    """Cancel a running pipeline and its jobs."""
    pipeline.status, pipeline.finished_at = "canceled", world.advance_clock()
    for job in pipeline.jobs:
        if job.status in {"created", "pending", "running"}:
            job.status, job.finished_at = "canceled", pipeline.finished_at


def add_system_note(world: World, mr: MergeRequest, author: User, text: str) -> Note:
    """Add a note of GitLab's own, of which it tells no webhook."""
    number = world.make_id("discussion")
    place = Discussion(hashlib.sha1(f"discussion {number}".encode()).hexdigest(), individual=True)
    mr.discussions[place.id] = place
    now = world.advance_clock()
    note = Note(world.make_id("note"), text, author, mr, place.id, now, now, system=True)
    place.notes.append(note)
    return note


def make_merge_result(
    mr: MergeRequest, onto: str, at: str, cars: Sequence[MergeRequest] = ()
) -> str:
    """Make the commit that a pipeline of merged results runs on, the target's commit `onto` being
    its first parent; or that of a train with `cars` in front: each of them is merged to what is in
    front of it. Returns its id."""
    below = onto
    for each in (*cars, mr):
        below = _merge(each, below, at)
    return below


def _merge(mr: MergeRequest, onto: str, at: str) -> str:
    owner = mr.project
    sha = hashlib.sha1(f"{owner.path} {mr.sha} into {onto}".encode()).hexdigest()
    if sha not in owner.records:
        title = f"Merge branch '{mr.source_branch}' into {mr.target_branch}"
        owner.records[sha] = Commit(sha, title, mr.author, at, parents=(onto, mr.sha))
        owner.commits[sha] = merge_files(mr, owner.commits.get(onto, {}))
    return sha


def make_forward(mr: MergeRequest, onto: str, at: str, cars: Sequence[MergeRequest] = ()) -> str:
    """Make the commit that a train's pipeline runs on where the branch is only moved forward: the
    commits of the cars in front and of the merge request, one by one on the target's commit `onto`.
    Returns the last one's id: the branch's own once it is merged."""
    below = onto
    for each in (*cars, mr):
        for commit in each.commits:
            below = _put_on(each, commit, below, at)
    return below


def _put_on(mr: MergeRequest, commit: Commit, onto: str, at: str) -> str:
    owner = mr.project
    sha = hashlib.sha1(f"{owner.path} {commit.sha} on {onto}".encode()).hexdigest()
    if sha not in owner.records:
        before, mine, under = (
            find_tree(owner, each) or {} for each in (commit.parents[0], commit.sha, onto)
        )
        made = Commit(sha, commit.title, commit.author, at, commit.message, parents=(onto,))
        owner.records[sha] = made
        owner.commits[sha] = merge_trees(before, mine, under)
    return sha


def merge_files(mr: MergeRequest, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return `files` with what the merge request changes."""
    start, mine = (find_tree(mr.project, sha) or {} for sha in (mr.base_sha, mr.sha))
    return merge_trees(start, mine, files)


def merge_trees(
    start: Mapping[str, bytes], mine: Mapping[str, bytes], theirs: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return `theirs` with what `mine` changes against `start`: the lines that went and came."""
    merged = dict(theirs)
    for path in {*start, *mine}:
        old, new = (each.get(path, b"").splitlines(keepends=True) for each in (start, mine))
        if mine.get(path) == start.get(path):
            continue
        came = [line for line in new if line not in old]
        gone = {*came, *(line for line in old if line not in new)}
        now = theirs.get(path, b"").splitlines(keepends=True)
        kept = [line for line in now if line not in gone]
        merged[path] = mine.get(path, b"") if now == old else b"".join([*kept, *came])
    return merged


def _show_car(car: Car) -> Json:
    mr, run = car.merge_request, car.pipeline
    return {
        "id": car.id,
        "merge_request": {"id": mr.id, "iid": mr.iid, "project_id": mr.project.id}
        | {"title": mr.title, "state": mr.state, "web_url": mr.web_url},
        "user": views.show_user(car.user),
        "pipeline": views.show_pipeline(run) if run else None,
        "target_branch": mr.target_branch,
        "status": car.status,
        "merged_at": car.merged_at,
        "created_at": car.created_at,
        "updated_at": car.merged_at or car.created_at,
    }


class Holder(Protocol):
    """The simulator, whose trains are looked at with each request."""

    trains: Trains


class Endpoints:
    """The endpoints of one simulator."""

    def __init__(self, sim: Holder) -> None:
        self._sim = sim

    def list_routes(self) -> tuple[Route, ...]:
        """List the routes."""
        trains, asked = "projects/:id/merge_trains", PAGING | {"scope", "sort"}
        return (
            Route("GET", trains, self.list_cars, asked),
            Route("GET", f"{trains}/merge_requests/:iid", self.get_car),
            Route("GET", f"{trains}/:branch", self.list_cars, asked),
        )

    def list_cars(self, call: Call) -> Answer:
        """List the cars of a project, or of one branch's train; the newest first by default."""
        project, scope = self._find_project(call), call.get_value("scope")
        if scope not in {"", "active", "complete"} or call.get_value("sort", "desc") not in {
            "asc",
            "desc",
        }:
            refuse_strange(400, "scope or sort does not have a valid value")
        branch = call.params.get("branch")
        found = [
            car
            for car in self._sim.trains.cars
            if car.merge_request.project is project
            if branch in (None, car.merge_request.target_branch)
            if not scope or (car.status in _ACTIVE) == (scope == "active")
        ]
        if call.get_value("sort", "desc") == "desc":
            found.reverse()
        return make_page(call, [_show_car(car) for car in found])

    def get_car(self, call: Call) -> Answer:
        """Return a merge request's car; 404 for one that was dropped."""
        self._find_project(call)
        car = self._sim.trains.find(call.find_merge_request())
        return Answer(200, _show_car(car)) if car else refuse_not_found("")

    def _find_project(self, call: Call) -> Project:
        project = call.find_project(Access.DEVELOPER)
        if project.id not in self._sim.trains.projects:
            raise Refused(403, {"message": "403 Forbidden"})
        return project
