"""What the door makes of the pipelines of watched branches, and of what resembles them."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import pytest

from tests.accepting import one_by_one
from tests.simulators.gitlab import GitLabSim, make_failing_merge_request
from tests.unit.webhook.cases import (
    CASES,
    ENDED,
    NOT_WATCHED,
    PROJECTS,
    SHA,
    headers,
    payload,
)
from tests.unit.webhook.test_ci import Asked
from tests.unit.webhook.test_http import SECRET, TOKEN, send
from worker.conversation.triggers import (
    BranchEnded,
    PipelineFailed,
    PipelinePassed,
    Trigger,
    from_message,
    to_message,
    trigger_id,
)
from worker.errors import QueueError
from worker.settings.gitlab import derive_secret, make_address
from worker.webhook import events
from worker.webhook.http import PATH, build_app
from worker.webhook.routing import Ignored, route_event

FAILED, SYSTEM = "pipeline__default_branch_failed", "system__pipeline"
DEFAULT, RELEASES, NONE = ("default",), ("default", "release/*", "next"), ()
ENDED_ON_MAIN = BranchEnded(233, 881204, SHA, "main", ENDED)
CHILD = "a child pipeline is reported with its parent"
STARTED = "the pipeline was started by {}, not by a change"
TAG_JOB = "the pipeline runs for a tag, not for a merge request"
TAG = "the pipeline ran for a tag, not for a merge request"
REQUEST = {"iid": 418, "target_project_id": 233, "state": "opened"}


def body(name: str = FAILED, **changes: Any) -> bytes:
    """A pipeline's event on the default branch, with some fields changed."""
    event = json.loads(payload(name))
    for key, value in changes.items():
        if key in ("merge_request", "object_kind"):
            event[key] = value
        elif key in ("default_branch", "path_with_namespace", "project_id"):
            event["project"]["id" if key == "project_id" else key] = value
        else:
            event["object_attributes"][key] = value
    return json.dumps(event).encode()


def route(
    changes: dict[str, Any], branches: tuple[str, ...], name: str = FAILED
) -> tuple[Trigger, ...] | str:
    event = events.parse_event(headers(name), body(name, **changes))
    found = route_event(event, headers(name)["x-gitlab-event"], PROJECTS, branches)
    return found.reason if isinstance(found, Ignored) else found


def say(found: tuple[Trigger, ...] | str) -> str:
    """The kinds of the triggers, or the reason why there is none."""
    return found if isinstance(found, str) else " ".join(each.kind for each in found)


