"""The composition root: the only module that names concrete adapters."""

import atexit
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from urllib.parse import urlsplit

from starlette.applications import Starlette

from sandbox import bubblewrap, docker
from sandbox.base import Driver, Sandbox, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver
from sandbox.soon import POOL_LIFETIME, Pool
from sandbox.spec import ContainerSpec
from worker import log, playbook
from worker import settings as settings_module
from worker.conversation import CLAIM_MARGIN
from worker.core.limits import Limits
from worker.core.messages import ToolSpec
from worker.core.ports import FailedJob, Forge, LogLines, Source, Toolbox
from worker.core.redact import Redactor
from worker.core.triggers import Trigger
from worker.deps import Deps, Kit
from worker.errors import ConfigError, ForgeError, SandpiperError
from worker.forge.dry import DryForge
from worker.forge.gitlab import GitLabForge
from worker.models.base import Dialect
from worker.models.catalogue_entries import extended
from worker.models.client import HttpModel
from worker.models.fallback import FallbackModel
from worker.models.table import build
from worker.playbook import Workflow
from worker.sessions.store import Store
from worker.sessions.table import open_store
from worker.settings import ACCESS_LEVELS, ProviderSettings, Settings
from worker.sources.client import ReadClient
from worker.sources.desk import GitLabDesk
from worker.sources.failures import failed_jobs
from worker.sources.konflux import Tenant, open_konflux
from worker.sources.plugins import installed
from worker.sources.policy import Policy
from worker.sources.reader import Reader
from worker.sources.table import Rows, bind, joined, notes
from worker.sources.testing_farm import open_testing_farm
from worker.tools.base import Bench
from worker.tools.toolbox import WorkflowToolbox, offered
from worker.webhook import http
from worker.webhook.tokens import GitLabKeys, TokenReader


class SystemClock:
    """The machine's time. Satisfies core.ports.Clock."""

    def now(self) -> float:
        """Epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class _Kit:
    """The tools and sources of one workflow over one subject. Satisfies deps.Kit."""

    reader: Reader
    rows: Rows
    sources: Mapping[str, Source]
    workflow: Workflow
    exec_timeout: float
    redact: Callable[[str], str]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told."""
        return offered(self.sources, self.workflow.allows)

    @property
    def notes(self) -> str:
        """The sources' part of the system prompt."""
        return notes((name for name in self.sources if self.workflow.allows(name)), self.rows)

    @property
    def lines(self) -> LogLines:
        """The logs the sources have read."""
        return self.reader.logs

    def failures(self) -> tuple[FailedJob, ...]:
        """The failed jobs and what their logs show."""
        return failed_jobs(self.reader)

    def open(self, sandbox: Sandbox) -> Toolbox:
        """The toolbox over a running sandbox."""
        bench = Bench(sandbox, self.sources, self.exec_timeout, self.redact)
        return WorkflowToolbox(bench, self.workflow.allows)


def start(config: str | None, *, model: str | None = None, quiet: bool = False) -> Settings:
    """Settings, with logging set up. Raises ConfigError."""
    settings = settings_module.load(config)
    if model:
        chosen = settings.models.model_copy(update={"default": model})
        settings = settings.model_copy(update={"models": chosen})
    use(settings, quiet=quiet)
    return settings


def use(settings: Settings, *, quiet: bool = False) -> None:
    """Set logging up so that no secret of `settings` is ever written."""
    log.configure(Redactor(settings.secrets()).text, quiet=quiet)


def require_secret(settings: Settings) -> None:
    """Raise ConfigError unless the webhook's secret is there."""
    if not settings.gitlab.webhook_secret:
        raise ConfigError(
            "no webhook secret: set GITLAB_WEBHOOK_SECRET to the secret token of the webhook in "
            "GitLab; without one anybody could start runs"
        )


def require_worker(settings: Settings) -> None:
    """Raise unless jobs can run here: tokens, workflows, model, store, engine."""
    if not settings.gitlab.read_token or not settings.gitlab.write_token:
        raise ConfigError(
            "no GitLab token: set GITLAB_TOKEN, or GITLAB_READ_TOKEN (scope read_api) and "
            "GITLAB_WRITE_TOKEN (scope api)"
        )
    playbook.load(settings.workflows)
    for each in models(settings):
        each.close()
    store(settings).probe()
    try:
        _driver(settings).check()
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error


def store(settings: Settings) -> Store:
    """The session store. Raises ConfigError or StoreError."""
    return open_store(settings.store, settings.s3_endpoint or None)


def models(settings: Settings) -> list[HttpModel]:
    """The configured model and those to fall back to, in order. Raises ConfigError."""
    chosen = settings.models
    return [_model(name, settings) for name in (chosen.default, *chosen.fallback)]


def _model(name: str, settings: Settings) -> HttpModel:
    provider = settings.models.provider(name.partition("/")[0])
    return build(
        name,
        provider.base_url,
        provider.key,
        clock=SystemClock(),
        project=provider.project,
        location=provider.location,
        dialect=_dialect(provider),
        catalogue=extended(
            {
                model: entry.model_dump(exclude_unset=True)
                for model, entry in settings.models.catalogue.items()
            }
        ),
    )


