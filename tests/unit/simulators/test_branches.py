"""A story of a branch is played into the simulated GitLab, event by event."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import yaml

from tests.simulators.branches import StoryPlayer, read_time
from tests.simulators.gitlab import Access, GitLabSim
from worker.logs.signature import find_exact_errors

STORY = """
errors:
  K: "src/ink.py:12:4: E225 missing whitespace around operator"
  L: ["ink.test.ts: Error: loose lid at 10:02:11", "ink.test.ts: Error: loose lid at 11:40:59"]
events:
- {at: 0m, land: P, files: [src/ink.py]}
- {at: 6m, pipeline: 11, commit: P, jobs: {lint: ok, cap: ok, ship: {is: ok, deploy: true}}}
- {at: 10m, open: 71, base: P, by: dev2, files: [src/ink.py, docs/a.md]}
- {at: 11m, open: 72, base: P, by: stranger1, fork: fork1, files: [docs/b.md], times: 2, every: 1m}
- {at: 15m, open: 74, base: P, by: dev3, stacked_on: 71, files: [docs/c.md]}
- {at: 20m, land: Q, mr: 60, by: dev1, files: [src/ink.py, .gitlab-ci.yml]}
- {at: 30m, pipeline: 12, commit: Q, took: 8m,
   jobs: {lint: [K, L], cap: {tries: [L, ok]}, ship: skipped, hand: manual}}
- {at: 31m, pipeline: 21, mr: 71, kind: merged_result, onto: Q,
   jobs: {lint: {is: K, reason: runner_system_failure}}}
- {at: 32m, pipeline: 22, mr: 72, times: 2, every: 1m, project: fork1, jobs: {lint: ok}}
- {at: 40m, retry: 12, jobs: {lint: ok, ship: {is: L, manual: true}}}
- {at: 41m, open: 75, base: Q, by: dev1, reverts: Q}
- {at: 42m, rebase: 71, onto: Q}
- {at: 43m, update: 71, files: [docs/d.md]}
- {at: 50m, pipeline: 31, mr: 75, kind: train, onto: Q, jobs: {lint: ok}}
- {at: 51m, pipeline: 32, mr: 71, kind: train, onto: Q, cars: [75], jobs: {lint: K}}
- {at: 52m, land: R, mr: 75, by: dev1}
- {at: 53m, land: S, branch: release/1, by: dev2, picks: R}
- {at: 54m, land: T, mr: 61, by: dev3, squash: true, files: [src/ink.py]}
- {at: 60m, pipeline: 13, commit: T, source: schedule,
   jobs: {lint: {is: K, allow_failure: true}, cap: canceled}}
