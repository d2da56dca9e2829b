"""Builds the parts of a job: its tools, sources and sandboxes, and what reads and writes GitLab."""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex

from sandbox.base import Sandbox
from worker.clock import SystemClock
from worker.conversation.context import Subject, make_id_salt
from worker.conversation.limits import Limits
from worker.conversation.messages import ToolSpec
from worker.conversation.model_switch import SET_TIER
from worker.conversation.tiers import TierModel
from worker.errors import ForgeError
from worker.gitlab.ports import BotAccount, IncidentWriter
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.policy import Policy
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.gitlab.write.incident_writers import CheckedIncidentWriter, GitLabIncidents
from worker.gitlab.write.note_writers import CheckedNoteWriter, DryRunWriter
from worker.gitlab.write.writer import GitLabWriter
from worker.queue.journal import Journal
from worker.safety.redact import Redactor
from worker.safety.untrusted import visible
from worker.sessions.incidents import IncidentStore
from worker.sessions.ledger import LedgerStore
from worker.sessions.retries import RetryStore
from worker.sessions.store import SessionStore
from worker.settings import ACCESS_LEVELS, GitLabSettings, Settings, playbook
from worker.settings.playbook import Workflow
from worker.settings.runs import PlanBy, ToolList
from worker.sources.konflux import Tenant, open_konflux
from worker.sources.table import Rows, bind_sources, join_rows, load_plugins, write_notes
from worker.sources.testing_farm import open_testing_farm
from worker.telemetry.parts import Telemetry
from worker.tools.base import SavedDocuments, ToolContext
from worker.tools.documents import has_file
from worker.tools.source import Source, Toolbox
from worker.tools.toolbox import FIND_TOOL_USES, TOOLS, WorkflowToolbox, list_specs, make_find_tool
from worker.turns.day_budget import DayBudget
from worker.turns.parts import (
    Deps,
    Explain,
    GitLab,
    NoKnownFailures,
    NothingWritten,
    Options,
    Queue,
    Runtime,
    Storage,
    Toolset,
)
from worker.verdict.finding import Captures
from worker.verdict.jobs import Survey
from worker.verdict.recalled_tests import Recall
from worker.wiring.providers import (
    build_chains,
    build_helper,
    list_run_models,
    make_tier_rules,
)
from worker.wiring.stores import (
    SandboxTools,
    build_pages,
    build_sandboxes,
    leave_out_pool,
    make_leases,
    open_watched_store,
    wait_for_store,
)


def open_read_client(settings: Settings) -> ReadClient:
    """Open a client of GitLab with the read token."""
    gitlab = settings.gitlab
    return ReadClient(gitlab.url, gitlab.read_token, download_hosts=gitlab.download_hosts)


def build_deps(
    settings: Settings,
    watched: Telemetry | None = None,
    opened: ExitStack | None = None,
    *,
    dry_run: bool = False,
) -> Deps:
    """Build the parts of a job, wrapped by `watched` if given.

    A `dry_run` posts nothing, needs no write token, and has a session of its own.
    `opened` closes their connections to GitLab and models; without it they stay open until the
    process ends. Raises ConfigError or StoreError.
    """
    opened = opened or ExitStack()
    gitlab, limits, clock = settings.gitlab, settings.limits, SystemClock()
    redactor = Redactor(settings.list_secrets())

    def redact(text: str) -> str:
        """Remove invisible characters, which could hide a secret, and then secrets."""
        return redactor.redact_text(visible(text))

    def open_store() -> tuple[SessionStore, str]:
        store = open_watched_store(settings, watched)
        return store, store.read_installation_key()

    client = open_read_client(settings)
    opened.callback(client.connections.close)
    writer: DryRunWriter | GitLabWriter = DryRunWriter()
    if not dry_run:
        writer = GitLabWriter(gitlab.url, gitlab.write_token)
        opened.callback(writer.connections.close)
    pages = build_pages(settings)
    hosts = pages.link_places | settings.sources.list_link_places()
    toolsets = _make_toolset_factory(settings, client, redactor, partial(_find_own_ids, writer))
    runtime = _build_runtime(settings, toolsets, redact, watched, opened)
    store, store_key = wait_for_store(open_store)
    reader = _build_gitlab_reader(client, gitlab, redact)
    leases = make_leases(settings, store)
    deps = Deps(
        _build_forge(reader, writer, gitlab.url, hosts, redact),
        runtime,
        Storage(
            store,
            known_failures=NoKnownFailures() if dry_run else store.known_failures,
            recent=store.recent_turns,
            budget=DayBudget(
                store.records, clock, limits.project_cost_usd_per_day, limits.cost_usd_per_day
            ),
            incidents=IncidentStore(store.records, read_only=dry_run),
            ledger=LedgerStore(store.records, read_only=dry_run),
            retries=RetryStore(store.records),
        ),
        Queue(
            Journal(store.records, leases, clock), leases, f"{socket.gethostname()}:{os.getpid()}"
        ),
        _build_options(settings, pages.make_linker(store_key), make_id_salt(store_key), dry_run),
    )
    return watched.wrap_deps(deps) if watched else deps


