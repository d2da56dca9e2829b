"""Starts a process: its settings, log and telemetry, and the checks of what it requires."""

import logging
from collections.abc import Collection
from functools import partial

from sandbox.base import SandboxUnavailable
from worker import log
from worker import settings as settings_module
from worker.doctor.idle_settings import list_idle_settings
from worker.errors import ConfigError, SandpiperError
from worker.safety.redact import Redactor
from worker.settings import Settings, playbook
from worker.telemetry.parts import Telemetry, open_traces
from worker.transport.certificates import find_unusable_file
from worker.wiring.engines import build_driver
from worker.wiring.model_lists import name_for_traces, require_prices
from worker.wiring.providers import build_helper_model, build_models
from worker.wiring.stores import choose_folder, open_session_store, wait_for_store
from worker.wiring.toolsets import list_tool_names

_log = logging.getLogger("sandpiper.settings")

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
    log.configure(redact, quiet=quiet, form=options.format, level=options.level)


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
        _log.warning("%s", idle)
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