ROWS: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
    # The default branch, whatever it is called, and however its pipeline was started.
    (DEFAULT, {}, "branch"),
    (DEFAULT, {"status": "success"}, "branch"),
    (DEFAULT, {"status": "manual", "finished_at": None}, "branch"),
    (DEFAULT, {"ref": "trunk", "default_branch": "trunk"}, "branch"),
    (DEFAULT, {"ref": "release/2", "default_branch": "release/2"}, "branch"),
    *((DEFAULT, {"source": each}, "branch") for each in ("schedule", "web", "api", "chat")),
    *((DEFAULT, {"source": each}, "branch") for each in ("trigger", "pipeline", "external")),
    (DEFAULT, {"source": None}, "branch"),
    (DEFAULT, {"source": "schedule", "status": "success"}, "branch"),
    # What is not over, or tells nothing of a job that failed.
    *(
        (DEFAULT, {"status": each, "finished_at": None}, f"the pipeline is {each}, not failed")
        for each in (
            *("created", "waiting_for_resource", "preparing", "pending", "running", "canceled"),
            *("canceling", "skipped", "scheduled", "waiting_for_callback"),
        )
    ),
    # What is no branch's.
    (DEFAULT, {"tag": True}, TAG),
    (RELEASES, {"tag": True, "ref": "next"}, TAG),
    (DEFAULT, {"source": "parent_pipeline"}, CHILD),
    (DEFAULT, {"source": "parent_pipeline", "status": "success"}, CHILD),
    *(
        (DEFAULT, {"source": each}, NOT_WATCHED)
        for each in (
            *("merge_request_event", "external_pull_request_event", "webide", "duo_workflow"),
            *("ondemand_dast_scan", "ondemand_dast_validation", "container_registry_push"),
            *("security_orchestration_policy", "pipeline_execution_policy_schedule"),
        )
    ),
    # A merge request's pipeline has its source branch's name.
    (DEFAULT, {"merge_request": REQUEST}, "pipeline"),
    (DEFAULT, {"merge_request": REQUEST, "source": "merge_request_event"}, "pipeline"),
    (DEFAULT, {"merge_request": REQUEST, "status": "success"}, "passed"),
    (RELEASES, {"merge_request": REQUEST, "ref": "next"}, "pipeline"),
    (
        DEFAULT,
        {"merge_request": {**REQUEST, "state": "merged"}},
        "the merge request is merged",
    ),
    # Other branches are as ever.
    (DEFAULT, {"ref": "fix"}, "pipeline"),
    (DEFAULT, {"ref": "fix", "status": "success"}, "passed"),
    (DEFAULT, {"ref": "fix", "status": "manual"}, "the pipeline is manual, not failed"),
    (
        DEFAULT,
        {"ref": "fix", "source": "schedule"},
        STARTED.format("schedule"),
    ),
    (DEFAULT, {"ref": "default"}, "pipeline"),
    (DEFAULT, {"ref": "Main"}, "pipeline"),
    (DEFAULT, {"ref": "main2"}, "pipeline"),
    (DEFAULT, {"ref": "user/main"}, "pipeline"),
    # A named branch may have a merge request of its own, into the default branch.
    (RELEASES, {}, "branch"),
    (RELEASES, {"ref": "release/2.1"}, "branch pipeline"),
    (RELEASES, {"ref": "release/2.1", "status": "success"}, "branch passed"),
    (RELEASES, {"ref": "release/2/hot"}, "branch pipeline"),
    (RELEASES, {"ref": "next", "source": "schedule"}, "branch"),
    (RELEASES, {"ref": "next", "source": "web"}, "branch pipeline"),
    (RELEASES, {"ref": "next", "status": "manual"}, "branch"),
    (RELEASES, {"ref": "next", "source": "parent_pipeline"}, CHILD),
    (RELEASES, {"ref": "next2"}, "pipeline"),
    (RELEASES, {"ref": "release"}, "pipeline"),
    (RELEASES, {"ref": "pre-release/2"}, "pipeline"),
    # The default branch among the watched ones by its name or a glob alone.
    (("main",), {}, "branch"),
    (("ma*",), {}, "branch"),
    (("*",), {"ref": "fix"}, "branch pipeline"),
    (("release/*",), {}, NOT_WATCHED),
    (("MAIN",), {}, NOT_WATCHED),
    (("default",), {"ref": "default", "default_branch": "default"}, "branch"),
    # Where the event does not say which one is the default branch, the worker asks.
    (DEFAULT, {"default_branch": None}, "branch pipeline"),
    (DEFAULT, {"default_branch": ""}, "branch pipeline"),
    (DEFAULT, {"default_branch": None, "status": "success"}, "branch passed"),
    (DEFAULT, {"default_branch": None, "source": "schedule"}, "branch"),
    (("next",), {"default_branch": None}, "pipeline"),
    # Projects that are not served, a fork of one that is among them.
    *(
        (
            branches,
            {"path_with_namespace": "me/certs", "project_id": 977, **more},
            "the project me/certs is not in the configured list (gitlab.projects)",
        )
        for branches, more in ((("main",), {"ref": "main"}), (RELEASES, {"ref": "next"}))
    ),
    # Nothing is watched.
    (NONE, {}, NOT_WATCHED),
    (NONE, {"status": "success"}, NOT_WATCHED),
    (NONE, {"status": "manual"}, "the pipeline is manual, not failed"),
    (NONE, {"source": "schedule"}, NOT_WATCHED),
    (NONE, {"default_branch": None}, "pipeline"),
    (NONE, {"ref": "next"}, "pipeline"),
    (NONE, {"default_branch": None, "source": "chat"}, STARTED.format("chat")),
]


@pytest.mark.parametrize(("branches", "changes", "expected"), ROWS)
def test_a_pipeline_is_its_branchs_its_merge_requests_both_or_nobodys(
    branches: tuple[str, ...], changes: dict[str, Any], expected: str
) -> None:
    assert say(route(changes, branches)) == expected


def test_a_system_hook_says_the_same() -> None:
    for changes in ({}, {"status": "success"}, {"ref": "next"}, {"merge_request": REQUEST}):
        of_main = {"ref": "main", "source": "push", "merge_request": None} | changes
        assert route(of_main, RELEASES, SYSTEM) == route(changes, RELEASES)
        assert say(route(of_main, RELEASES, SYSTEM)) != ""


