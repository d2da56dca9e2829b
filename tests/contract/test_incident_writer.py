"""What the IncidentWriter does in GitLab, whatever GitLab and other workers do."""

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene
from tests.simulators.gitlab.issues import Issue
from tests.steps import Killed, Stepped, Steps
from worker.errors import ForgeError
from worker.gitlab.ports import IncidentWriter, IssueText
from worker.gitlab.write.api import SETTLE, WriteClient
from worker.gitlab.write.incident_writers import (
    KEPT_BACK,
    SAFE_TITLE,
    CheckedIncidentWriter,
    GitLabIncidents,
)
from worker.safety.markdown import Kind, Marker

MARKER = Marker("0123456789abcdef0123", kind=Kind.INCIDENT)
TEXT = IssueText(MARKER, "`main` is red", f"{MARKER.text()}\n\nIt is red.")
OVER = replace(TEXT, body=f"{MARKER.text()}\n\nIt is green again.", is_over=True)
SECRET = "glpat-" + "aB3dE6gH9jK2mN5pQ8sT"


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def writer(sim: GitLabSim, scene: Scene, waits: list[float]) -> GitLabIncidents:
    sim.add_member(scene.project, scene.bot, Access.DEVELOPER)
    return GitLabIncidents(WriteClient(sim.url, scene.write_token, (2.0, 2.0)), waits.append)


def count(sim: GitLabSim, method: str, path: str = "") -> int:
    return sum(seen.method == method and path in seen.path for seen in sim.requests)


def issues_of(sim: GitLabSim, scene: Scene) -> list[Issue]:
    return sim.issues.issues.get(scene.project.id, [])


def write_as(sim: GitLabSim, scene: Scene, token: str) -> WriteClient:
    who = {"developer": scene.developer, "bot": scene.bot}[token]
    return WriteClient(sim.url, sim.add_token(token, who, "api"), (2.0, 2.0))


# ------------------------------------------------------------------------------ jobs run again


def test_a_job_runs_again_once(writer: GitLabIncidents, sim: GitLabSim, scene: Scene) -> None:
    made = writer.retry_job(scene.project.id, scene.job.id)
    assert [each.id for each in sim.retried] == [made]
    assert made != scene.job.id
    again = writer.retry_job(scene.project.id, scene.job.id)
    assert isinstance(again, str)
    assert "not retryable" in again
    assert len(sim.retried) == 1


