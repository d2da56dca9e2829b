"""The simulated GitLab's branches: their commits, what lies between them, and their pipelines."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.simulators.gitlab import Access, GitLabSim, Pipeline, Scene
from worker.lab.gitlab.state import Commit

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as made:
        yield made


def ask(sim: GitLabSim, scene: Scene, place: str, **query: Any) -> httpx.Response:
    url = f"{sim.url}/api/v4/projects/{scene.project.id}{place and f'/{place}'}"
    headers = {"PRIVATE-TOKEN": scene.read_token}
    return httpx.get(url, params=query, headers=headers, trust_env=False)


def land(sim: GitLabSim, scene: Scene, name: str, parents: tuple[str, ...], minute: int) -> str:
    """Let a commit of this name become the newest of main; it writes the file `name`."""
    files = {**scene.project.commits[parents[0]], f"{name}.txt": name.encode()}
    sha = name.encode().hex().ljust(40, "0")
    at = (NIGHT + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    scene.project.commits[sha], scene.project.refs["main"] = files, sha
    scene.project.records[sha] = Commit(sha, name, scene.developer, at, parents=parents)
    return sha


@pytest.fixture
def line(sim: GitLabSim, scene: Scene) -> dict[str, str]:
    """Main: a root, `one`, a merge of the merge request, `two`; a commit `side` leaves at `one`."""
    root = scene.project.refs["main"]
    one = land(sim, scene, "one", (root,), 1)
    side = land(sim, scene, "side", (one,), 2)
    merge = land(sim, scene, "merge", (one, scene.mr.sha), 3)
    two = land(sim, scene, "two", (merge,), 4)
    scene.mr.state, scene.mr.merge_commit_sha = "merged", merge
    return {"root": root, "one": one, "side": side, "merge": merge, "two": two, "mr": scene.mr.sha}


RANGES = [
    ({"ref_name": "main"}, "two merge one mr root"),
    ({"first_parent": "true"}, "two merge one root"),
    ({"ref_name": "{root}..main", "first_parent": "true"}, "two merge one"),
    ({"ref_name": "{root}..{two}"}, "two merge one mr"),
    ({"ref_name": "{two}..main"}, ""),
    ({"ref_name": "{side}..main", "first_parent": "true"}, "two merge"),
    ({"ref_name": "{merge}"}, "merge one mr root"),
    ({"path": "two.txt"}, "two"),
    ({"since": "2026-11-21T02:04:00Z"}, "two"),
    ({"ref_name": "main", "per_page": "1", "page": "2"}, "merge"),
]


@pytest.mark.parametrize(("query", "wanted"), RANGES)
def test_commits_are_listed_as_git_does(
    sim: GitLabSim, scene: Scene, line: dict[str, str], query: dict[str, str], wanted: str
) -> None:
    asked = {name: value.format(**line) for name, value in query.items()}
    answer = ask(sim, scene, "repository/commits", **asked)
    names = {sha: name for name, sha in line.items()}
    assert [names[each["id"]] for each in answer.json()] == wanted.split()


@pytest.mark.parametrize("name", ["gone", "gone..main", "main..gone", "main...main"])
def test_commits_of_what_is_not_there_are_not_found(
    sim: GitLabSim, scene: Scene, line: dict[str, str], name: str
) -> None:
    assert ask(sim, scene, "repository/commits", ref_name=name).status_code == 404


def test_a_commit_tells_its_parents_its_changes_and_its_merge_request(
    sim: GitLabSim, scene: Scene, line: dict[str, str]
) -> None:
    path = f"repository/commits/{line['merge']}"
    told = ask(sim, scene, path).json()
    assert told["parent_ids"] == [line["one"], line["mr"]]
    assert told["committed_date"] == "2026-11-21T02:03:00.000Z"
    assert [each["new_path"] for each in ask(sim, scene, f"{path}/diff").json()] == ["merge.txt"]
    for sha in (line["merge"], line["mr"]):
        found = ask(sim, scene, f"repository/commits/{sha}/merge_requests", state="merged").json()
        assert [each["iid"] for each in found] == [scene.mr.iid]
    assert ask(sim, scene, f"repository/commits/{line['two']}/merge_requests").json() == []
    assert ask(sim, scene, f"repository/commits/{'9' * 40}/merge_requests").status_code == 404


def test_a_merge_base_is_the_newest_commit_that_both_contain(
    sim: GitLabSim, scene: Scene, line: dict[str, str]
) -> None:
    def base(*refs: str) -> httpx.Response:
        return ask(sim, scene, "repository/merge_base", **{"refs[]": list(refs)})

    assert base("main", line["side"]).json()["id"] == line["one"]
    assert base("main", line["mr"]).json()["id"] == line["mr"]
    assert base(line["one"], line["mr"]).json()["id"] == line["root"]
    answer = base("main", "gone", "lost")
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "Could not find refs: gone, lost",
    )


def test_comparing_starts_where_the_lines_part(
    sim: GitLabSim, scene: Scene, line: dict[str, str]
) -> None:
    def compare(**query: str) -> tuple[list[str], list[str]]:
        told = ask(sim, scene, "repository/compare", **query).json()
        return [each["id"] for each in told["commits"]], [
            each["new_path"] for each in told["diffs"]
        ]

    pair = {"from": line["side"], "to": "main"}
    shas, paths = compare(**pair)
    assert shas == [line["mr"], line["merge"], line["two"]]
    assert paths == ["merge.txt", "two.txt"]
    assert compare(**pair, straight="true") == (shas, ["merge.txt", "side.txt", "two.txt"])
    assert (
        ask(sim, scene, "repository/compare", **{"from": "gone", "to": "main"}).status_code == 404
    )


def test_a_branch_is_shown_until_it_is_deleted(
    sim: GitLabSim, scene: Scene, line: dict[str, str]
) -> None:
    sim.add_member(scene.project, scene.bot, Access.DEVELOPER)
    scene.project.refs["release/1.0"] = line["one"]
    scene.project.protected_branches["main"] = Access.MAINTAINER
    main, other = (
        ask(sim, scene, f"repository/branches/{name}") for name in ("main", "release%2F1.0")
    )
    assert main.json()["commit"]["id"] == line["two"]
    shown = [
        [told.json()[field] for field in ("protected", "can_push", "default")]
        for told in (main, other)
    ]
    assert shown == [[True, False, True], [False, True, False]]
    del scene.project.refs["release/1.0"]
    answer = ask(sim, scene, "repository/branches/release%2F1.0")
    assert (answer.status_code, answer.json()["message"]) == (404, "404 Branch Not Found")


# ------------------------------------------------------------------------------------- pipelines


@pytest.fixture
def runs(sim: GitLabSim, scene: Scene, line: dict[str, str]) -> dict[int, str]:
    """Four pipelines of main, and one of a merge request whose source branch is main."""

    def run(ref: str, sha: str, source: str, status: str, minute: int) -> Pipeline:
        sim.set_clock(NIGHT + timedelta(minutes=minute))
        made = sim.add_pipeline(
            scene.project, scene.developer, ref=ref, sha=sha, source=source, status=status
        )
        made.finished_at = sim.advance_clock() if made.has_ended else ""
        return made

    of_mr = f"refs/merge-requests/{scene.mr.iid}/head"
    names = {
        "old": run("main", line["one"], "push", "success", 10),
        "night": run("main", line["one"], "schedule", "failed", 20),
        "new": run("main", line["two"], "push", "failed", 30),
        "now": run("main", line["two"], "web", "running", 40),
        "mr": run(of_mr, "5" * 40, "merge_request_event", "failed", 50),
    }  # fmt: skip
    scene.mr.source_branch = "main"
    names["old"].updated_at = "2026-11-21T02:45:00.000Z"
    return {each.id: name for name, each in names.items()}


FILTERS = [
    ({"ref": "main"}, "mr now new night old"),
    ({"ref": "main", "source": "push"}, "new old"),
    ({"ref": "main", "source": "merge_request_event"}, "mr"),
    ({"ref": "main", "status": "failed"}, "mr new night"),
    ({"ref": "main", "scope": "finished"}, "mr new night old"),
    ({"ref": "main", "scope": "running"}, "now"),
    ({"scope": "branches"}, "now"),
    ({"ref": "main", "source": "push", "updated_after": "2026-11-21T02:40:00Z"}, "old"),
    ({"ref": "main", "source": "push", "updated_before": "2026-11-21T02:40:00Z"}, "new"),
    ({"ref": "main", "order_by": "updated_at", "sort": "asc"}, "night new now old mr"),
    ({"ref": "main", "sort": "asc", "per_page": "2", "page": "2"}, "new now"),
]


@pytest.mark.parametrize(("query", "wanted"), FILTERS)
def test_pipelines_are_listed_by_what_is_asked(
    sim: GitLabSim, scene: Scene, runs: dict[int, str], query: dict[str, str], wanted: str
) -> None:
    del sim.pipelines[scene.pipeline.id]
    found = ask(sim, scene, "pipelines", **query).json()
    assert [runs[each["id"]] for each in found] == wanted.split()


@pytest.mark.parametrize(
    "query", [{"order_by": "created_at"}, {"status": "red"}, {"source": "cron"}, {"branch": "main"}]
)
def test_what_gitlab_would_pass_over_is_refused(
    sim: GitLabSim, scene: Scene, query: dict[str, str]
) -> None:
    assert ask(sim, scene, "pipelines", **query).status_code == 400
    assert len(sim.unexpected_requests) == 1


def test_when_a_pipeline_ended_is_told_of_a_single_one_that_has(
    sim: GitLabSim, scene: Scene, runs: dict[int, str]
) -> None:
    numbers = {name: number for number, name in runs.items()}
    assert not any("finished_at" in each for each in ask(sim, scene, "pipelines").json())
    told = ask(sim, scene, f"pipelines/{numbers['night']}").json()
    assert (told["created_at"][11:16], told["finished_at"][11:16]) == ("02:20", "02:20")
    assert ask(sim, scene, f"pipelines/{numbers['now']}").json()["finished_at"] is None
    assert ask(sim, scene, "pipelines/latest", ref="main").json()["id"] == numbers["now"]
    land(sim, scene, "three", (scene.project.refs["main"],), 60)
    assert ask(sim, scene, "pipelines/latest", ref="main").status_code == 403


def test_a_jobs_attempts_are_listed_on_request_each_with_its_times(
    sim: GitLabSim, scene: Scene, runs: dict[int, str]
) -> None:
    pipeline = sim.pipelines[min(runs)]
    first = sim.add_job(pipeline, "deploy", status="failed")
    first.manual, first.environment = True, "production"
    sim.set_clock(NIGHT + timedelta(hours=2))
    again = sim.retry_job(first, status="success")
    path = f"pipelines/{pipeline.id}/jobs"
    assert [each["id"] for each in ask(sim, scene, path).json()] == [again.id]
    listed = ask(sim, scene, path, include_retried="true").json()
    assert [each["id"] for each in listed] == [again.id, first.id]
    assert [each["finished_at"][11:16] for each in listed] == ["04:00", "02:50"]
    assert ask(sim, scene, f"pipelines/{pipeline.id}").json()["finished_at"][11:16] == "04:00"
    assert not {"manual", "when", "environment"} & set(listed[0]), "the API does not tell them"


def test_an_archived_project_says_so_and_takes_nothing(sim: GitLabSim, scene: Scene) -> None:
    scene.project.archived = True
    told = ask(sim, scene, "").json()
    assert (told["archived"], told["default_branch"]) == (True, "main")
    url = f"{sim.url}/api/v4/projects/{scene.project.id}/merge_requests/1/notes"
    headers = {"PRIVATE-TOKEN": scene.write_token}
    answer = httpx.post(url, json={"body": "x"}, headers=headers, trust_env=False)
    assert (answer.status_code, scene.mr.list_notes()) == (403, [])
