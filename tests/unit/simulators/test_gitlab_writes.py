"""The simulated GitLab's merge trains, jobs that run again, and issues."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.simulators.gitlab import Access, GitLabSim, MergeRequest, Scene
from tests.simulators.gitlab.trains import NOT_SUCCEEDED, make_merge_result


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as made:
        yield made


@pytest.fixture(autouse=True)
def developer(sim: GitLabSim, scene: Scene) -> None:
    sim.add_member(scene.project, scene.bot, Access.DEVELOPER)


def ask(
    sim: GitLabSim, scene: Scene, place: str, method: str = "GET", token: str = "", **rest: Any
) -> httpx.Response:
    url = f"{sim.url}/api/v4/projects/{scene.project.id}/{place}"
    headers = {"PRIVATE-TOKEN": token or scene.write_token}
    return httpx.request(method, url, headers=headers, trust_env=False, **rest)


# ---------------------------------------------------------------------------------- merge trains


def open_more(sim: GitLabSim, scene: Scene, name: str) -> MergeRequest:
    files = {f"{name}.txt": b"1\n"}
    return sim.open_merge_request(
        scene.project, scene.developer, title=name, branch=name, files=files
    )


def notes(mr: MergeRequest) -> list[str]:
    return [note.body for note in mr.list_notes() if note.system]


def test_a_trains_commits_stand_on_the_car_in_front(sim: GitLabSim, scene: Scene) -> None:
    first, second = (open_more(sim, scene, name) for name in ("first", "second"))
    main, at = scene.project.refs["main"], sim.advance_clock()
    front = make_merge_result(first, main, at)
    both = make_merge_result(second, main, at, [first])
    assert make_merge_result(first, main, at) == front
    for sha, parents in ((both, [front, second.sha]), (front, [main, first.sha])):
        told = ask(sim, scene, f"repository/commits/{sha}").json()
        assert told["parent_ids"] == parents
    assert {"first.txt", "second.txt"} <= set(scene.project.commits[both])


def test_of_a_dropped_car_only_a_note_is_left(sim: GitLabSim, scene: Scene) -> None:
    assert ask(sim, scene, "merge_trains").status_code == 403
    first, second = (open_more(sim, scene, name) for name in ("first", "second"))
    runs = {mr.iid: sim.run_pipeline(mr, status="running", kind="train") for mr in (first, second)}
    for mr in (first, second):
        sim.trains.add(mr, scene.developer, runs[mr.iid])
    active = ask(sim, scene, "merge_trains/main?scope=active&sort=asc").json()
    assert [each["merge_request"]["iid"] for each in active] == [first.iid, second.iid]
    assert active[0]["pipeline"]["ref"] == f"refs/merge-requests/{first.iid}/train"
    sim.trains.drop(first)
    assert ask(sim, scene, f"merge_trains/merge_requests/{first.iid}").status_code == 404
    left = ask(sim, scene, f"merge_trains/merge_requests/{second.iid}").json()
    assert (left["status"], left["pipeline"]["status"]) == ("stale", "canceled")
    assert notes(first)[0] == "started a merge train"
    assert notes(first)[1].startswith(
        f"removed this merge request from the merge train because {NOT_SUCCEEDED}. [Learn more]("
    )
    assert notes(second) == ["added this merge request to the merge train at position 2"]
    sim.trains.merge(second)
    assert ask(sim, scene, "merge_trains?scope=active").json() == []
    assert [each["status"] for each in ask(sim, scene, "merge_trains?scope=complete").json()] == [
        "merged"
    ]
    assert ask(sim, scene, "merge_trains?scope=old").status_code == 400


# -------------------------------------------------------------------------------------- run again


def test_a_job_runs_again_once_and_skipped_jobs_wait_again(sim: GitLabSim, scene: Scene) -> None:
    deploy = sim.add_job(scene.pipeline, "deploy", stage="deploy", status="skipped")
    answer = ask(sim, scene, f"jobs/{scene.job.id}/retry", "POST")
    told = answer.json()
    assert (answer.status_code, told["status"], told["name"]) == (201, "pending", scene.job.name)
    assert told["id"] == sim.retried[0].id != scene.job.id
    assert told["user"]["id"] == scene.bot.id
    assert sim.retried[0].started_by is scene.bot
    assert (scene.pipeline.status, deploy.status) == ("running", "created")
    again = ask(sim, scene, f"jobs/{scene.job.id}/retry", "POST")
    refused = {"message": "403 Forbidden - Job is not retryable"}
    assert (again.status_code, again.json()) == (403, refused)
    assert ask(sim, scene, f"jobs/{told['id']}/retry", "POST").json() == refused
    assert len(sim.retried) == 1


def test_who_may_not_run_a_job_again_is_refused(sim: GitLabSim, scene: Scene) -> None:
    train = sim.add_job(sim.run_pipeline(scene.mr, kind="train"), "unit", status="failed")
    main = sim.add_pipeline(
        scene.project, scene.developer, ref="main", sha="1" * 40, source="push", status="failed"
    )
    protected = sim.add_job(main, "unit", status="failed")
    scene.project.protected_branches["main"] = Access.MAINTAINER
    for job, said in ((train, " - Job is not retryable"), (protected, "")):
        answer = ask(sim, scene, f"jobs/{job.id}/retry", "POST")
        assert (answer.status_code, answer.json()["message"]) == (403, f"403 Forbidden{said}")
    sim.add_member(scene.project, scene.bot, Access.REPORTER)
    assert ask(sim, scene, f"jobs/{scene.job.id}/retry", "POST").status_code == 403
    assert (sim.retried, sim.unexpected_requests) == ([], [])


# -------------------------------------------------------------------------------------- issues


def test_an_issue_is_made_changed_closed_and_opened_again(sim: GitLabSim, scene: Scene) -> None:
    fields = {"title": "main is red", "description": "Since 09:40.", "labels": "red,ci"}
    made = ask(sim, scene, "issues", "POST", json=fields)
    assert (made.status_code, made.json()["iid"], made.json()["state"]) == (201, 1, "opened")
    changed = ask(sim, scene, "issues/1", "PUT", json={"add_labels": "ops", "remove_labels": "ci"})
    assert changed.json()["labels"] == ["red", "ops"]
    closed = ask(sim, scene, "issues/1", "PUT", json={"state_event": "close"}).json()
    assert (closed["state"], closed["closed_by"]["id"]) == ("closed", scene.bot.id)
    assert closed["closed_at"] == closed["updated_at"] > closed["created_at"]
    again = ask(sim, scene, "issues/1", "PUT", json={"state_event": "reopen"}).json()
    assert (again["state"], again["closed_at"], again["closed_by"]) == ("opened", None, None)


LISTS = [
    ("", [2, 1]),
    ("?sort=asc", [1, 2]),
    ("?state=opened", [2]),
    ("?labels=red", [1]),
    ("?search=SECOND", [2]),
    ("?search=first&in=title", [1]),
    ("?search=first&in=description", []),
    ("?iids[]=1&iids[]=3", [1]),
    ("?author_id=999", []),
    ("?scope=created_by_me&confidential=false", [2, 1]),
    ("?updated_after=2030-01-01T00:00:00Z", []),
]


@pytest.mark.parametrize(("query", "wanted"), LISTS)
def test_issues_are_listed_by_what_is_asked(
    sim: GitLabSim, scene: Scene, query: str, wanted: list[int]
) -> None:
    ask(sim, scene, "issues", "POST", json={"title": "First", "labels": "red"})
    ask(sim, scene, "issues", "POST", json={"title": "Second"})
    ask(sim, scene, "issues/1", "PUT", json={"state_event": "close"})
    assert [each["iid"] for each in ask(sim, scene, f"issues{query}").json()] == wanted


def test_a_confidential_issue_is_for_reporters_and_its_author(sim: GitLabSim, scene: Scene) -> None:
    ask(sim, scene, "issues", "POST", json={"title": "Hidden", "confidential": True})
    guest = sim.add_user("gus")
    sim.add_member(scene.project, guest, Access.GUEST)
    token = sim.add_token("guest", guest, "api")
    assert ask(sim, scene, "issues", token=token).json() == []
    assert ask(sim, scene, "issues/1", token=token).status_code == 404
    ask(sim, scene, "issues/1", "PUT", json={"confidential": False})
    assert ask(sim, scene, "issues/1", token=token).status_code == 200
    assert ask(sim, scene, "issues/1", "PUT", token, json={"title": "x"}).status_code == 403


def test_quick_actions_in_a_description_are_run(sim: GitLabSim, scene: Scene) -> None:
    text = "Red.\n\n/close\n\n```\n/merge\n```"
    made = ask(sim, scene, "issues", "POST", json={"title": "x", "description": text}).json()
    assert "/close" not in made["description"]
    assert "/merge" in made["description"]
    ask(sim, scene, "issues/1", "PUT", json={"description": "/assign @mara"})
    assert [(each.command, each.arguments) for each in sim.quick_actions] == [
        ("close", ""),
        ("assign", "@mara"),
    ]


STRANGE = [
    ("issues", "POST", {"description": "x"}),
    ("issues", "POST", {"title": "x", "assignee_ids": [1]}),
    ("issues", "POST", {"title": "x", "description": 1}),
    ("issues/1", "PUT", {}),
    ("issues/1", "PUT", {"state_event": "open"}),
    ("issues?in=notes", "GET", None),
    ("issues?assignee_id=1", "GET", None),
]


@pytest.mark.parametrize(("place", "method", "fields"), STRANGE)
def test_what_no_client_should_ask_is_refused(
    sim: GitLabSim, scene: Scene, place: str, method: str, fields: dict[str, Any] | None
) -> None:
    ask(sim, scene, "issues", "POST", json={"title": "x"})
    assert ask(sim, scene, place, method, json=fields).status_code == 400
    assert len(sim.unexpected_requests) == 1


def test_too_long_texts_are_refused(sim: GitLabSim, scene: Scene) -> None:
    for fields in ({"title": "x" * 256}, {"title": "x", "description": "x" * 1_048_577}):
        answer = ask(sim, scene, "issues", "POST", json=fields)
        assert answer.status_code == 400
        assert "is too long" in answer.text
    assert sim.issues.issues.get(scene.project.id, []) == []
