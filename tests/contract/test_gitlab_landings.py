"""What is read of a watched branch: what has landed; and which branches are watched."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.contract.branches import ERROR, end, get_landing, get_paths, land, run
from tests.simulators.gitlab import GitLabSim, Scene
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.record import BranchRecord


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


def test_many_landings_between_are_asked_for_within_bounds(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit="ok")
    shas = [land(sim, scene, f"{n}.py") for n in range(70)]
    end(sim, run(sim, scene, shas[-1]), unit=ERROR)
    found = reader.read_branch(record)
    assert len(found.landings) == 50
    assert get_paths(sim)["diff"] <= 20
    assert len(sim.requests) < 60


def test_a_revert_says_what_it_takes_back(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    bad = land(sim, scene, "a.py")
    good = land(sim, scene, "a.py", 'Revert "a"', f'Revert "a"\n\nThis reverts commit {bad}.\n')
    mend = land(sim, scene, "b.py", 'Revert "b"', 'Revert "b"\n\nThis reverts merge request !12\n')
    found = reader.read_branch(record)
    assert get_landing(found, good).reverts == (bad,)
    assert get_landing(found, mend).reverts == ("!12",)


def test_commits_of_one_merge_request_that_moved_the_branch_forward_are_one_landing(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    end(sim, run(sim, scene, land(sim, scene, "z.py")), unit="ok")
    shas = [land(sim, scene, f"{name}.py") for name in "ab"]
    scene.mr.commits = [scene.project.records[sha] for sha in shas]
    scene.mr.state, scene.mr.sha = "merged", shas[-1]
    end(sim, run(sim, scene, shas[-1]), unit=ERROR)
    found = reader.read_branch(record)
    assert shas[0] not in {each.sha for each in found.landings}
    landing = get_landing(found, shas[1])
    assert (landing.mr_iid, landing.files) == (1, ("b.py", "a.py"))
    assert landing.commits == (shas[0],)
    sim.requests.clear()
    assert reader.read_branch(found) == found
    assert get_paths(sim) == {"pipelines": 1, "commits": 1}


def test_a_branch_that_was_set_back_has_the_landings_that_it_has_now(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    first = land(sim, scene, "a.py")
    gone = land(sim, scene, "b.py")
    record = reader.read_branch(record)
    assert record.landings[-1].sha == gone
    scene.project.refs["main"] = first
    other = land(sim, scene, "c.py")
    shas = [each.sha for each in reader.read_branch(record).landings]
    assert shas[-2:] == [first, other]
    assert gone not in shas


def test_older_landings_are_kept_and_a_gap_is_not_bridged(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    shas = [land(sim, scene, f"{n}.py") for n in range(30)]
    record = reader.read_branch(record)
    shas += [land(sim, scene, f"{n}.md") for n in range(30)]
    record = reader.read_branch(record)
    assert [each.sha for each in record.landings][-60:] == shas
    shas += [land(sim, scene, f"{n}.txt") for n in range(51)]
    record = reader.read_branch(record)
    assert [each.sha for each in record.landings] == shas[-50:]


WATCHED = [
    ("main", ["default"], True),
    ("release/1.0", ["default"], False),
    ("release/1.0", ["release/*"], True),
    ("main", ["release/*"], False),
    ("default", ["default"], False),
    ("refs/merge-requests/1/head", ["*"], False),
    ("", ["*"], False),
    ("main", [], False),
]


@pytest.mark.parametrize(("ref", "globs", "watched"), WATCHED)
def test_which_branches_are_watched(
    scene: Scene, reader: GitLabReader, ref: str, globs: list[str], watched: bool
) -> None:
    assert reader.is_watched(scene.project.id, ref, globs) is watched


def test_the_default_branch_is_asked_for_each_time(scene: Scene, reader: GitLabReader) -> None:
    assert reader.is_watched(scene.project.id, "main", ["default"])
    scene.project.default_branch = "trunk"
    assert not reader.is_watched(scene.project.id, "main", ["default"])
    assert reader.is_watched(scene.project.id, "trunk", ["default"])


def test_a_fork_that_is_not_served_has_no_watched_branch(sim: GitLabSim, scene: Scene) -> None:
    fork = sim.add_project("mara/service", parent=scene.project)
    fork.members.update(scene.project.members)
    client = ReadClient(sim.url, scene.read_token)
    reader = GitLabReader(client, sim.url, ("team/*",), 30)
    assert not reader.is_watched(fork.id, "main", ["default"])
    assert reader.is_watched(scene.project.id, "main", ["default"])
    assert GitLabReader(client, sim.url, ("mara/*",), 30).is_watched(fork.id, "main", ["default"])


def test_the_branch_of_a_pipeline(sim: GitLabSim, scene: Scene, reader: GitLabReader) -> None:
    sha = land(sim, scene, "a.py")
    number = scene.project.id
    red = end(sim, run(sim, scene, sha), unit=ERROR)
    assert reader.find_branch(number, red.id, ["default"]) == BranchRecord(
        number, scene.project.path, "main"
    )
    assert "not watched" in str(reader.find_branch(number, red.id, ["release/*"]))
    assert "not a branch's own" in str(reader.find_branch(number, scene.pipeline.id, ["*"]))
    child = run(sim, scene, sha, "parent_pipeline")
    assert "not a branch's own" in str(reader.find_branch(number, child.id, ["*"]))
    assert "not found" in str(reader.find_branch(number, 1, ["*"])).lower()


def test_a_branch_or_project_that_is_gone_says_so(
    sim: GitLabSim, scene: Scene, reader: GitLabReader, record: BranchRecord
) -> None:
    number = scene.project.id
    assert reader.find_branch_state(number, "main") == ""
    end(sim, run(sim, scene, land(sim, scene, "a.py")), unit="ok")
    before = reader.read_branch(record)
    scene.project.refs["old/one"] = scene.project.refs["main"]
    assert reader.find_branch_state(number, "old/one") == ""
    del scene.project.refs["old/one"]
    assert reader.find_branch_state(number, "old/one")
    assert reader.read_branch(replace(before, branch="old/one")).landings == before.landings
    scene.project.archived = True
    assert "archived" in reader.find_branch_state(number, "main")
    assert reader.find_branch_state(4711, "main")
