"""The parts that jobs and turns are given. `wiring` passes real parts, tests pass others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sandbox.base import Driver, Sandbox
from worker.clock import Clock
from worker.conversation.context import Context, NoteRef, Outcome, SessionKey, Subject
from worker.conversation.events import Watcher, ignore_event
from worker.conversation.limits import Limits
from worker.conversation.messages import ToolSpec
from worker.conversation.model import Helper, HelperAnswer, Model
from worker.conversation.questions import Route
from worker.conversation.tiers import TierModel
from worker.conversation.triggers import Trigger
from worker.errors import ConfigError, SandpiperError
from worker.gitlab.ports import BotAccount, IncidentWriter, IssueText, NoteWriter, Reactions
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.record import RequestRecord
from worker.queue.journal import Journal
from worker.queue.leases import Lease, Leases
from worker.safety.markdown import Marker
from worker.sessions.incidents import IncidentStore
from worker.sessions.ledger import LedgerStore
from worker.sessions.projects import KnownFailures, MemoryPart
from worker.sessions.recent import RecentTurns
from worker.sessions.retries import RetryStore
from worker.sessions.store import SessionStore
from worker.settings.playbook import Playbook, Workflow
from worker.settings.runs import (
    Gate,
    IncidentSettings,
    KnownSettings,
    LedgerSettings,
    NoteSettings,
    PlanBy,
    RetrySettings,
)
from worker.tools.source import Toolbox
from worker.turns.day_budget import DayBudget
from worker.verdict.finding import Captures
from worker.verdict.jobs import Survey


def _refuse_model(wanted: TierModel) -> Model:
    """Raise ConfigError instead of making a model."""
    raise ConfigError(f"{wanted.model} is not configured here")


Explain = Callable[[str, Callable[[GitLabReader, bool], RequestRecord]], frozenset[tuple[str, str]]]
"""Returns which errors of a merge request's jobs (full name, key) incidents of its target branch
explain. It is given the branch, and what reads all that incidents have to know of the failure, with
True also which jobs may be run again."""


class NoKnownFailures:
    """See KnownFailures. Nothing is known, and nothing is stored: for dry runs."""

    def read_entry(self, project_id: int, key: str) -> bytes | None:
        """Return None."""
        return None

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Do nothing."""

    def list_keys(self, project_id: int) -> tuple[str, ...]:
        """Return ()."""
        return ()

    def read_memory(self, project_id: int, part: MemoryPart = MemoryPart.FACTS) -> bytes | None:
        """Return None."""
        return None

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        """Do nothing."""


class NothingWritten:
    """See IncidentWriter. No job is run again, and no issue is made: for dry runs."""

    def retry_job(self, project_id: int, job_id: int) -> int | str:
        """Return that this is a dry run."""
        return "a dry run runs no job again"

    def put_issue(self, project_id: int, issue: IssueText, iid: int = 0) -> int:
        """Return `iid`."""
        return iid


class Toolset(Protocol):
    """The tools and sources of one workflow, bound to one subject."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is told about."""
        ...

    @property
    def notes(self) -> str:
        """The sources' part of the system prompt."""
        ...

    @property
    def captures(self) -> Captures:
        """The sources' documents, for checking quotes."""
        ...

    def keep_evidence(
        self, read: Callable[[], bytes | None], write: Callable[[bytes], None]
    ) -> None:
        """Store with the session what quotes may refer to and what may be gone when they are
        checked.

        `read` returns what an earlier turn or worker has written with `write`; both may raise
        StoreError.
        """
        ...

    def survey_failures(self, shown: int = 0, explain: Explain | None = None) -> Survey:
        """Return the failing jobs by cause, read before the model is asked. Raises nothing.

        `shown` is how many bytes of logs, and of the diff, the model is to be shown at once; 0 for
        the excerpts alone. If `explain` explains every error, nothing else is read.
        """
        ...

    def count_redactions(self) -> Mapping[tuple[str, str], int]:
        """Return how many secrets of each kind were redacted in each document read so far."""
        ...

    def open_toolbox(self, sandbox: Sandbox, errors: str) -> Toolbox:
        """Return the toolbox for a running sandbox.

        `errors` is the error text known before a log is read: files and diffs are shown at the
        places that it names.
        """
        ...