def test_the_triggers_carry_the_events_ids_and_no_more() -> None:
    assert route({}, DEFAULT) == (ENDED_ON_MAIN,)
    assert route({"status": "success"}, DEFAULT) == (ENDED_ON_MAIN,)
    assert route({"finished_at": None, "status": "manual"}, DEFAULT) == (
        replace(ENDED_ON_MAIN, finished_at=0),
    )
    assert route({"ref": "next"}, RELEASES) == (
        replace(ENDED_ON_MAIN, ref="next"),
        PipelineFailed(233, 881204, SHA, "next", finished_at=ENDED),
    )
    assert route({"ref": "next", "status": "success"}, RELEASES) == (
        replace(ENDED_ON_MAIN, ref="next"),
        PipelinePassed(233, 881204, SHA, "next", finished_at=ENDED),
    )


@pytest.mark.parametrize("name", [name for name in CASES if "pipeline" in name])
def test_without_watched_branches_every_event_is_as_ever(name: str) -> None:
    event = events.parse_event(headers(name), payload(name))
    found = route_event(event, headers(name)["x-gitlab-event"], PROJECTS, ())
    expected = CASES[name]
    assert found == (Ignored(expected) if isinstance(expected, str) else (expected,))


@pytest.mark.parametrize("name", [name for name in CASES if "pipeline" in name])
def test_watching_branches_takes_no_merge_requests_trigger_away(name: str) -> None:
    event = events.parse_event(headers(name), payload(name))
    for branches in (DEFAULT, RELEASES, ("*",)):
        found = route_event(event, headers(name)["x-gitlab-event"], PROJECTS, branches)
        expected = CASES[name]
        kept = () if isinstance(found, Ignored) else found
        kept = tuple(each for each in kept if not isinstance(each, BranchEnded))
        assert kept == (() if isinstance(expected, str) else (expected,))


# --------------------------------------------------------------------- the trigger and its message


def test_a_branchs_trigger_is_read_as_it_was_written() -> None:
    for trigger in (ENDED_ON_MAIN, replace(ENDED_ON_MAIN, finished_at=0)):
        assert from_message(json.loads(json.dumps(to_message(trigger)))) == trigger
    assert to_message(replace(ENDED_ON_MAIN, finished_at=0)) == {
        "project_id": 233,
        "pipeline_id": 881204,
        "sha": SHA,
        "ref": "main",
        "kind": "branch",
    }
    # An entry of the journal is found by it, also by later versions.
    assert trigger_id(BranchEnded(233, 881204, "5d9b3c1f", "main")) == "f411fb55896520eb"


