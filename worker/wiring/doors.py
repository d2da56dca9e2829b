"""What takes requests: the webhook receiver, and the pages of what is stored."""

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

from starlette.applications import Starlette

from worker.core.conversation.limits import Limits
from worker.core.ports import SessionStore
from worker.core.triggers import Trigger
from worker.maintenance import missed_pipelines
from worker.pages.parts import Kept, Published
from worker.queue.journal import Journal
from worker.queue.leases import Leases
from worker.sessions.store import Store
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.webhook import http
from worker.webhook.tokens import GitLabKeys, TokenReader
from worker.wiring.clock import SystemClock
from worker.wiring.stores import store

_log = logging.getLogger("sandpiper.pages")

MOST_READ = 200
"""Entries of the journal that the operators' page looks through."""


def door(
    settings: Settings,
    enqueue: Callable[[Trigger], None],
    ready: Callable[[], str | None] = lambda: None,
    watched: Telemetry | None = None,
) -> Starlette:
    """The webhook receiver. Raises ConfigError without a secret."""
    gitlab = settings.gitlab
    if why := settings.pages.why_unsafe(gitlab.webhook_secret):
        _log.warning(
            "%s: set SANDPIPER_PAGE_SECRET to the output of `openssl rand -hex 32`, the same for "
            "serve and for the workers",
            why,
        )
    issuer = gitlab.ci_issuer or gitlab.url
    tokens = TokenReader(GitLabKeys(gitlab.url), issuer, gitlab.ci_audience, time.time)
    built = http.build(
        *(gitlab.webhook_secret, enqueue, gitlab.projects, time.time, ready),
        tokens=tokens,
        told=watched.webhook if watched else lambda kind, outcome: None,
        page=watched.metrics.page if watched and settings.metrics.enabled else None,
    )
    pages = published(settings).routes(
        partial(store, settings), Limits(**settings.limits.of_a_run()), _parked
    )
    built.router.routes.extend(pages)
    return built


def journal(settings: Settings, watched: Telemetry | None = None) -> Journal:
    """Where the door writes what it accepts. Raises ConfigError or StoreError."""
    kept = store(settings)
    return _journal(Store(watched.objects(kept.records)) if watched else kept)


def _journal(kept: SessionStore) -> Journal:
    """The journal, for a process that holds no leases."""
    clock = SystemClock()
    return Journal(kept.records, Leases(kept, clock, "door"), clock)


def _parked(kept: Kept) -> Iterator[str]:
    """What was given up, of the first triggers in the journal."""
    return missed_pipelines.list_parked(_journal(kept), MOST_READ)


def published(settings: Settings) -> Published:
    """The pages of what is stored."""
    pages = settings.pages
    secret = pages.signing_secret(settings.gitlab.webhook_secret)
    return Published(pages.url, pages.days, secret, pages.operator_token, time.time)
