"""The endpoints of webhooks: what a Maintainer may see and set, tests, and past deliveries.

Facts: wire-gitlab 1.3, 1.4 and 4. A secret is never shown, only whether there is one.
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
    not_found,
    paged,
    strange,
)
from worker.demo.gitlab.state import Access, Project
from worker.demo.gitlab.webhook_state import Webhook, delivered

EVENTS = (
    *("push_events", "tag_push_events", "issues_events", "confidential_issues_events"),
    *("merge_requests_events", "note_events", "confidential_note_events", "job_events"),
    *("pipeline_events", "emoji_events", "wiki_page_events", "releases_events"),
)
TESTS_A_MINUTE = 5
FIELDS = frozenset({"url", "token", "signing_token", "enable_ssl_verification", *EVENTS})

Json = dict[str, Any]


def _shown(hook: Webhook) -> Json:
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


def _of(call: Call) -> tuple[Project, list[Webhook]]:
    project = call.project(Access.MAINTAINER)
    return project, call.world.webhooks.of.setdefault(project.id, [])


def _one(call: Call) -> tuple[Project, Webhook]:
    project, found = _of(call)
    number = call.number("hook")
    hook = next((each for each in found if each.id == number), None)
    return project, hook or not_found("Hook")


def version(call: Call) -> Answer:
    """GitLab's own."""
    return Answer(200, {"version": call.world.webhooks.version, "revision": "8b2f5c1"})


def listed(call: Call) -> Answer:
    """A project's webhooks."""
    return paged(call, [_shown(hook) for hook in _of(call)[1]])


def of_group(call: Call) -> Answer:
    """A group's; only its Owner may see them, which the token's user is if it has any project."""
    found = call.world.webhooks.groups.get(call.params["id"])
    return paged(call, [_shown(hook) for hook in found]) if found else not_found("Group")


def created(call: Call) -> Answer:
    """A new webhook. GitLab's default is push events, unless they are refused."""
    project, _ = _of(call)
    if not str(call.fields.get("url", "")).startswith(("http://", "https://")):
        raise Refused(422, {"error": "Invalid url given"})
    events = () if call.fields.get("push_events") is False else ("push_events",)
    hook = call.world.webhooks.add(project, call.fields["url"], *events)
    _set(hook, call)
    return Answer(201, _shown(hook))


def edited(call: Call) -> Answer:
    """A change. `url` must be given, and a new one forgets the secrets."""
    _, hook = _one(call)
    if "url" not in call.fields:
        strange(400, "url is missing")
    if call.fields["url"] != hook.url:
        hook.url, hook.token, hook.signing_token = call.fields["url"], "", ""
    _set(hook, call)
    return Answer(200, _shown(hook))


def _set(hook: Webhook, call: Call) -> None:
    for event in EVENTS:
        if event in call.fields:
            (hook.events.add if call.fields[event] else hook.events.discard)(event)
    hook.token = call.fields.get("token", hook.token)
    hook.signing_token = call.fields.get("signing_token", hook.signing_token)
    hook.ssl = call.fields.get("enable_ssl_verification", hook.ssl)


def tested(call: Call) -> Answer:
    """A test delivery, five a minute for each project. Whatever HTTP answers is 201."""
    project, hook = _one(call)
    if call.params["trigger"] not in EVENTS:
        strange(400, "trigger does not have a valid value")
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
    event = hooks.delivery("Push Hook", call.world.url, payload, receiver)
    status, said = call.world.webhooks.post(hook.url, event)
    delivered(hook, str(status) if status else "internal error", "push_hooks")
    return status, said


def past(call: Call) -> Answer:
    """The deliveries of the last days."""
    return paged(call, _one(call)[1].deliveries)


_HOOKS = "projects/:id/hooks"

ROUTES: tuple[Route, ...] = (
    Route("GET", "version", version),
    Route("GET", _HOOKS, listed, PAGING),
    Route("GET", "groups/:id/hooks", of_group, PAGING),
    Route("POST", _HOOKS, created, fields=FIELDS),
    Route("PUT", f"{_HOOKS}/:hook", edited, fields=FIELDS),
    Route("POST", f"{_HOOKS}/:hook/test/:trigger", tested),
    Route("GET", f"{_HOOKS}/:hook/events", past, PAGING | {"status"}),
)
