"""Starts a process: its settings, log and telemetry, what it requires, and what it says of itself.

GitLab may be away when a process starts: triggers are taken and queued all the same, and the line
about it says why. A write token that cannot write is another matter, and ends the start.
"""

import logging
import threading
from collections.abc import Collection, Iterator
from functools import partial

from sandbox.base import SandboxUnavailable
from worker import settings as settings_module
from worker.doctor.gitlab import Account, Client, Refusal, check_connection, get_account
from worker.doctor.idle_settings import list_idle_settings
from worker.errors import ConfigError, SandpiperError
from worker.log import configure
from worker.safety.redact import Redactor
from worker.settings import Settings, playbook
from worker.telemetry.parts import Telemetry, open_traces
from worker.transport.failures import find_unusable_file, show_address
from worker.webhook.http import PATH
from worker.wiring.jobs import list_tool_names
from worker.wiring.providers import (
    build_helper_model,
    build_models,
    list_run_models,
    name_for_traces,
    require_prices,
)
from worker.wiring.stores import build_driver, choose_folder, open_session_store, wait_for_store

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
    _require_tokens(settings, tokens)
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


def _require_tokens(settings: Settings, tokens: Collection[str]) -> None:
    present = {READ: settings.gitlab.read_token, WRITE: settings.gitlab.write_token}
    missing = [each for each in (READ, WRITE) if each in tokens and not present[each]]
    if not missing:
        return
    advice = " and ".join(f"GITLAB_{each}_TOKEN ({_RIGHTS[each]})" for each in missing)
    if len(missing) == 2:
        advice += f", or GITLAB_TOKEN ({_RIGHTS[WRITE]}) for both"
    tried = "; `sandpiper analyze --dry-run` posts nothing and needs none"
    raise ConfigError(
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
            bot = f", notes by @{_require_writer(write, second_look).username}"
    except Refusal as error:
        log.warning("GitLab cannot be used yet, triggers are taken and wait for it: %s", error)
    else:
        log.info("GitLab: %s at %s%s", version, place, bot)


def _require_writer(client: Client, second_look: float) -> Account:
    """Return the write token's account. Raises ConfigError if the token cannot write, and Refusal
    if GitLab does not say."""
    account, problem = _look(client)
    if problem:
        threading.Event().wait(second_look)
        account, problem = _look(client)
    if account is None or problem:
        raise ConfigError(problem)
    return account


def _look(client: Client) -> tuple[Account | None, str]:
    """Return the account, and why its token cannot write, "" if it can. Raises Refusal."""
    try:
        account = get_account(client)
    except Refusal as error:
        return None, _explain_refusal(error)
    if account.scopes is None or "api" in account.scopes:
        return account, ""
    scopes = ", ".join(sorted(account.scopes)) or "none"
    return account, f"{_WRITE} cannot write notes: its scopes are {scopes}: {_AGAIN}"


def _explain_refusal(error: Refusal) -> str:
    """Return why the token is of no use. Raises the refusal if it says nothing of the token."""
    if error.status == 401:
        return f"{_WRITE} is refused by GitLab: it has expired, or was revoked: {_AGAIN}"
    if error.status == 403 and "insufficient_scope" in error.reason:
        return f"{_WRITE} has not the scope that it needs: {_AGAIN}"
    raise error
