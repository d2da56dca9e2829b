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
from worker.budget import Budget
from worker.clock import SystemClock
from worker.conversation import CLAIM_MARGIN
from worker.core.gitlab import Forge
from worker.core.known import Settings as KnownSettings
from worker.core.limits import Limits
from worker.core.messages import ToolSpec
from worker.core.ports import Captures, FailedJob, Source, Toolbox
from worker.core.redact import Redactor
from worker.core.survey import Survey
from worker.core.triggers import Trigger
from worker.deps import Deps, Kit, NoteOptions
from worker.errors import ConfigError, ForgeError, SandpiperError
from worker.forge.checked import CheckedForge
from worker.forge.dry import DryForge
from worker.forge.gitlab import GitLabForge
from worker.journal import Journal
from worker.leases import Leases
from worker.models import breaker
from worker.models.base import Dialect
from worker.models.catalogue import Catalogue
from worker.models.catalogue_entries import extended
from worker.models.client import HttpModel, Told, untold
from worker.models.fallback import FallbackModel
from worker.models.table import build
from worker.pages.parts import Published
from worker.playbook import Workflow
from worker.sessions.store import Store
from worker.sessions.table import guarded, open_store
from worker.settings import ACCESS_LEVELS, ProviderSettings, Settings
from worker.sources.captured import Captured
from worker.sources.client import ReadClient
from worker.sources.desk import GitLabDesk
from worker.sources.failures import failed_jobs
from worker.sources.konflux import Tenant, open_konflux
from worker.sources.plugins import installed
from worker.sources.policy import Policy
from worker.sources.reader import Reader
from worker.sources.survey import survey
from worker.sources.table import Rows, bind, joined, notes
from worker.sources.testing_farm import open_testing_farm
from worker.telemetry.parts import Telemetry, tracing
from worker.tools.base import Bench
from worker.tools.table import TOOLS
from worker.tools.toolbox import WorkflowToolbox, offered
from worker.webhook import http
from worker.webhook.tokens import GitLabKeys, TokenReader


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
    def captures(self) -> Captures:
        """What the sources give, to prove quotes by."""
        return Captured(self.reader, self.sources)

    def failures(self) -> tuple[FailedJob, ...]:
        """The failed jobs and what their logs show."""
        return failed_jobs(self.reader)

    def survey(self) -> Survey:
        """The failing jobs by cause."""
        return survey(self.reader)

    def redactions(self) -> Mapping[str, int]:
        """What the reader has taken out."""
        return self.reader.redact.counts

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
    chosen, redact = settings.log, Redactor(settings.secrets()).text
    log.configure(redact, quiet=quiet, form=chosen.format, level=chosen.level)


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
        driver(settings).check()
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error


def store(settings: Settings) -> Store:
    """The session store. Raises ConfigError or StoreError.

    Where S3 is an imitation that ignores conditional writes, a Redis broker makes up for it.
    """
    opened = open_store(settings.store, settings.s3_endpoint or None)
    imitation = settings.store.startswith("s3://") and settings.s3_endpoint
    if not imitation or not settings.broker.startswith("redis"):
        return opened
    return opened if opened.honours_conditions() else guarded(opened, settings.broker)


def telemetry(settings: Settings) -> Telemetry:
    """What watches one process: metrics, and traces where they are wanted. Raises ConfigError."""
    names = tool_names(settings)
    return Telemetry(names, tracing(settings.traces.endpoint, names))


def models(settings: Settings, told: Told = untold) -> list[HttpModel]:
    """The configured model and those to fall back to, in order. Raises ConfigError."""
    chosen = settings.models
    return [_model(name, settings, told) for name in (chosen.default, *chosen.fallback)]


def _model(name: str, settings: Settings, told: Told) -> HttpModel:
    provider = settings.models.provider(name.partition("/")[0])
    return build(
        name,
        provider.base_url,
        provider.key,
        clock=SystemClock(),
        project=provider.project,
        location=provider.location,
        dialect=_dialect(provider),
        catalogue=catalogue(settings),
        told=told,
    )


def catalogue(settings: Settings) -> Catalogue:
    """What is known of models, the operator's word included. Raises ConfigError."""
    entries = settings.models.catalogue.items()
    return extended({model: entry.model_dump(exclude_unset=True) for model, entry in entries})


def _dialect(provider: ProviderSettings) -> Dialect | None:
    """What the operator says of a compatible server; None leaves it to the endpoint."""
    said = {
        "limit": provider.max_tokens_field,
        "reasoning": provider.send_reasoning,
        "call_id": provider.call_id,
    }
    stated = {name: value for name, value in said.items() if value}
    return Dialect(**stated) if stated else None