def _dialect(provider: ProviderSettings) -> Dialect | None:
    """What the operator says of a compatible server; None leaves it to the endpoint."""
    said = {
        "limit": provider.max_tokens_field,
        "reasoning": provider.send_reasoning,
        "call_id": provider.call_id,
    }
    stated = {name: value for name, value in said.items() if value}
    return Dialect(**stated) if stated else None


def deps(settings: Settings, forge: Forge | None = None, salt: str = "") -> Deps:
    """The parts of a job. Raises ConfigError or StoreError."""
    gitlab = settings.gitlab
    redactor = Redactor(settings.secrets())
    client = ReadClient(gitlab.url, gitlab.read_token)
    all_models = models(settings)
    writer = forge or GitLabForge(gitlab.url, gitlab.write_token)
    seen = settings.sources.also_read
    opened = partial(Reader.open, client, also=seen, own=partial(_own, writer))
    rows = sources(settings)
    return Deps(
        desk=GitLabDesk(
            client,
            gitlab.url,
            gitlab.projects,
            ACCESS_LEVELS[gitlab.reply_min_access],
            _policy(settings),
        ),
        forge=writer,
        store=store(settings),
        sandboxes=_sandboxes(settings),
        model=lambda: FallbackModel(all_models),
        kit=lambda subject, workflow: _kit(
            settings, opened(subject, redactor.data), rows, redactor, workflow
        ),
        playbook=playbook.load(settings.workflows),
        limits=Limits(**settings.limits.model_dump(exclude={"turns_per_day"})),
        clock=SystemClock(),
        redact=redactor.text,
        gitlab_url=gitlab.url,
        hosts=frozenset({urlsplit(gitlab.url).netloc}),
        owner=f"{socket.gethostname()}:{os.getpid()}",
        salt=salt,
        choices={model.name: partial(FallbackModel, [model]) for model in all_models},
        turns_per_day=settings.limits.turns_per_day,
    )


def dry(settings: Settings) -> Deps:
    """The parts of a job that posts nothing; its session is its own."""
    return deps(settings, DryForge(lambda body: None), salt=token_hex(8))


def door(
    settings: Settings,
    enqueue: Callable[[Trigger], None],
    ready: Callable[[], str | None] = lambda: None,
) -> Starlette:
    """The webhook receiver. Raises ConfigError without a secret."""
    gitlab = settings.gitlab
    issuer = gitlab.ci_issuer or gitlab.url
    tokens = TokenReader(GitLabKeys(gitlab.url), issuer, gitlab.ci_audience, time.time)
    return http.build(
        gitlab.webhook_secret, enqueue, gitlab.projects, time.time, ready, tokens=tokens
    )


def reap(settings: Settings) -> list[str]:
    """Remove sandboxes that no run can own any more; their sessions. Raises SandpiperError."""
    age = POOL_LIFETIME + 2 * (settings.limits.wall_clock + CLAIM_MARGIN)
    try:
        if settings.sandbox.driver == "bubblewrap":
            return bubblewrap.reap(age)
        return docker.reap(None, age)
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error


def _policy(settings: Settings) -> Policy:
    gitlab = settings.gitlab
    return Policy(
        skip_labels=gitlab.skip_labels,
        skip_drafts=gitlab.skip_drafts,
        skip_paths=gitlab.skip_paths,
        bot_merge_requests=gitlab.bot_merge_requests,
    )


def _driver(settings: Settings) -> DockerDriver | BubblewrapDriver:
    chosen = settings.sandbox
    try:
        spec = ContainerSpec(
            image=chosen.image,
            runtime=chosen.runtime,
            memory=chosen.memory,
            cpus=chosen.cpus,
            pids=chosen.pids,
            disk=chosen.disk,
        )
    except ValueError as error:
        raise ConfigError(f"sandbox: {error}") from error
    return BubblewrapDriver(spec) if chosen.driver == "bubblewrap" else DockerDriver(spec)


def _sandboxes(settings: Settings) -> Driver:
    """The driver, behind a pool if one is wanted; what waits in it ends with this process."""
    driver = _driver(settings)
    if not settings.sandbox.pool:
        return driver
    pool = Pool(driver, settings.sandbox.pool)
    atexit.register(pool.close)
    pool.fill()
    return pool


def _kit(
    settings: Settings, reader: Reader, rows: Rows, redactor: Redactor, workflow: Workflow
) -> Kit:
    timeout = settings.sandbox.exec_timeout
    return _Kit(reader, rows, bind(reader, rows), workflow, timeout, redactor.text)


def sources(settings: Settings) -> Rows:
    """GitLab's sources, the configured others, and the plug-ins'. Raises ConfigError."""
    cluster, farm = settings.sources.konflux, settings.sources.testing_farm
    tenants = {
        project: Tenant(each.namespace, each.repository)
        for project, each in cluster.projects.items()
    }
    return joined(
        open_konflux(cluster.url, cluster.archive_url, cluster.token, cluster.ca_file, tenants),
        open_testing_farm(farm.url, farm.results_url, farm.token, farm.repositories),
        installed(),
    )


def _own(forge: Forge) -> frozenset[int]:
    try:
        return frozenset({forge.me()})
    except ForgeError:
        return frozenset()
