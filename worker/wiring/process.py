"""Starts a process: its settings, log and telemetry, what it requires, what it says of itself, and
the webhook receiver with the pages of stored sessions.

GitLab may be away when a process starts: triggers are taken and queued all the same, and the line
about it says why. A write token that cannot write is another matter, and ends the start.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from starlette.applications import Starlette

from sandbox.base import SandboxUnavailable
from worker import settings as settings_module
from worker.clock import SystemClock
from worker.doctor.gitlab import Account, Client, Refusal, check_connection, get_account
from worker.doctor.idle_settings import list_idle_settings
from worker.errors import ConfigError, SandpiperError
from worker.jobs import repair, verdict_days
from worker.log import configure
from worker.pages.openid import Application, OpenIdClient
from worker.queue.journal import Journal
from worker.queue.leases import Leases
from worker.safety.redact import Redactor
from worker.sessions.store import SessionStore
from worker.settings import Settings, playbook
from worker.telemetry.parts import Telemetry, open_traces
from worker.transport.failures import find_unusable_file, show_address
from worker.webhook import http
from worker.webhook.http import PATH, Enqueue
from worker.webhook.id_tokens import TokenReader, TokenVerifier, fetch_keys
from worker.wiring.jobs import list_tool_names
from worker.wiring.providers import (
    build_helper_model,
    build_models,
    list_run_models,
    name_for_traces,
    require_prices,
)
from worker.wiring.stores import (
    build_driver,
    build_pages,
    choose_folder,
    open_session_store,
    open_watched_store,
    wait_for_store,
)

log = logging.getLogger("sandpiper.start")
_settings_log = logging.getLogger("sandpiper.settings")

READ, WRITE = "READ", "WRITE"
"""The tokens of GitLab, as their variables name them."""

_USES = {READ: "read GitLab", WRITE: "post notes"}
_RIGHTS = {READ: "scope read_api, role Reporter", WRITE: "scope api, role Developer"}


def load_settings(config: str | None, *, model: str | None = None, quiet: bool = False) -> Settings:
    """Load the settings and set up logging. Raises ConfigError."""
    settings = choose_folder(settings_module.load(config))
    if problem := find_unusable_file():
        raise ConfigError(problem)
    if model:
        models = settings.models.use_alone(model)
        settings = settings.model_copy(update={"models": models})
    set_up_logging(settings, quiet=quiet)
    return settings


def set_up_logging(settings: Settings, *, quiet: bool = False) -> None:
    """Set logging up so that no secret of `settings` is ever written."""
    options, redact = settings.log, Redactor(settings.list_secrets()).redact_text
    configure(redact, quiet=quiet, form=options.format, level=options.level)


def require_secret(settings: Settings) -> None:
    """Raise ConfigError unless webhooks have a secret."""
    if not settings.gitlab.webhook_secret and not settings.gitlab.webhook_keys:
        raise ConfigError(
            "no webhook secret: set GITLAB_WEBHOOK_SECRET to the secret token of the webhook in "
            "GitLab, or GITLAB_WEBHOOK_KEY, which makes one for each project; without a secret "
            "anybody could start runs"
        )


def require_worker(
    settings: Settings, *, waits: bool = False, tokens: Collection[str] = (READ, WRITE)
) -> None:
    """Raise unless jobs can run here: tokens, workflows, models, prices, store, engine. Warn of
    settings that have no effect.

    `tokens` are those that the jobs need: READ alone where nothing is posted. With `waits`, a store
    that is away may come back within minutes.
    """
    present = {READ: settings.gitlab.read_token, WRITE: settings.gitlab.write_token}
    if missing := [each for each in (READ, WRITE) if each in tokens and not present[each]]:
        raise ConfigError(_explain_missing(missing))
    loaded = playbook.load(settings.workflows, list_tool_names(settings))
    for idle in list_idle_settings(settings, loaded):
        _settings_log.warning("%s", idle)
    for each in (*build_models(settings), build_helper_model(settings)):
        if each:
            each.close()
    require_prices(settings)
    if waits:
        wait_for_store(partial(_require_store, settings))
    else:
        _require_store(settings)
    try:
        build_driver(settings).check()
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error


def _explain_missing(missing: Sequence[str]) -> str:
    advice = " and ".join(f"GITLAB_{each}_TOKEN ({_RIGHTS[each]})" for each in missing)
    if len(missing) == 2:
        advice += f", or GITLAB_TOKEN ({_RIGHTS[WRITE]}) for both"
    tried = "; `sandpiper analyze --dry-run` posts nothing and needs none"
    return (
        f"no token to {' and '.join(_USES[each] for each in missing)} with: set {advice}"
        f"{tried if missing == [WRITE] else ''}"
    )


def _require_store(settings: Settings) -> None:
    store = open_session_store(settings)
    store.probe()
    store.read_installation_key()


def build_telemetry(settings: Settings) -> Telemetry:
    """Build the metrics of one process, and its traces if configured. Raises ConfigError."""
    names = list_tool_names(settings)
    endpoint = settings.traces.endpoint
    return Telemetry(names, open_traces(endpoint, names, name_for_traces(settings)))


PATIENCE = 5.0
"""Seconds that a start waits for GitLab's answers."""