def deps(
    settings: Settings,
    forge: Forge | None = None,
    salt: str = "",
    watched: Telemetry | None = None,
) -> Deps:
    """The parts of a job, `watched` if they are to be. Raises ConfigError or StoreError."""
    gitlab = settings.gitlab
    redactor = Redactor(settings.secrets())
    client = ReadClient(gitlab.url, gitlab.read_token)
    asked = models(settings, watched.attempt if watched else untold)
    heard = watched.circuit if watched else breaker.unheard
    all_models = breaker.guarded(asked, SystemClock(), heard)
    pages = published(settings)
    hosts = frozenset({urlsplit(gitlab.url).netloc, *pages.hosts})
    writer = CheckedForge(forge or GitLabForge(gitlab.url, gitlab.write_token), hosts)
    seen = settings.sources.also_read
    opened = partial(Reader.open, client, also=seen, own=partial(_own, writer))
    rows = sources(settings)
    kept = store(settings)
    kept = Store(watched.objects(kept.records)) if watched else kept
    held = _leases(settings, kept)
    made = Deps(
        desk=GitLabDesk(
            client,
            gitlab.url,
            gitlab.projects,
            ACCESS_LEVELS[gitlab.reply_min_access],
            _policy(settings),
        ),
        forge=writer,
        store=kept,
        sandboxes=_sandboxes(settings),
        model=lambda: FallbackModel(all_models),
        kit=lambda subject, workflow: _kit(
            settings, opened(subject, redactor.data), rows, redactor, workflow
        ),
        playbook=playbook.load(settings.workflows),
        limits=_limits(settings),
        clock=SystemClock(),
        redact=redactor.text,
        gitlab_url=gitlab.url,
        hosts=hosts,
        owner=f"{socket.gethostname()}:{os.getpid()}",
        leases=held,
        journal=Journal(kept.records, held, SystemClock()),
        salt=salt,
        choices={model.name: partial(FallbackModel, [model]) for model in all_models},
        turns_per_day=settings.limits.turns_per_day,
        project_concurrency=settings.limits.project_concurrency,
        budget=Budget(kept.records, SystemClock(), settings.limits.project_cost_usd_per_day),
        debounce=gitlab.debounce,
        note=NoteOptions(**settings.note.model_dump()),
        known=None if salt else kept.known,
        known_settings=KnownSettings(**settings.known.model_dump()),
        recent=None if salt else kept.recent,
        page=pages.linker(),
    )
    return watched.around(made) if watched else made


def _leases(settings: Settings, kept: Store) -> Leases:
    chosen = settings.worker
    host = socket.gethostname()
    held = Leases(kept, SystemClock(), host, beat=chosen.heartbeat, lease=chosen.lease)
    atexit.register(held.resign)
    return held


def _limits(settings: Settings) -> Limits:
    return Limits(**settings.limits.of_a_run())


def published(settings: Settings) -> Published:
    """The pages of what is stored."""
    pages = settings.pages
    secret = pages.secret or settings.gitlab.webhook_secret
    return Published(pages.url, pages.days, secret, pages.operator_token, time.time)


def dry(settings: Settings) -> Deps:
    """The parts of a job that posts nothing; its session is its own."""
    return deps(settings, DryForge(lambda body: None), salt=token_hex(8))


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
    pages = published(settings).routes(partial(store, settings), _limits(settings))
    built.router.routes.extend(pages)
    return built


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


def driver(settings: Settings) -> DockerDriver | BubblewrapDriver:
    """What starts sandboxes. Raises ConfigError."""
    chosen = settings.sandbox
    try:
        spec = ContainerSpec(
            image=chosen.image,
            runtime=chosen.runtime,
            memory=chosen.memory,
            cpus=chosen.cpus,
            pids=chosen.pids,
            shared_limits=chosen.shared_limits,
            disk=chosen.disk,
        )
    except ValueError as error:
        raise ConfigError(f"sandbox: {error}") from error
    return BubblewrapDriver(spec) if chosen.driver == "bubblewrap" else DockerDriver(spec)


def _sandboxes(settings: Settings) -> Driver:
    """The driver, behind a pool if one is wanted; what waits in it ends with this process."""
    chosen = driver(settings)
    if not settings.sandbox.pool:
        return chosen
    pool = Pool(chosen, settings.sandbox.pool)
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


def tool_names(settings: Settings) -> tuple[str, ...]:
    """Every tool and source that a workflow may name. Raises ConfigError."""
    return (*(tool.name for tool in TOOLS), *(row.name for row in sources(settings)))


def _own(forge: Forge) -> frozenset[int]:
    try:
        return frozenset({forge.me()})
    except ForgeError:
        return frozenset()
