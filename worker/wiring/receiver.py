"""Builds the webhook receiver and the pages of stored sessions."""

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

from starlette.applications import Starlette

from worker.clock import SystemClock
from worker.errors import ConfigError
from worker.jobs import repair, verdict_days
from worker.pages.http import PageSettings
from worker.pages.openid import Application, OpenIdClient
from worker.queue.journal import Journal
from worker.queue.leases import Leases
from worker.sessions.store import SessionStore
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.webhook import http
from worker.webhook.http import Enqueue
from worker.webhook.id_tokens import TokenReader, TokenVerifier, fetch_keys
from worker.wiring.stores import open_session_store, open_watched_store, wait_for_store

_log = logging.getLogger("sandpiper.pages")

MOST_READ = 200
"""The most journal entries that are read for the operators' page."""


def build_receiver(
    settings: Settings,
    enqueue: Enqueue,
    ready: Callable[[], str | None] = lambda: None,
    watched: Telemetry | None = None,
    *,
    with_metrics: bool = True,
) -> Starlette:
    """Build the webhook receiver, `with_metrics` beside it. Raises ConfigError without a secret."""
    gitlab = settings.gitlab
    if why := settings.pages.explain_unserved():
        _log.warning("%s", why)
    issuer = gitlab.ci_issuer or gitlab.url
    keys = partial(fetch_keys, gitlab.url)
    tokens = TokenReader(TokenVerifier(keys, issuer, gitlab.ci_audience, time.time))
    app = http.build_app(
        gitlab.webhook_secret,
        enqueue,
        gitlab.projects,
        time.time,
        ready,
        keys=gitlab.webhook_keys,
        tokens=tokens,
        record_outcome=watched.count_webhook if watched else lambda kind, outcome: None,
        render_metrics=watched.metrics.render_page
        if watched and with_metrics and settings.metrics.enabled
        else None,
    )
    pages = build_pages(settings).make_routes(
        partial(open_session_store, settings),
        settings.limits,
        verdict_days.read_days,
        _list_parked,
        _build_openid_client(settings),
    )
    app.router.routes.extend(pages)
    return app


def _build_openid_client(settings: Settings) -> OpenIdClient | None:
    """Build what signs operators in, if they can. Raises ConfigError without its secret."""
    chosen, url = settings.pages.sign_in, settings.pages.url
    if not chosen.group or not url:
        return None
    if not chosen.client_secret:
        raise ConfigError(
            "pages.sign_in needs the secret of the OAuth application: set "
            "GITLAB_OIDC_CLIENT_SECRET, or take the group and the client_id out"
        )
    gitlab = settings.gitlab
    issuer = gitlab.ci_issuer or gitlab.url
    application = Application(
        gitlab_url=gitlab.url,
        issuer=issuer,
        client_id=chosen.client_id,
        client_secret=chosen.client_secret,
        redirect_uri=f"{url.rstrip('/')}/sign-in/callback",
        group=chosen.group,
    )
    keys = partial(fetch_keys, gitlab.url)
    return OpenIdClient(application, TokenVerifier(keys, issuer, chosen.client_id, time.time))


def open_journal(settings: Settings, watched: Telemetry) -> Journal:
    """Open the journal of accepted triggers, which may take minutes if the store is away.

    Raises ConfigError or StoreError.
    """
    return _make_journal(wait_for_store(partial(open_watched_store, settings, watched)))


def _make_journal(store: SessionStore) -> Journal:
    """Make a journal for a process that holds no leases."""
    clock = SystemClock()
    return Journal(store.records, Leases(store, clock, "door"), clock)


def _list_parked(store: SessionStore) -> Iterator[str]:
    """Yield a line for each parked trigger among the journal's first MOST_READ entries."""
    return repair.list_parked(_make_journal(store), MOST_READ)


def build_pages(settings: Settings) -> PageSettings:
    """Build the settings of the pages."""
    pages = settings.pages
    return PageSettings(pages.url, pages.days, pages.secret, pages.operator_token, time.time)