@dataclass(frozen=True, slots=True)
class GitLab:
    """GitLab as the host itself reads and writes it. `url` is its base.

    The first three hold the read token, the next three and `incident_writer` the write token.
    `hosts` are the places that a note may link to besides its project.
    """

    pipelines: GitLabReader
    merge_requests: GitLabReader
    permissions: GitLabReader
    bot: BotAccount
    notes: NoteWriter
    reactions: Reactions
    url: str
    hosts: frozenset[str]
    incident_writer: IncidentWriter = field(default_factory=NothingWritten)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of an investigation.

    `model` makes the configured model. `choices` make the models that a comment may ask for, by
    name; `choosable` are globs of other models that it may ask for. `make_model` makes the model of
    a tier, or raises ConfigError; `make_reply_model` that of `models.reply`, without fallbacks.
    Unless the workflow says so itself, `plan` says who plans an investigation, and `gate` who
    judges an answer.
    `toolset` binds the tools of a workflow to a subject. `redact` removes invisible characters and
    secrets. `describe_tools` lists the sandboxes' interpreters and build tools, "" if they are not
    known and it is given no sandbox to ask.
    `helper` answers the host's own small questions; if it is None, rules are used instead.
    `wrap_sandbox` goes around the sandbox that the model's tools work in.
    """

    model: Callable[[], Model]
    sandboxes: Driver
    toolset: Callable[[Subject, Workflow], Toolset]
    playbook: Playbook
    limits: Limits
    clock: Clock
    redact: Callable[[str], str]
    choices: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    describe_tools: Callable[[Sandbox | None], str] = lambda sandbox: ""
    helper: Helper | None = None
    choosable: tuple[str, ...] = ()
    plan: PlanBy = PlanBy.OFF
    gate: Gate = Gate.OFF
    make_model: Callable[[TierModel], Model] = _refuse_model
    make_reply_model: Callable[[TierModel], Model] = _refuse_model
    wrap_sandbox: Callable[[Sandbox], Sandbox] = lambda sandbox: sandbox


@dataclass(frozen=True, slots=True)
class Storage:
    """What outlives a worker.

    `known_failures` is NoKnownFailures, and `incidents` and `ledger` are read-only, if nothing may
    be stored for other sessions. `recent` lists turns for the operators; `budget` limits what
    projects may cost in a day.
    """

    sessions: SessionStore
    known_failures: KnownFailures
    recent: RecentTurns
    budget: DayBudget
    incidents: IncidentStore
    ledger: LedgerStore
    retries: RetryStore


@dataclass(frozen=True, slots=True)
class Queue:
    """The triggers that have not ended, and who works on them. `owner` names this process."""

    journal: Journal
    leases: Leases
    owner: str


@dataclass(frozen=True, slots=True)
class Options:
    """The operators' options for jobs.

    `turns_per_day` is how often one thread is answered in a day. `project_concurrency` is how many
    failures of one project are analysed at a time, 0 for half of a worker's threads. `debounce` is
    how many seconds a failure waits before it is analysed. `page` returns the URL of a session's
    page, "" if there is none. `dry_run` says that nothing is posted; `salt` gives such runs
    sessions of their own. `id_salt` is the secret part of the ids of new sessions; without it they
    have the ids of earlier versions.
    """

    note: NoteSettings = field(default_factory=NoteSettings)
    known_settings: KnownSettings = field(default_factory=KnownSettings)
    incident_settings: IncidentSettings = field(default_factory=IncidentSettings)
    ledger_settings: LedgerSettings = field(default_factory=LedgerSettings)
    retry_settings: RetrySettings = field(default_factory=RetrySettings)
    turns_per_day: int = 20
    project_concurrency: int = 0
    debounce: float = 0.0
    page: Callable[[str], str] = lambda session_id: ""
    dry_run: bool = False
    salt: str = ""
    id_salt: str = ""


@dataclass(frozen=True, slots=True)
class Deps:
    """The parts of a job."""

    gitlab: GitLab
    runtime: Runtime
    storage: Storage
    queue: Queue
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class ReplyRoute:
    """What a reply needs, and the answers of the helper if it was asked about that."""

    route: Route = Route.WORK
    answers: tuple[HelperAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """The state of one run of a trigger."""

    watch: Watcher = ignore_event
    """Is told of its events."""
    model: Callable[[], Model] | None = None
    """Makes the model that was asked for; None means the configured one."""
    give_up_reason: str = ""
    """Why the turn is only reported and not worked on: its runs died, or somebody has ended it."""
    may_postpone: bool = False
    """Whether it may wait for an unavailable model."""
    may_pay: bool = True
    """Whether an analysis of a branch may begin now: a project has one at a time. Where it may not,
    `Busy` ends the run, which is tried again within seconds."""
    reply_route: ReplyRoute = ReplyRoute()
    """What a reply needs."""
    begin: Callable[[Trigger], None] = lambda trigger: None
    """Begins another trigger, which is kept until it has ended. A run that has no queue begins
    none."""
    is_last_look: bool = True
    """Whether an answer of GitLab's that ends it is to be believed: it has been the same for long,
    or there will be no other run."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one turn, besides its context."""

    workflow: Workflow
    """In the form that fits the model."""
    limits: Limits
    """The operator's, with people's choices of models for tiers."""
    hosts: frozenset[str]
    """The places that its note may link to."""

    def limits_for(self, model: Model) -> Limits:
        """Return the limits, tightened by the workflow and by the model's window."""
        most = self.limits.max_iterations
        changes = self.workflow.context.model_dump(exclude_unset=True)
        return self.limits.model_copy(
            update={
                "max_iterations": min(most, self.workflow.max_iterations or most),
                "context_tokens": min(self.limits.context_tokens, model.context_tokens),
                "context": self.limits.context.model_copy(update=changes),
            }
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn about to be taken, under a lease.

    `files_of` are the turns whose files may be restored; the first one that can be is used.
    `is_continued` says that its context is from another run, which did not finish. `is_unasked`
    says that nobody has asked for it, so that a known failure may answer it. `is_private` says that
    its note is internal, and that nothing of it may be stored for other sessions. The context's
    note says whether it is in an internal thread or an internal note by itself.
    """

    key: SessionKey
    context: Context
    terms: Terms
    files_of: Sequence[int]
    lease: Lease
    is_continued: bool = False
    is_unasked: bool = False
    is_private: bool = False

    @property
    def marker(self) -> Marker:
        """The marker in the turn's note."""
        return Marker(self.key.session_id, self.context.note_turn)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be done, for `reason`. `at_work` says that another worker is doing it,
    `is_certain` that no answer of GitLab's can change that."""

    reason: str
    at_work: bool = False
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn was taken: its outcome, the note's body, and the turn's place in the store."""

    key: SessionKey
    turn: int
    outcome: Outcome
    body: str
    note: NoteRef
    location: str


Ended = Skipped | Finished


class Stopped(SandpiperError):
    """The run must end with what it has so far; the message is the reason that is posted."""


@dataclass(frozen=True, slots=True)
class NotesMarked:
    """A pipeline passed: the sessions whose notes say so now."""

    pipeline_id: int
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedPipeline:
    """A failure that GitLab tells of: its pipeline, which ended at `ended_at` by GitLab's clock
    (epoch seconds; 0 if that is not known, or if the pipeline still runs)."""

    subject: Subject
    ended_at: float = 0.0
