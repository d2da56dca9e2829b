"""The endpoints of webhooks: what a Maintainer may see and set, tests, and past deliveries.

See https://docs.gitlab.com/api/project_webhooks/. Secrets are never shown, only whether they exist.
"""

import time
from collections import deque
from typing import Any, Protocol

from tests.simulators.gitlab.webhook_state import Webhook, Webhooks, add_delivery
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
from worker.lab.gitlab.state import Access, Project
from worker.lab.gitlab.views import Receiver, make_delivery

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
        **{event: event in hook.events for event in EVENTS},
        "enable_ssl_verification": hook.ssl,
        "alert_status": hook.alert,
        "token_present": bool(hook.token),
        "signing_token_present": bool(hook.signing_token),
    }


class Holder(Protocol):
    """The simulator, whose webhooks are looked at with each request."""

    webhooks: Webhooks


class Endpoints:
    """The endpoints of one simulator."""

    def __init__(self, sim: Holder) -> None:
        self._sim = sim

    def list_routes(self) -> tuple[Route, ...]:
        """List the routes."""
        hooks = "projects/:id/hooks"
        return (
            Route("GET", "version", self.get_version),
            Route("GET", hooks, self.list_hooks, PAGING),
            Route("GET", "groups/:id/hooks", self.list_group_hooks, PAGING),
            Route("POST", hooks, self.create_hook, fields=FIELDS),
            Route("PUT", f"{hooks}/:hook", self.edit_hook, fields=FIELDS),
            Route("POST", f"{hooks}/:hook/test/:trigger", self.send_test),
            Route("GET", f"{hooks}/:hook/events", self.list_deliveries, PAGING | {"status"}),
        )

    def get_version(self, call: Call) -> Answer:
        """Answer with GitLab's version."""
        return Answer(200, {"version": self._sim.webhooks.version, "revision": "8b2f5c1"})

    def list_hooks(self, call: Call) -> Answer:
        """List a project's webhooks."""
        return make_page(call, [_show_hook(hook) for hook in self._find_hooks(call)[1]])

    def list_group_hooks(self, call: Call) -> Answer:
        """List a group's webhooks. GitLab shows them to Owners, this simulator to every user."""
        found = self._sim.webhooks.by_group.get(call.params["id"])
        return (
            make_page(call, [_show_hook(hook) for hook in found])
            if found
            else refuse_not_found("Group")
        )

    def create_hook(self, call: Call) -> Answer:
        """Create a webhook. GitLab's default is push events, unless they are disabled."""
        project, _ = self._find_hooks(call)
        if not str(call.fields.get("url", "")).startswith(("http://", "https://")):
            raise Refused(422, {"error": "Invalid url given"})
        events = () if call.fields.get("push_events") is False else ("push_events",)
        hook = self._sim.webhooks.add(project, call.fields["url"], *events)
        _set_fields(hook, call)
        return Answer(201, _show_hook(hook))

    def edit_hook(self, call: Call) -> Answer:
        """Edit a webhook. `url` is required, and changing it removes the secrets."""
        _, hook = self._find_hook(call)
        if "url" not in call.fields:
            refuse_strange(400, "url is missing")
        if call.fields["url"] != hook.url:
            hook.url, hook.token, hook.signing_token = call.fields["url"], "", ""
        _set_fields(hook, call)
        return Answer(200, _show_hook(hook))

    def send_test(self, call: Call) -> Answer:
        """Send a test delivery, at most five a minute for each project.

        If the receiver sends any HTTP answer, the result is 201.
        """
        project, hook = self._find_hook(call)
        if call.params["trigger"] not in EVENTS:
            refuse_strange(400, "trigger does not have a valid value")
        self._count_test(project)
        status, said = self._deliver(call, project, hook)
        if not status:
            raise Refused(422, {"message": said})
        hook.alert = "executable" if status < 400 else hook.alert
        return Answer(201, {"message": "201 Created"})

    def list_deliveries(self, call: Call) -> Answer:
        """List the past deliveries."""
        return make_page(call, self._find_hook(call)[1].deliveries)

    def _find_hooks(self, call: Call) -> tuple[Project, list[Webhook]]:
        project = call.find_project(Access.MAINTAINER)
        return project, self._sim.webhooks.by_project.setdefault(project.id, [])

    def _find_hook(self, call: Call) -> tuple[Project, Webhook]:
        project, found = self._find_hooks(call)
        number = call.get_number("hook")
        hook = next((each for each in found if each.id == number), None)
        return project, hook or refuse_not_found("Hook")

    def _count_test(self, project: Project) -> None:
        before = self._sim.webhooks.tests.setdefault(project.id, deque())
        while before and before[0] < time.monotonic() - 60:
            before.popleft()
        if len(before) >= TESTS_A_MINUTE:
            raise Refused(
                429, {"message": {"error": "This endpoint has been requested too many times"}}
            )
        before.append(time.monotonic())

    def _deliver(self, call: Call, project: Project, hook: Webhook) -> tuple[int, str]:
        payload = {"object_kind": "push", "event_name": "push", "project_id": project.id}
        receiver = Receiver(hook.url, hook.token)
        event = make_delivery("Push Hook", call.world.url, payload, receiver)
        status, said = self._sim.webhooks.post(hook.url, event)
        add_delivery(hook, str(status) if status else "internal error", "push_hooks")
        return status, said


def _set_fields(hook: Webhook, call: Call) -> None:
    for event in EVENTS:
        if event in call.fields:
            (hook.events.add if call.fields[event] else hook.events.discard)(event)
    hook.token = call.fields.get("token", hook.token)
    hook.signing_token = call.fields.get("signing_token", hook.signing_token)
    hook.ssl = call.fields.get("enable_ssl_verification", hook.ssl)
