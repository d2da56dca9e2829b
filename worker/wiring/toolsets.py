"""Builds the tools and sources of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sandbox.base import Sandbox
from worker.conversation.context import Subject
from worker.conversation.messages import ToolSpec
from worker.conversation.model_switch import SET_TIER
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.safety.redact import Redactor
from worker.settings import Settings
from worker.settings.playbook import Workflow
from worker.settings.runs import PlanBy
from worker.sources.konflux import Tenant, open_konflux
from worker.sources.plugins import load_plugins
from worker.sources.table import Rows, bind_sources, join_rows, write_notes
from worker.sources.testing_farm import open_testing_farm
from worker.tools.base import SavedDocuments, ToolContext
from worker.tools.documents import has_file
from worker.tools.source import Source, Toolbox
from worker.tools.toolbox import FIND_TOOL_USES, TOOLS, WorkflowToolbox, list_specs, make_find_tool
from worker.turns.parts import Toolset
from worker.verdict.finding import Captures
from worker.verdict.jobs import Survey

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

    def survey_failures(self, shown: int = 0) -> Survey:
        """Return the failing jobs by cause."""
        return read_survey(self.reader, shown=shown)

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


def make_toolset_factory(
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
        reader = open_reader(subject, redactor.redact_data)
        return _WorkflowToolset(
            *(reader, rows, bind_sources(reader, rows), workflow, timeout, shown),
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
            *(cluster.url, cluster.archive_url, cluster.token, cluster.ca_file, tenants),
            cluster.ui_url,
        ),
        open_testing_farm(farm.url, farm.results_url, farm.token, farm.repositories),
        load_plugins(),
    )


def list_tool_names(settings: Settings) -> tuple[str, ...]:
    """List every tool and source that a workflow may name. Raises ConfigError."""
    sources = (row.name for row in build_sources(settings))
    return (*(tool.name for tool in TOOLS), *sources, SET_TIER)
