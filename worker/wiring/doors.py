"""What takes requests: the webhook receiver, and the pages of what is stored."""

import time
from collections.abc import Callable
from functools import partial

from starlette.applications import Starlette

from worker.core.limits import Limits
from worker.core.triggers import Trigger
from worker.pages.parts import Published
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.webhook import http
from worker.webhook.tokens import GitLabKeys, TokenReader
from worker.wiring.stores import store


def door(
    settings: Settings,
    enqueue: Callable[[Trigger], None],
    ready: Callable[[], str | None] = lambda: None,
    watched: Telemetry | None = None,
) -> Starlette:
    """The webhook receiver. Raises ConfigError without a secret."""
    gitlab = settings.gitlab
    issuer = gitlab.ci_issuer or gitlab.url
    tokens = TokenReader(GitLabKeys(gitlab.url), issuer, gitlab.ci_audience, time.time)
    built = http.build(
        *(gitlab.webhook_secret, enqueue, gitlab.projects, time.time, ready),
        tokens=tokens,
        told=watched.webhook if watched else lambda kind, outcome: None,
        page=watched.metrics.page if watched and settings.metrics.enabled else None,
    )
    pages = published(settings).routes(
        partial(store, settings), Limits(**settings.limits.of_a_run())
    )
    built.router.routes.extend(pages)
    return built


def published(settings: Settings) -> Published:
    """The pages of what is stored."""
    pages = settings.pages
    secret = pages.secret or settings.gitlab.webhook_secret
    return Published(pages.url, pages.days, secret, pages.operator_token, time.time)