def test_what_the_bot_may_not_run_is_a_reason(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    sim.add_member(scene.project, scene.bot, Access.REPORTER)
    assert isinstance(writer.retry_job(scene.project.id, scene.job.id), str)
    assert isinstance(writer.retry_job(scene.project.id, 4711), str)
    sim.add_member(scene.project, scene.bot, Access.DEVELOPER)
    scene.project.archived = True
    assert isinstance(writer.retry_job(scene.project.id, scene.job.id), str)
    assert (sim.retried, count(sim, "POST")) == ([], 3)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("after", [False, True])
def test_a_lost_answer_is_never_followed_by_a_second_request(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, status: int, after: bool
) -> None:
    sim.fail_next("POST", "/retry$", status, after=after)
    with pytest.raises(ForgeError) as caught:
        writer.retry_job(scene.project.id, scene.job.id)
    assert caught.value.transient
    assert (count(sim, "POST"), len(sim.retried)) == (1, int(after))


def test_a_cut_answer_is_not_followed_by_a_second_request(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    sim.fail_next("POST", "/retry$", 201, drop=True)
    with pytest.raises(ForgeError):
        writer.retry_job(scene.project.id, scene.job.id)
    assert (count(sim, "POST"), len(sim.retried)) == (1, 1)


def test_a_refusal_for_its_rate_is_waited_for(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    sim.fail_next("POST", "/retry$", 429, headers={"Retry-After": "0"})
    assert isinstance(writer.retry_job(scene.project.id, scene.job.id), int)
    sim.fail_next("POST", "/retry$", 429, 9, headers={"Retry-After": "0"})
    with pytest.raises(ForgeError) as caught:
        writer.retry_job(scene.project.id, scene.job.id)
    assert (caught.value.status, len(sim.retried)) == (429, 1)


def test_a_revoked_token_is_no_answer(sim: GitLabSim, scene: Scene) -> None:
    writer = GitLabIncidents(WriteClient(sim.url, "revoked"))
    with pytest.raises(ForgeError, match="refuses the write token"):
        writer.retry_job(scene.project.id, scene.job.id)


# ------------------------------------------------------------------------------------ the issue


def test_one_issue_is_made_edited_closed_and_reopened(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT)
    (issue,) = issues_of(sim, scene)
    assert (issue.iid, issue.title, issue.description) == (iid, TEXT.title, TEXT.body)
    assert not issue.confidential
    changed = replace(TEXT, title="Another", body=f"{TEXT.body} Still.")
    assert writer.put_issue(scene.project.id, changed, iid) == iid
    assert (issue.title, issue.description) == (TEXT.title, changed.body)
    assert writer.put_issue(scene.project.id, OVER, iid) == iid
    assert (issue.state, issue.description) == ("closed", OVER.body)
    assert writer.put_issue(scene.project.id, TEXT, iid) == iid
    assert (issue.state, issue.description) == ("opened", TEXT.body)
    assert len(issues_of(sim, scene)) == 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("text", [TEXT, OVER])
def test_what_stands_there_is_not_written_again(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, known: bool, text: IssueText
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT)
    writer.put_issue(scene.project.id, text)
    before = count(sim, "POST"), count(sim, "PUT")
    assert writer.put_issue(scene.project.id, text, iid if known else 0) == iid
    assert (count(sim, "POST"), count(sim, "PUT")) == before


def test_nothing_is_made_for_what_is_over(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    assert writer.put_issue(scene.project.id, OVER) == 0
    assert issues_of(sim, scene) == []


def test_an_issue_of_somebody_else_with_the_marker_is_not_believed(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    other = GitLabIncidents(write_as(sim, scene, "developer"))
    theirs = other.put_issue(scene.project.id, TEXT)
    ours = writer.put_issue(scene.project.id, TEXT)
    assert ours != theirs
    writer.put_issue(scene.project.id, OVER, theirs)
    assert [each.state for each in issues_of(sim, scene)] == ["opened", "opened"]


def close_by_person(sim: GitLabSim, scene: Scene, iid: int) -> None:
    client = write_as(sim, scene, "developer")
    client.put(f"/projects/{scene.project.id}/issues/{iid}", "it", {"state_event": "close"})


@pytest.mark.parametrize(("began_at", "state"), [(0.0, "closed"), (4e9, "opened")])
def test_what_a_person_has_closed_stays_closed_until_new_trouble_comes(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, began_at: float, state: str
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT)
    close_by_person(sim, scene, iid)
    news = replace(TEXT, body=f"{TEXT.body} More.", began_at=began_at)
    writer.put_issue(scene.project.id, news, iid)
    (issue,) = issues_of(sim, scene)
    assert (issue.state, issue.description) == (state, news.body)


@pytest.mark.parametrize("how", ["marker", "moved", "gone"])
def test_what_a_person_has_taken_over_is_left_alone(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, how: str
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT)
    (issue,) = issues_of(sim, scene)
    if how == "marker":
        issue.description = "Now it is mine."
    elif how == "moved":
        issue.moved_to_id, issue.state = 99, "closed"
    else:
        issues_of(sim, scene).clear()
    before = count(sim, "POST"), count(sim, "PUT")
    assert writer.put_issue(scene.project.id, OVER, iid) == iid
    assert writer.put_issue(scene.project.id, TEXT, iid) == iid
    assert (count(sim, "POST"), count(sim, "PUT")) == before


def test_a_confidential_one_is_so_from_the_beginning_and_never_opened_again(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    hidden = replace(TEXT, is_confidential=True)
    iid = writer.put_issue(scene.project.id, hidden)
    (issue,) = issues_of(sim, scene)
    assert issue.confidential
    writer.put_issue(scene.project.id, TEXT, iid)
    assert issue.confidential
    issue.confidential = False  # the project's logs are for members only since
    writer.put_issue(scene.project.id, replace(hidden, body=f"{TEXT.body} New."), iid)
    assert issue.confidential
    puts = [seen for seen in sim.requests if seen.method == "PUT"]
    assert len(puts) == 2  # first it is hidden, then it says more


# ------------------------------------------------------------------- lost answers, other workers


@pytest.mark.parametrize("status", [500, 502, 504])
@pytest.mark.parametrize("after", [False, True])
def test_a_lost_answer_makes_no_second_issue(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, status: int, after: bool
) -> None:
    sim.fail_next("POST", "/issues$", status, after=after)
    iid = writer.put_issue(scene.project.id, TEXT)
    assert [each.iid for each in issues_of(sim, scene)] == [iid]


def test_an_issue_that_is_made_late_is_found(sim: GitLabSim, scene: Scene) -> None:
    waits: list[float] = []

    def settle(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            while not issues_of(sim, scene):
                threading.Event().wait(0.01)

    writer = GitLabIncidents(WriteClient(sim.url, scene.write_token, (2.0, 2.0)), settle)
    sim.carry_out_late("POST", "/issues$", 0.2)
    writer.put_issue(scene.project.id, TEXT)
    assert (waits, len(issues_of(sim, scene))) == (list(SETTLE[:2]), 1)


def open_marked(sim: GitLabSim, scene: Scene) -> list[int]:
    found = issues_of(sim, scene)
    return [
        each.iid for each in found if each.state == "opened" and "sandpiper" in each.description
    ]


def test_a_copy_that_came_still_later_is_closed_at_the_end(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT)
    fields = {"title": TEXT.title, "description": TEXT.body}
    write_as(sim, scene, "bot").post(f"/projects/{scene.project.id}/issues", "a copy", fields)
    assert len(open_marked(sim, scene)) == 2
    assert writer.put_issue(scene.project.id, TEXT) == iid
    writer.put_issue(scene.project.id, OVER, iid)
    assert [each.state for each in issues_of(sim, scene)] == ["closed", "closed"]
    writer.put_issue(scene.project.id, TEXT, iid)
    assert open_marked(sim, scene) == [iid]


def test_workers_at_the_same_time_leave_one_open_issue(sim: GitLabSim, scene: Scene) -> None:
    given: list[int] = []
    together = threading.Barrier(4)

    def write() -> None:
        writer = GitLabIncidents(WriteClient(sim.url, scene.write_token, (5.0, 5.0)))
        together.wait()
        given.append(writer.put_issue(scene.project.id, TEXT))

    workers = [threading.Thread(target=write) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(given) == 4
    assert open_marked(sim, scene) == [1]
    assert set(given) == {1}


@pytest.mark.parametrize("step", range(14))
@pytest.mark.parametrize("text", [TEXT, OVER])
def test_a_worker_that_dies_between_two_requests_leaves_one_open_issue(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, step: int, text: IssueText
) -> None:
    iid = writer.put_issue(scene.project.id, TEXT) if text.is_over else 0
    if text.is_over:
        fields = {"title": TEXT.title, "description": TEXT.body}
        write_as(sim, scene, "bot").post(f"/projects/{scene.project.id}/issues", "a copy", fields)
    client: Any = Stepped(WriteClient(sim.url, scene.write_token, (2.0, 2.0)), Steps(step))
    with suppress(Killed):
        GitLabIncidents(client).put_issue(scene.project.id, text, iid)
    writer.put_issue(scene.project.id, text, iid)
    assert open_marked(sim, scene) == ([] if text.is_over else [1])
    assert len(issues_of(sim, scene)) == (2 if text.is_over else 1)


# ------------------------------------------------------------------------------- the last check


@pytest.fixture
def checked(writer: GitLabIncidents, sim: GitLabSim) -> IncidentWriter:
    return CheckedIncidentWriter(writer, frozenset(), lambda text: text.replace(SECRET, "[MASKED]"))


HOSTILE = [
    "/close",
    "Well.\n/assign @mara",
    "Ask @mara and @all.",
    "See [this](https://evil.example/x).",
    "![](https://evil.example/x.png)",
    "<img src=https://evil.example>",
    "See #1, !2 and https://evil.example.",
    f"The token is {SECRET}.",
    "<!-- hidden -->",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("later", [False, True])
def test_no_text_has_an_effect(
    checked: IncidentWriter, sim: GitLabSim, scene: Scene, text: str, later: bool
) -> None:
    wanted = replace(TEXT, title=text, body=f"{MARKER.text()}\n\n{text}\n\nThe rest.")
    iid = checked.put_issue(scene.project.id, TEXT if later else wanted)
    checked.put_issue(scene.project.id, wanted, iid)
    (issue,) = issues_of(sim, scene)
    assert sim.quick_actions == []
    assert issue.title == (TEXT.title if later else SAFE_TITLE)
    assert SECRET not in issue.description
    assert issue.description != wanted.body
    assert "The rest." in issue.description or KEPT_BACK in issue.description


def test_a_link_into_the_project_is_allowed(
    checked: IncidentWriter, sim: GitLabSim, scene: Scene
) -> None:
    body = f"{MARKER.text()}\n\nSee [pipeline 1]({scene.project.web_url}/-/pipelines/1)."
    checked.put_issue(scene.project.id, replace(TEXT, body=body, page=scene.project.web_url))
    assert issues_of(sim, scene)[0].description == body


def test_a_text_that_stands_as_it_was_checked_is_not_written_again(
    checked: IncidentWriter, sim: GitLabSim, scene: Scene
) -> None:
    wanted = replace(TEXT, body=f"{MARKER.text()}\n\nAsk @mara.")
    iid = checked.put_issue(scene.project.id, wanted)
    checked.put_issue(scene.project.id, wanted, iid)
    assert count(sim, "PUT") == 0


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_what_gitlab_refuses_is_a_forge_error(
    writer: GitLabIncidents, sim: GitLabSim, scene: Scene, status: int
) -> None:
    writer.put_issue(scene.project.id, TEXT)
    with (
        sim.fail_all(status, {"Retry-After": "0"}),
        pytest.raises(ForgeError),
    ):
        writer.put_issue(scene.project.id, OVER, 1)