SECOND_LOOK = 1.0
"""Seconds after which GitLab is asked again before a token is taken for useless."""

_WRITE = "GITLAB_WRITE_TOKEN (or GITLAB_TOKEN)"
_AGAIN = f"make one with the scope api, and set {_WRITE}"


def list_parts(settings: Settings) -> Iterator[str]:
    """Yield a line for each part that the settings name. No line shows a password or a token."""
    projects = ", ".join(settings.gitlab.projects)
    everything = "every project in which the read token's user is a member"
    yield f"projects: {projects or everything}"
    embedded = settings.broker.startswith("memory://")
    urls = ", ".join(show_address(each) for each in settings.broker.split(";"))
    yield f"broker: {'embedded: this process runs the jobs, too' if embedded else urls}"
    endpoint = settings.s3_endpoint if settings.store.startswith("s3://") else ""
    place = show_address(settings.store)
    yield f"store: {place}" + (f" at {show_address(endpoint)}" if endpoint else "")
    models = [f"{each.spec} ({each.role})" for each in list_run_models(settings)]
    yield f"models: {', '.join(models)}"


def describe_door(settings: Settings, host: str, port: int) -> Iterator[str]:
    """Yield the lines about where `serve` listens on this host and port, and who reaches it."""
    base = settings.pages.url.rstrip("/")
    yield f"pages: {base}" if base else "pages: none, since pages.url is not set"
    shown = f"[{host}]" if ":" in host else host
    query = "?project=ID, one for each project" if settings.gitlab.webhook_keys else ""
    here = f"http://{shown}:{port}"
    to = f"{base or 'https://…'}{PATH}{query}"
    yield f"listening on {here}; webhooks should point to {to}"


def introduce_gitlab(
    settings: Settings, patience: float = PATIENCE, second_look: float = SECOND_LOOK
) -> None:
    """Log which GitLab is served, and as whom; if it does not answer within `patience`, log that.

    Raises ConfigError if GitLab says twice that the write token cannot write.
    """
    refusals = list[ConfigError]()

    def ask() -> None:
        try:
            _introduce(settings, second_look)
        except ConfigError as error:
            refusals.append(error)
            if is_over.is_set():
                log.error("%s", error)

    is_over = threading.Event()
    asking = threading.Thread(target=ask, name="sandpiper-start", daemon=True)
    asking.start()
    asking.join(patience)
    is_over.set()
    if refusals:
        raise refusals[0]
    if asking.is_alive():
        place = show_address(settings.gitlab.url)
        log.warning("GitLab: no answer from %s yet: triggers are taken, and wait for it", place)


def _introduce(settings: Settings, second_look: float) -> None:
    chosen = settings.gitlab
    place = show_address(chosen.url)
    try:
        read = Client(chosen.url, chosen.read_token or chosen.write_token, "read")
        version = check_connection(read, lambda: 0.0).version or "of an unknown version"
        bot = ""
        if chosen.write_token:
            write = Client(chosen.url, chosen.write_token, "write")
            account, problem = _look(write)
            if problem:
                threading.Event().wait(second_look)
                account, problem = _look(write)
            if account is None or problem:
                raise ConfigError(problem)
            bot = f", notes by @{account.username}"
    except Refusal as error:
        log.warning("GitLab cannot be used yet, triggers are taken and wait for it: %s", error)
    else:
        log.info("GitLab: %s at %s%s", version, place, bot)


def _look(client: Client) -> tuple[Account | None, str]:
    """Return the account, and why its token cannot write, "" if it can. Raises Refusal if GitLab
    says nothing of the token."""
    try:
        account = get_account(client)
    except Refusal as error:
        if error.status == 401:
            return None, f"{_WRITE} is refused by GitLab: it has expired, or was revoked: {_AGAIN}"
        if error.status == 403 and "insufficient_scope" in error.reason:
            return None, f"{_WRITE} has not the scope that it needs: {_AGAIN}"
        raise
    if account.scopes is None or "api" in account.scopes:
        return account, ""
    scopes = ", ".join(sorted(account.scopes)) or "none"
    return account, f"{_WRITE} cannot write notes: its scopes are {scopes}: {_AGAIN}"


_pages_log = logging.getLogger("sandpiper.pages")

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
        _pages_log.warning("%s", why)
    issuer = gitlab.ci_issuer or gitlab.url
    keys = partial(fetch_keys, gitlab.url)
    tokens = TokenReader(TokenVerifier(keys, issuer, gitlab.ci_audience, time.time))
    app = http.build_app(
        gitlab.webhook_secret,
        enqueue,
        gitlab.projects,
        time.time,
        ready,
        branches=settings.incidents.branches,
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
        lambda store: repair.list_parked(_make_journal(store), MOST_READ),
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
