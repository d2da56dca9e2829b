"""The state of the simulated GitLab's webhooks."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from worker.lab.gitlab.state import Project
from worker.lab.gitlab.views import Event

Json = dict[str, Any]
Post = Callable[[str, Event], tuple[int, str]]


@dataclass(slots=True)
class Webhook:
    """A project's or group's webhook, as GitLab keeps it."""

    id: int
    url: str
    events: set[str] = field(default_factory=set)
    token: str = ""
    signing_token: str = ""
    ssl: bool = True
    alert: str = "executable"
    deliveries: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class Webhooks:
    """All webhooks. `post` delivers an event; returns the status, or 0 and why nobody answers."""

    by_project: dict[int, list[Webhook]] = field(default_factory=dict)
    by_group: dict[str, list[Webhook]] = field(default_factory=dict)
    tests: dict[int, deque[float]] = field(default_factory=dict)
    version: str = "19.1.0-ee"
    count: int = 0
    post: Post = lambda url, event: (0, "Failed to open TCP connection")

    def add(self, project: Project, url: str, *events: str, **more: Any) -> Webhook:
        """Add a webhook to a project, as if it was made by hand."""
        self.count += 1
        webhook = Webhook(self.count, url, set(events), **more)
        self.by_project.setdefault(project.id, []).append(webhook)
        return webhook

    def add_to_group(self, group: str, url: str, *events: str) -> Webhook:
        """Add a webhook to a group (Premium)."""
        self.count += 1
        webhook = Webhook(self.count, url, set(events), "a-token-of-the-group")
        self.by_group.setdefault(group, []).append(webhook)
        return webhook


def add_delivery(hook: Webhook, status: str, trigger: str = "pipeline_hooks") -> None:
    """Record a past delivery; the newest comes first, as GitLab lists them."""
    hook.deliveries.insert(
        0,
        {
            "id": len(hook.deliveries) + 1,
            "url": hook.url,
            "trigger": trigger,
            "request_headers": {"X-Gitlab-Token": "[REDACTED]"},
            "response_status": status,
            "execution_duration": 0.1,
        },
    )