- {at: 61m, close: 74}
- {at: 62m, delete_branch: release/1}
- {at: 63m, archive: one}
"""


@pytest.fixture
def player() -> Iterator[StoryPlayer]:
    with GitLabSim() as sim:
        yield StoryPlayer(sim, yaml.safe_load(STORY))


def ask(player: StoryPlayer, place: str, name: str = "one", **query: Any) -> Any:
    url = f"{player.sim.url}/api/v4/projects/{player.projects[name].id}/{place}"
    headers = {"PRIVATE-TOKEN": player.read_token}
    answer = httpx.get(url, params=query, headers=headers, trust_env=False)
    return answer.json() if answer.status_code == 200 else answer.status_code


def statuses(player: StoryPlayer, number: int, *, retried: bool = False) -> list[tuple[str, str]]:
    jobs = ask(player, f"pipelines/{number}/jobs", include_retried=str(retried).lower())
    return sorted((each["name"], each["status"]) for each in jobs)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("2h10m", 7800), ("3d", 259200), ("-30s", -30), (7, 7)]
)
def test_times_are_read(text: str | int, seconds: int) -> None:
    assert read_time(text) == seconds


def test_a_pipeline_runs_until_it_ends(player: StoryPlayer) -> None:
    player.play("29m")
    running = ask(player, "pipelines/12")
    assert (running["status"], running["finished_at"], running["sha"]) == (
        "running",
        None,
        player.commits["Q"],
    )
    assert running["created_at"] == player_time(player, "22m")
    (ended,) = [each for each in player.play("30m") if each.hooks]
    body = json.loads(ended.hooks[0][1])
    assert body["object_attributes"]["status"] == "failed"
    assert body["object_attributes"]["finished_at"] == "2026-11-20 09:30:00 UTC"
    assert {(each["name"], each["when"]) for each in body["builds"]} >= {("hand", "manual")}
    assert statuses(player, 12, retried=True) == [
        ("cap", "failed"), ("cap", "success"), ("hand", "manual"), ("lint", "failed"),
        ("ship", "skipped"),
    ]  # fmt: skip


def player_time(player: StoryPlayer, text: str) -> str:
    moment = player.start + timedelta(seconds=read_time(text))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def test_jobs_that_ran_again_end_the_pipeline_anew(player: StoryPlayer) -> None:
    player.play("39m")
    before = ask(player, "pipelines/12")["updated_at"]
    player.play("40m")
    assert statuses(player, 12) == [
        ("cap", "success"), ("hand", "manual"), ("lint", "success"), ("ship", "failed"),
    ]  # fmt: skip
    told = ask(player, "pipelines/12")
    assert (told["status"], told["updated_at"]) == ("failed", player_time(player, "40m"))
    assert before == player_time(player, "30m")


def _list_output(lines: list[str]) -> list[str]:
    bare = [line.partition(" 01O ")[2] for line in lines]
    return [line for line in bare if not line.startswith("section_")]


def test_an_error_stands_in_its_log_as_it_was_spelt(player: StoryPlayer) -> None:
    player.play("40m")
    told = {
        job.name: job.trace.decode().split("\n")
        for job in player.sim.jobs.values()
        if job.status == "failed" and job.trace and job.pipeline.id == 12
    }
    errors = {
        name: set(find_exact_errors(_list_output(lines)).values()) for name, lines in told.items()
    }
    assert errors == {
        "lint": {
            "src/ink.py:12:4: E225 missing whitespace around operator",
            "ink.test.ts: Error: loose lid at 10:02:11",
        },
        "cap": {"ink.test.ts: Error: loose lid at 11:40:59"},
        "ship": {"ink.test.ts: Error: loose lid at 10:02:11"},
    }
    assert "Job failed: exit code 1" in told["lint"][-2]
    evicted = player.pipelines[21].jobs[0].trace or b""
    assert b"Job failed (system failure)" in evicted
    assert b"E225" not in evicted


def test_landings_are_first_parents_with_gitlabs_texts(player: StoryPlayer) -> None:
    player.play("62m")
    listed = ask(player, "repository/commits", first_parent="true", ref_name="main")
    names = {sha: name for name, sha in player.commits.items()}
    assert [names.get(each["id"]) for each in listed] == ["T", "R", "Q", "P", None]
    squashed, reverted, merged, _, _ = listed
    assert merged["title"] == "Merge branch 'dev1-60' into 'main'"
    assert merged["message"].endswith("See merge request team/one!60\n")
    assert squashed["title"] == "Work on ink.py for T"
    assert [len(each["parent_ids"]) for each in listed] == [1, 2, 2, 1, 0]
    inside = ask(player, f"repository/commits/{reverted['parent_ids'][1]}")
    assert inside["message"] == (
        "Revert \"Merge branch 'dev1-60' into 'main'\"\n\nThis reverts merge request !60\n"
    )
    paths = [each["new_path"] for each in ask(player, f"repository/commits/{reverted['id']}/diff")]
    assert paths == ["src/ink.py"]
    for name, iid in (("Q", 60), ("R", 75), ("T", 61)):
        found = ask(player, f"repository/commits/{player.commits[name]}/merge_requests")
        assert [(each["iid"], each["state"]) for each in found] == [(iid, "merged")]
    picked = player.projects["one"].records[player.commits["S"]].message
    assert f"(cherry picked from commit {player.commits['R']})" in picked
    assert ask(player, "repository/branches/release%2F1") == 404


def test_merge_requests_stand_on_what_is_said(player: StoryPlayer) -> None:
    player.play("41m")
    stacked = [each["title"] for each in ask(player, "merge_requests/74/commits")]
    assert stacked == ["Work on c.md for !74", "Work on ink.py for !71"]
    assert ask(player, "merge_requests/75")["description"] == "This reverts merge request !60"
    old = ask(player, "merge_requests/71")
    assert old["diff_refs"]["base_sha"] == player.commits["P"]
    player.play("62m")
    new = ask(player, "merge_requests/71")
    assert new["diff_refs"]["base_sha"] == player.commits["Q"]
    assert len(ask(player, "merge_requests/71/commits")) == 2
    assert new["sha"] != old["sha"]
    paths = [each["new_path"] for each in ask(player, "merge_requests/71/diffs")]
    assert paths == ["docs/a.md", "docs/d.md", "src/ink.py"]
    bases: dict[str, Any] = {"refs[]": ["main", new["sha"]]}
    assert ask(player, "repository/merge_base", **bases)["id"] == player.commits["Q"]
    assert ask(player, "merge_requests/74")["state"] == "closed"


def test_merge_results_and_trains_run_on_commits_of_their_own(player: StoryPlayer) -> None:
    player.play("60m")
    ref, sha = (ask(player, "pipelines/21")[key] for key in ("ref", "sha"))
    assert ref == "refs/merge-requests/71/merge"
    merged = ask(player, f"repository/commits/{sha}")["parent_ids"]
    assert merged[0] == player.commits["Q"]
    front, behind = (ask(player, f"pipelines/{number}") for number in (31, 32))
    assert behind["ref"] == "refs/merge-requests/71/train"
    below = ask(player, f"repository/commits/{behind['sha']}")["parent_ids"]
    assert below == [front["sha"], player.requests[71].sha]
    notes = [each["body"] for each in ask(player, "merge_requests/71/notes") if each["system"]]
    assert any("because the pipeline did not succeed" in body for body in notes)
    complete = ask(player, "merge_trains", scope="complete")
    assert [each["merge_request"]["iid"] for each in complete] == [75]


def test_a_forks_pipeline_is_the_forks(player: StoryPlayer) -> None:
    player.play("60m")
    assert [player.pipelines[number].ref for number in (22, 23)] == ["stranger1-72", "stranger1-73"]
    assert {player.pipelines[number].project.path for number in (22, 23)} == {"dev9/fork1"}
    assert ask(player, "pipelines/22") == 404
    assert ask(player, "pipelines", "fork1") == 404
    stranger = player.people["stranger1"].id
    assert ask(player, f"members/all/{stranger}") == 404
    assert (
        ask(player, f"members/all/{player.people['dev1'].id}")["access_level"] == Access.DEVELOPER
    )


def test_what_is_manual_or_deploys_stands_in_the_configuration(player: StoryPlayer) -> None:
    player.play("60m")
    first, second = (
        yaml.safe_load(ask(player, "ci/lint", content_ref=player.commits[name])["merged_yaml"])
        for name in ("P", "Q")
    )
    assert first["ship"]["environment"] == {"name": "ship"}
    assert "hand" not in first
    assert (second["hand"]["when"], second["ship"]["when"]) == ("manual", "manual")
    assert player.sim.unexpected_requests == []


def test_what_counts_decides_how_a_pipeline_ends(player: StoryPlayer) -> None:
    player.play("63m")
    assert player.projects["one"].archived
    night = ask(player, "pipelines/13")
    assert (night["status"], night["source"]) == ("canceled", "schedule")
    assert [ask(player, f"pipelines/{number}")["status"] for number in (11, 31)] == ["success"] * 2
    assert player.play("9d") == []
