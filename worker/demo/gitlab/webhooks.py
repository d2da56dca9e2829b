"""The endpoints of webhooks: what a Maintainer may see and set, tests, and past deliveries.

See https://docs.gitlab.com/api/project_webhooks/. Secrets are never shown, only whether they exist.
"""

import time
from collections import deque
from typing import Any

from worker.demo.gitlab import hooks
from worker.demo.gitlab.hooks import Receiver
from worker.demo.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.demo.gitlab.state import Access, Project
from worker.demo.gitlab.webhook_state import Webhook, add_delivery

EVENTS = (
    *("push_events", "tag_push_events", "issues_events", "confidential_issues_events"),
    *("merge_requests_events", "note_events", "confidential_note_events", "job_events"),
    *("pipeline_events", "emoji_events", "wiki_page_events", "releases_events"),
)
TESTS_A_MINUTE = 5
FIELDS = frozenset({"url", "token", "signing_token", "enable_ssl_verification", *EVENTS})

Json = dict[str, Any]


def _show_hook(hook: Webhook) -> Json:
    return {
        "id": hook.id,
        "url": hook.url,
        "name": None,
        **{event: event in hook.events for event in EVENTS},
        "enable_ssl_verification": hook.ssl,
        "alert_status": hook.alert,
        "disabled_until": None,
        "url_variables": [],
        "token_present": bool(hook.token),
        "signing_token_present": bool(hook.signing_token),
        "created_at": "2026-11-01T08:00:00.000Z",
    }


def _find_hooks(call: Call) -> tuple[Project, list[Webhook]]:
    project = call.find_project(Access.MAINTAINER)
    return project, call.world.webhooks.by_project.setdefault(project.id, [])


def _find_hook(call: Call) -> tuple[Project, Webhook]:
    project, found = _find_hooks(call)
    number = call.get_number("hook")
    hook = next((each for each in found if each.id == number), None)
    return project, hook or refuse_not_found("Hook")


def get_version(call: Call) -> Answer:
    """Answer with GitLab's version."""
    return Answer(200, {"version": call.world.webhooks.version, "revision": "8b2f5c1"})


def list_hooks(call: Call) -> Answer:
    """List a project's webhooks."""
    return make_page(call, [_show_hook(hook) for hook in _find_hooks(call)[1]])


def list_group_hooks(call: Call) -> Answer:
    """List a group's webhooks. GitLab shows them to Owners only, this simulator to every user."""
    found = call.world.webhooks.by_group.get(call.params["id"])
    return (
        make_page(call, [_show_hook(hook) for hook in found])
        if found
        else refuse_not_found("Group")
    )


def create_hook(call: Call) -> Answer:
    """Create a webhook. GitLab's default is push events, unless they are disabled."""
    project, _ = _find_hooks(call)
    if not str(call.fields.get("url", "")).startswith(("http://", "https://")):
        raise Refused(422, {"error": "Invalid url given"})
    events = () if call.fields.get("push_events") is False else ("push_events",)
    hook = call.world.webhooks.add(project, call.fields["url"], *events)
    _set_fields(hook, call)
    return Answer(201, _show_hook(hook))


def edit_hook(call: Call) -> Answer:
    """Edit a webhook. `url` is required, and changing it removes the secrets."""
    _, hook = _find_hook(call)
    if "url" not in call.fields:
        refuse_strange(400, "url is missing")
    if call.fields["url"] != hook.url:
        hook.url, hook.token, hook.signing_token = call.fields["url"], "", ""
    _set_fields(hook, call)
    return Answer(200, _show_hook(hook))


def _set_fields(hook: Webhook, call: Call) -> None:
    for event in EVENTS:
        if event in call.fields:
            (hook.events.add if call.fields[event] else hook.events.discard)(event)
    hook.token = call.fields.get("token", hook.token)
    hook.signing_token = call.fields.get("signing_token", hook.signing_token)
    hook.ssl = call.fields.get("enable_ssl_verification", hook.ssl)


def send_test(call: Call) -> Answer:
    """Send a test delivery, at most five a minute for each project.

    If the receiver sends any HTTP answer, the result is 201.
    """
    project, hook = _find_hook(call)
    if call.params["trigger"] not in EVENTS:
        refuse_strange(400, "trigger does not have a valid value")
    before = call.world.webhooks.tests.setdefault(project.id, deque())
    while before and before[0] < time.monotonic() - 60:
        before.popleft()
    if len(before) >= TESTS_A_MINUTE:
        raise Refused(
            429, {"message": {"error": "This endpoint has been requested too many times"}}
        )
    before.append(time.monotonic())
    status, said = _deliver(call, project, hook)
    if not status:
        raise Refused(422, {"message": said})
    hook.alert = "executable" if status < 400 else hook.alert
    return Answer(201, {"message": "201 Created"})


def _deliver(call: Call, project: Project, hook: Webhook) -> tuple[int, str]:
    payload = {"object_kind": "push", "event_name": "push", "project_id": project.id}
    receiver = Receiver(hook.url, hook.token, hook.signing_token)
    event = hooks.make_delivery("Push Hook", call.world.url, payload, receiver)
    status, said = call.world.webhooks.post(hook.url, event)
    add_delivery(hook, str(status) if status else "internal error", "push_hooks")
    return status, said


def list_deliveries(call: Call) -> Answer:
    """List the past deliveries."""
    return make_page(call, _find_hook(call)[1].deliveries)


_HOOKS = "projects/:id/hooks"

ROUTES: tuple[Route, ...] = (
    Route("GET", "version", get_version),
    Route("GET", _HOOKS, list_hooks, PAGING),
    Route("GET", "groups/:id/hooks", list_group_hooks, PAGING),
    Route("POST", _HOOKS, create_hook, fields=FIELDS),
    Route("PUT", f"{_HOOKS}/:hook", edit_hook, fields=FIELDS),
    Route("POST", f"{_HOOKS}/:hook/test/:trigger", send_test),
    Route("GET", f"{_HOOKS}/:hook/events", list_deliveries, PAGING | {"status"}),
)