def _build_forge(
    reader: GitLabReader,
    writer: DryRunWriter | GitLabWriter,
    url: str,
    hosts: frozenset[str],
    redact: Callable[[str], str],
) -> GitLab:
    incident_writer: IncidentWriter = NothingWritten()
    if isinstance(writer, GitLabWriter):
        incident_writer = CheckedIncidentWriter(GitLabIncidents(writer.client), hosts, redact)
    return GitLab(
        pipelines=reader,
        merge_requests=reader,
        permissions=reader,
        bot=writer,
        notes=CheckedNoteWriter(writer, hosts, redact),
        reactions=writer,
        url=url,
        hosts=hosts,
        incident_writer=incident_writer,
    )


def _build_options(
    settings: Settings, page: Callable[[str], str], id_salt: str, dry_run: bool
) -> Options:
    limits = settings.limits
    return Options(
        note=settings.note,
        known_settings=settings.known,
        incident_settings=settings.incidents,
        ledger_settings=settings.tests,
        retry_settings=settings.retry,
        turns_per_day=limits.turns_per_day,
        project_concurrency=limits.project_concurrency,
        debounce=settings.gitlab.debounce,
        page=page,
        dry_run=dry_run,
        salt=token_hex(8) if dry_run else "",
        id_salt=id_salt,
    )


def _build_runtime(
    settings: Settings,
    toolsets: Callable[[Subject, Workflow], Toolset],
    redact: Callable[[str], str],
    watched: Telemetry | None,
    opened: ExitStack,
) -> Runtime:
    chains, rules = build_chains(settings, watched, opened), make_tier_rules(settings)
    specs = [each.spec for each in list_run_models(settings)]
    flows = playbook.load(settings.workflows, list_tool_names(settings))
    if settings.loop.tools is ToolList.COMPACT:
        flows = flows.shorten_tool_lists()
    if not rules:  # with tiers, each turn chooses the form that fits its model
        room = chains.make_chain(rules.default).context_tokens
        flows = flows.fit(min(settings.limits.context_tokens, room))
    return Runtime(
        model=partial(chains.make_chain, rules.default),
        sandboxes=build_sandboxes(settings),
        toolset=toolsets,
        playbook=flows,
        limits=Limits(
            **settings.limits.model_dump(),
            context=settings.context,
            loop=settings.loop,
            tier_rules=rules,
        ),
        clock=SystemClock(),
        redact=redact,
        choices={spec: partial(chains.make_alone, TierModel(spec)) for spec in specs},
        describe_tools=SandboxTools().describe_versions,
        helper=build_helper(settings, watched, opened),
        choosable=settings.models.choosable,
        plan=settings.loop.plan,
        gate=settings.loop.gate,
        make_model=chains.make_chain,
        make_reply_model=chains.make_alone,
    )


def build_dry_deps(settings: Settings) -> Deps:
    """Build the parts of a job that posts nothing and has a session of its own."""
    return build_deps(leave_out_pool(settings), dry_run=True)


def _build_gitlab_reader(
    client: ReadClient, gitlab: GitLabSettings, redact: Callable[[str], str]
) -> GitLabReader:
    policy = Policy(
        skip_labels=gitlab.skip_labels,
        skip_drafts=gitlab.skip_drafts,
        skip_paths=gitlab.skip_paths,
        bot_merge_requests=gitlab.bot_merge_requests,
        fork_min_access=ACCESS_LEVELS[gitlab.fork_min_access],
        tier_min_access=ACCESS_LEVELS[gitlab.tier_min_access],
    )
    level = ACCESS_LEVELS[gitlab.reply_min_access]
    return GitLabReader(client, gitlab.url, gitlab.projects, level, policy, redact=redact)


def _find_own_ids(bot: BotAccount) -> frozenset[int]:
    try:
        return frozenset({bot.get_user_id()})
    except ForgeError:
        return frozenset()


_COMPACT_PREVIEW = 1500
"""The most bytes of a result that a compact workflow shows."""


