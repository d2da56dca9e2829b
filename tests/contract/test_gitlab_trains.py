"""Which runs are read to see who broke a merge train, and what that takes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.contract.branches import ERROR, end, land, run
from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline, Scene
from worker.conversation.context import Subject
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.train import MOST_RUNS, TrainRuns
from worker.incidents.record import BranchRecord, RequestRecord, TrainCause
from worker.incidents.trains import find_breaker
from worker.lab.gitlab.state import Commit

OK = "ok"


class Yard:
    """A project with merge requests `!1`, `!2` … whose trains a test makes."""

    def __init__(self, sim: GitLabSim, scene: Scene) -> None:
        self.sim, self.scene = sim, scene
        self.reader = GitLabReader(
            ReadClient(sim.url, scene.read_token, retries=0), sim.url, (), 30
        )
        self.main = land(sim, scene, "a.py")
        end(sim, run(sim, scene, self.main), unit=OK)
        self.mrs: list[MergeRequest] = []

    def open(self, count: int) -> list[MergeRequest]:
        for number in range(count):
            name = f"work-{len(self.mrs)}-{number}"
            files = {f"{name}.md": name.encode()}
            self.mrs.append(
                self.sim.open_merge_request(
                    self.scene.project, self.scene.developer, title=name, branch=name, files=files
                )
            )
        return self.mrs[-count:]

    def commit(self, name: str, *parents: str) -> str:
        sha = f"{len(self.scene.project.records):08x}".ljust(40, "e")
        self.scene.project.records[sha] = Commit(
            sha, name, self.scene.developer, self.sim.advance_clock(), parents=parents
        )
        return sha

    def ride(self, mr: MergeRequest, sha: str, unit: str) -> Pipeline:
        """Run a train's pipeline on a commit: `ok`, an error, or a status without a job's end."""
        pipeline = self.sim.run_pipeline(mr, kind="train", status="running")
        pipeline.sha = sha
        if unit in ("running", "canceled"):
            pipeline.status = unit
            self.sim.add_job(pipeline, "unit", status=unit)
            return pipeline
        return end(self.sim, pipeline, unit=unit)

    def couple(self, below: str, *ends: tuple[MergeRequest, str]) -> list[Pipeline]:
        """Run a train of merge commits."""
        found = []
        for mr, unit in ends:
            below = self.commit("Merge", below, mr.sha)
            found.append(self.ride(mr, below, unit))
        return found

    def record(self) -> BranchRecord:
        project = self.scene.project
        return self.reader.read_branch(BranchRecord(project.id, project.path, "main"))

    def request(self, pipeline: Pipeline) -> RequestRecord:
        mr, project = pipeline.mr, self.scene.project
        assert mr
        subject = Subject(
            self.sim.url, project.id, project.path, mr.iid, project.id, pipeline.id, pipeline.sha,
            mr.web_url,
        )  # fmt: skip
        return self.reader.read_request(subject)

    def read(self, pipeline: Pipeline, known: Sequence[RequestRecord] = ()) -> TrainRuns:
        return self.reader.read_train(self.record(), self.request(pipeline), known)

    def find(self, pipeline: Pipeline) -> tuple[TrainCause, int, int, int]:
        seen = self.read(pipeline)
        found = find_breaker(seen.record, seen.request, seen.runs)
        return found.cause, found.car, found.red_pipeline, found.green_pipeline


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {seen.method for seen in running.requests} <= {"GET"}
        assert {seen.token for seen in running.requests} <= {"read"}


@pytest.fixture
def yard(sim: GitLabSim, scene: Scene) -> Yard:
    return Yard(sim, scene)


def test_cars_are_read_from_the_nearest_to_the_first_that_has_passed(yard: Yard) -> None:
    one, two, three, four = yard.open(4)
    train = yard.couple(yard.main, (one, OK), (two, OK), (three, ERROR), (four, ERROR))
    seen = yard.read(train[3])
    assert (seen.request.base, seen.request.cars) == (yard.main, (one.iid, two.iid, three.iid))
    assert [each.mr_iid for each in seen.runs] == [three.iid, two.iid]
    assert seen.is_settled
    assert yard.find(train[3]) == (TrainCause.CAR, three.iid, train[2].id, train[1].id)
    assert yard.find(train[2]) == (TrainCause.OWN, three.iid, train[2].id, train[1].id)


def test_what_is_known_is_not_read_again(yard: Yard) -> None:
    one, two = yard.open(2)
    train = yard.couple(yard.main, (one, ERROR), (two, ERROR))
    known, request, record = yard.request(train[0]), yard.request(train[1]), yard.record()
    before = len(yard.sim.requests)
    seen = yard.reader.read_train(record, request, [known])
    asked = [each.path.rpartition("/")[2] for each in yard.sim.requests[before:]]
    assert seen.runs == (replace(known, base=yard.main, cars=()),)
    assert sorted(asked) == sorted([str(train[1].id), "commits", "pipelines"])


def test_a_long_train_is_read_in_part(yard: Yard) -> None:
    mrs = yard.open(MOST_RUNS + 3)
    train = yard.couple(yard.main, *((mr, ERROR) for mr in mrs))
    seen = yard.read(train[-1])
    assert len(seen.runs) == MOST_RUNS
    assert yard.find(train[-1])[0] is TrainCause.UNKNOWN


def test_a_car_that_goes_on_is_waited_for(yard: Yard) -> None:
    one, two = yard.open(2)
    train = yard.couple(yard.main, (one, "running"), (two, ERROR))
    assert not yard.read(train[1]).is_settled
    assert yard.find(train[1])[0] is TrainCause.UNKNOWN
    train[0].status = "canceled"
    assert yard.read(train[1]).is_settled
    assert yard.find(train[1])[0] is TrainCause.UNKNOWN


def test_nobody_is_blamed_if_a_car_in_front_is_not_known(yard: Yard) -> None:
    one, two, three = yard.open(3)
    first = yard.commit("Merge", yard.main, one.sha)
    yard.ride(one, first, OK)
    second = yard.commit("Merge", first, two.sha)
    third = yard.ride(three, yard.commit("Merge", second, three.sha), ERROR)
    assert not yard.read(third).is_known
    assert yard.find(third)[0] is TrainCause.UNKNOWN


def test_a_train_that_only_moves_the_branch_forward(yard: Yard) -> None:
    one, two = yard.open(2)
    first = yard.commit("one b", yard.commit("one a", yard.main))
    front = yard.ride(one, first, OK)
    second = yard.commit("two c", yard.commit("two b", yard.commit("two a", first)))
    red = yard.ride(two, second, ERROR)
    assert yard.find(red) == (TrainCause.OWN, two.iid, red.id, front.id)
    assert yard.read(red).request.cars == (one.iid,)


def test_another_state_of_the_car_in_front_proves_nothing(yard: Yard) -> None:
    """It was updated since, passed and landed: that is not what the train had in it."""
    one, two = yard.open(2)
    train = yard.couple(yard.main, (one, "canceled"), (two, ERROR))
    one.sha = yard.commit("mended", one.sha)
    (green,) = yard.couple(yard.main, (one, OK))
    landed = land(yard.sim, yard.scene, "b.py")
    one.state, one.merge_commit_sha = "merged", landed
    end(yard.sim, run(yard.sim, yard.scene, landed), unit=OK)
    assert yard.find(train[1])[0] is TrainCause.UNKNOWN
    assert green.id not in {each.pipeline_id for each in yard.read(train[1]).runs}


def test_a_car_that_has_landed_ran_on_what_the_branch_is_now(yard: Yard) -> None:
    one, two = yard.open(2)
    (green,) = yard.couple(yard.main, (one, OK))
    landed = land(yard.sim, yard.scene, "b.py")
    one.state, one.merge_commit_sha = "merged", landed
    (red,) = yard.couple(landed, (two, ERROR))
    assert yard.find(red) == (TrainCause.OWN, two.iid, red.id, green.id)


def test_other_runs_of_the_same_commits_are_read(yard: Yard) -> None:
    one, two = yard.open(2)
    two.base_sha = yard.main
    alone = end(yard.sim, yard.sim.run_pipeline(two), unit=OK)
    train = yard.couple(yard.main, (one, OK), (two, ERROR))
    seen = yard.read(train[1])
    own = yard.reader.read_own_runs(seen.record, seen.request)
    assert [(each.pipeline_id, each.base) for each in own] == [(alone.id, yard.main)]
    found = find_breaker(seen.record, seen.request, (*seen.runs, *own))
    assert (found.cause, found.together_with) == (TrainCause.OWN, one.iid)
    two.commits.append(replace(two.commits[-1], sha="f" * 40))
    two.sha = "f" * 40
    later = yard.couple(yard.main, (one, OK), (two, ERROR))
    assert yard.reader.read_own_runs(seen.record, yard.read(later[1]).request) == ()