def test_each_end_of_a_pipeline_is_a_trigger_of_its_own() -> None:
    again = replace(ENDED_ON_MAIN, finished_at=ENDED + 60)
    of_request = PipelineFailed(233, 881204, SHA, "main", finished_at=ENDED)
    assert len({trigger_id(each) for each in (ENDED_ON_MAIN, again, of_request)}) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(("project_id", "pipeline_id", "finished_at"), ("7", -1, 1.5, True, 2**63, None)),
        *product(("sha", "ref"), (7, None, "nul\0", "\ud800", "x" * 4097)),
        ("mr_iid", 4),
        ("by_job", True),
        ("kind", "branches"),
        ("kind", ["branch"]),
    ],
)
def test_a_forged_message_is_no_trigger(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a trigger"):
        from_message(to_message(ENDED_ON_MAIN) | {name: value})


# --------------------------------------------------------------------------------------- the door


class Door:
    """A door that watches branches, and what it has queued."""

    def __init__(self, branches: tuple[str, ...] = RELEASES, keys: tuple[str, ...] = ()) -> None:
        self.queue: list[Trigger] = []
        self.refused: type[Trigger] | None = None
        self.app = build_app(
            *(SECRET, one_by_one(self.take), PROJECTS, lambda: 0.0, lambda: None),
            branches=branches,
            keys=keys,
        )

    def take(self, trigger: Trigger) -> None:
        if self.refused and isinstance(trigger, self.refused):
            raise QueueError("down", transient=True)
        self.queue.append(trigger)

    def __call__(self, **changes: Any) -> httpx.Response:
        return send(self.app, headers=TOKEN | headers(FAILED), content=body(**changes))


def test_both_triggers_of_one_delivery_are_queued_and_named() -> None:
    door = Door()
    assert door().json() == {"trigger": trigger_id(ENDED_ON_MAIN)}
    both = door(ref="next")
    assert both.status_code == 202
    assert both.json() == {"trigger": ", ".join(trigger_id(each) for each in door.queue[1:])}
    assert [each.kind for each in door.queue] == ["branch", "branch", "pipeline"]


@pytest.mark.parametrize("refused", [BranchEnded, PipelineFailed])
def test_a_delivery_of_which_one_trigger_was_not_queued_is_sent_again(
    refused: type[Trigger],
) -> None:
    door = Door()
    door.refused = refused
    assert door(ref="next").status_code == 503
    door.refused = None
    assert door(ref="next").status_code == 202
    assert {each.kind for each in door.queue} == {"branch", "pipeline"}


def test_a_doubled_delivery_is_the_same_trigger() -> None:
    door = Door()
    answers = {door().text for _ in range(5)}
    assert len(answers) == len(set(door.queue)) == 1


@pytest.mark.attack("door")
def test_a_projects_secret_ends_no_branch_of_another_project(record_property: Any) -> None:
    key, tried = "a-key-of-thirty-two-characters-00", 0
    door = Door(("*",), (key,))
    for project, address in product((1, 977, 4711), (233, 1, 977)):
        sent = headers(FAILED) | {"x-gitlab-token": derive_secret(key, project)}
        for changes in ({}, {"ref": "next"}, {"project_id": 234, "status": "success"}):
            where = make_address(PATH, address)
            assert send(door.app, path=where, headers=sent, content=body(**changes)).is_error
            tried += 1
    assert door.queue == []
    record_property("tried", tried)


# -------------------------------------------------------------------------- a job that asks by OIDC


@pytest.fixture(scope="module")
def sim() -> Any:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []


CLAIMS: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (NONE, {}, "pipeline"),
    (NONE, {"ref": "main"}, "pipeline"),
    (NONE, {"pipeline_source": "schedule"}, STARTED.format("schedule")),
    (("next",), {"ref": "next", "pipeline_source": "push"}, "branch pipeline"),
    (("next",), {"ref": "next", "pipeline_source": "schedule"}, "branch"),
    (("next",), {"ref": "main", "pipeline_source": "push"}, "pipeline"),
    (("next",), {"ref": "next", "pipeline_source": "merge_request_event"}, "pipeline"),
    (("next",), {"ref": "next", "pipeline_source": "parent_pipeline"}, CHILD),
    (("next",), {"ref": "next", "ref_type": "tag"}, TAG_JOB),
    # The claims don't say which branch is the default one: the worker asks.
    (DEFAULT, {"ref": "main", "pipeline_source": "push"}, "branch pipeline"),
    (DEFAULT, {"ref": "main", "pipeline_source": "web"}, "branch pipeline"),
    (DEFAULT, {"ref": "main", "pipeline_source": "chat"}, "branch"),
    (DEFAULT, {"ref": "fix", "pipeline_source": "merge_request_event"}, "pipeline"),
    (
        DEFAULT,
        {"ref": "main", "pipeline_source": "ondemand_dast_scan"},
        STARTED.format("ondemand_dast_scan"),
    ),
]


@pytest.mark.parametrize(("branches", "claims", "expected"), CLAIMS)
def test_a_job_of_a_watched_branchs_pipeline_may_ask(
    sim: GitLabSim, branches: tuple[str, ...], claims: dict[str, str], expected: str
) -> None:
    scene = make_failing_merge_request(sim, path=f"team/{sim.make_id('project')}")
    ask = Asked(sim, branches=branches)
    answer = ask(sim.make_id_token(scene.pipeline, **claims)).json()
    assert answer.get("ignored", " ".join(each.kind for each in ask.queue)) == expected
    for each in ask.queue:
        assert isinstance(each, BranchEnded | PipelineFailed)
        assert (each.pipeline_id, each.finished_at) == (scene.pipeline.id, 0)
        assert isinstance(each, BranchEnded) or each.by_job


def test_a_branchs_job_of_a_project_that_is_not_served_is_ignored(sim: GitLabSim) -> None:
    scene = make_failing_merge_request(sim, path="team/unserved")
    ask = Asked(sim, ("other/*",), branches=("*",))
    assert "gitlab.projects" in ask(sim.make_id_token(scene.pipeline)).json()["ignored"]
    assert ask.queue == []