@dataclass(frozen=True, slots=True)
class _WorkflowToolset:
    """The tools and sources of one workflow for one subject. Implements Toolset."""

    reader: Reader
    rows: Rows
    sources: Mapping[str, Source]
    workflow: Workflow
    exec_timeout: float
    preview_bytes: int
    redact: Callable[[str], str]
    shows_twice: bool = True
    finds: int = FIND_TOOL_USES

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is told about."""
        compact = self.workflow.compact
        specs = list_specs(self.sources, self.workflow.announces, compact=compact)
        others = self._list_others()
        return (*specs, make_find_tool(others, self.finds).spec) if others else specs

    def _list_others(self) -> tuple[ToolSpec, ...]:
        """List the sources that the model finds with `find_tool`."""
        if not self.workflow.has_find_tool:
            return ()
        allowed = list_specs(self.sources, self.workflow.allows, compact=self.workflow.compact)
        return tuple(
            each
            for each in allowed
            if each.name in self.sources and not self.workflow.announces(each.name)
        )

    @property
    def notes(self) -> str:
        """The sources' part of the system prompt."""
        return write_notes(
            (name for name in self.sources if self.workflow.announces(name)), self.rows
        )

    @property
    def captures(self) -> Captures:
        """The sources' documents, for checking quotes."""
        return CapturedDocuments(self.reader, self.sources)

    def keep_evidence(
        self, read: Callable[[], bytes | None], write: Callable[[bytes], None]
    ) -> None:
        """Set where the reader stores its evidence."""
        self.reader.evidence.attach(read, write)

    def survey_failures(
        self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
    ) -> Survey:
        """Return the failing jobs by cause."""
        return read_survey(self.reader, shown=shown, explain=explain, recall=recall)

    def count_redactions(self) -> Mapping[tuple[str, str], int]:
        """Return the counts of what the reader has redacted."""
        return self.reader.redact.counts

    def open_toolbox(self, sandbox: Sandbox, errors: str) -> Toolbox:
        """Return the toolbox for a running sandbox."""
        self.reader.logs.known_errors = errors
        context = ToolContext(
            sandbox, self.sources, self.exec_timeout, self.redact, self.preview_bytes
        )
        if self.workflow.compact:
            shown = min(self.preview_bytes, _COMPACT_PREVIEW)
            context = replace(context, preview_bytes=shown, whole_bytes=2 * shown)
        if not self.shows_twice:
            context = replace(context, documents=SavedDocuments(partial(has_file, sandbox)))
        return WorkflowToolbox(context, self.workflow.allows, self._list_others(), self.finds)


def _make_toolset_factory(
    settings: Settings,
    client: ReadClient,
    redactor: Redactor,
    find_own_ids: Callable[[], frozenset[int]],
) -> Callable[[Subject, Workflow], Toolset]:
    """Make a function that builds a run's toolset. Raises ConfigError.

    `find_own_ids` returns the ids of the users that post our notes.
    """
    rows, timeout = build_sources(settings), settings.sandbox.exec_timeout
    shown = settings.limits.preview_bytes
    open_reader = partial(
        Reader.open, client, also=settings.sources.also_read, bot_ids=find_own_ids
    )

    def open_toolset(subject: Subject, workflow: Workflow) -> Toolset:
        reader = open_reader(subject, redactor.remove_secrets)
        return _WorkflowToolset(
            reader,
            rows,
            bind_sources(reader, rows),
            workflow,
            timeout,
            shown,
            redactor.redact_text,
            shows_twice=(workflow.plan or settings.loop.plan) is PlanBy.OFF,
            finds=settings.loop.find_tool_uses,
        )

    return open_toolset


def build_sources(settings: Settings) -> Rows:
    """Build GitLab's sources, the other configured ones, and the plug-ins'. Raises ConfigError."""
    cluster, farm = settings.sources.konflux, settings.sources.testing_farm
    tenants = {
        project: Tenant(each.namespace, each.repository)
        for project, each in cluster.projects.items()
    }
    return join_rows(
        open_konflux(
            cluster.url,
            cluster.archive_url,
            cluster.token,
            cluster.ca_file,
            tenants,
            cluster.ui_url,
        ),
        open_testing_farm(farm.url, farm.results_url, farm.token, farm.repositories),
        load_plugins(),
    )


def list_tool_names(settings: Settings) -> tuple[str, ...]:
    """List every tool and source that a workflow may name. Raises ConfigError."""
    sources = (row.name for row in build_sources(settings))
    return (*(tool.name for tool in TOOLS), *sources, SET_TIER)
