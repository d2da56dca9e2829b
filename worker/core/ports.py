"""Every boundary of the house on one screen. Implementations don't inherit; tables are typed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.core.context import NoteRef, Subject
from worker.core.identity import Marker
from worker.core.messages import Message, ToolCall, ToolResult, ToolSpec, Usage
from worker.core.triggers import PipelineFailed

# ---------------------------------------------------------------------------------------- models


class StopReason(StrEnum):
    """Why the model stopped (wire-models, "Common adapter contract")."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    BLOCKED = "blocked"
    PAUSED = "paused"
    CONTEXT_OVERFLOW = "context_overflow"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Request:
    """One model call.

    `notice` is ephemeral text for the tail. `marks` are positions in `groups(messages)` that carry
    a cache mark. `deadline` is in monotonic seconds: no attempt starts or waits past it. `session`
    is the same for all requests of a session: providers route by it to a warm cache.
    """

    system: str
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    notice: str = ""
    tools_allowed: bool = True
    marks: tuple[int, ...] = ()
    deadline: float | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One model answer in canonical form. `wire` is the JSON text of the answer's content.

    `calls` is empty unless `stop` is TOOL_CALLS or END: a truncated call is never executed, only
    counted in `dropped`. `thought` says that `wire` holds signed thinking. `cost_usd` is None when
    the model's price is unknown.
    """

    text: str
    calls: tuple[ToolCall, ...]
    wire: str
    stop: StopReason
    usage: Usage
    cost_usd: float | None
    detail: str = ""
    dropped: int = 0
    thought: bool = False


class Model(Protocol):
    """A language model behind one provider."""

    @property
    def name(self) -> str:
        """provider/model, as configured; also the origin of verbatim wire parts."""
        ...

    @property
    def context_tokens(self) -> int:
        """The largest input, in tokens, that leaves room for an answer."""
        ...

    @property
    def binds_thinking(self) -> bool:
        """Whether signed thinking is bound to the exact prefix (wire-models 1.6)."""
        ...

    @property
    def keeps_cache_without_tools(self) -> bool:
        """Whether a request with the tools switched off still reads the cached messages."""
        ...

    def reply(self, request: Request) -> Reply:
        """Ask once, retrying what is transient. Raises ModelError or ContextOverflow."""
        ...


# ----------------------------------------------------------------------------------------- tools


class Toolbox(Protocol):
    """Everything the model may call."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, in a fixed order."""
        ...

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator["Ran"]:
        """The result of each call, in call order. `first` numbers the first call of the batch.

        A failing tool is a result with `is_error`. Raises only SandboxLost.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ran:
    """A tool result with what it took: bytes produced, seconds."""

    result: ToolResult
    size: int
    seconds: float


class DocumentKind(StrEnum):
    """How a document is previewed."""

    JSON = "json"
    TEXT = "text"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Document:
    """What a source returns. `missing` says what is not in it and why, or "".

    A document too large to hold is a stream: `chunks` opens it, raising SourceError on the way,
    and `data` says in words what it is. `final` is False if the same call may give more later.
    """

    data: bytes
    kind: DocumentKind = DocumentKind.JSON
    missing: str = ""
    chunks: Callable[[], Iterator[bytes]] | None = None
    final: bool = True


class Source(Protocol):
    """One read-only data source, bound to the session's project on the host."""

    @property
    def spec(self) -> ToolSpec:
        """Its name, description and arguments; a project is never an argument (law 2)."""
        ...

    def fetch(self, arguments: str) -> Document:
        """`arguments` is JSON text from the model. Raises ArgumentError or SourceError."""
        ...


class LogLines(Protocol):
    """Captured job logs, to prove quotes by (law 5)."""

    def line(self, job_id: int, number: int) -> str | None:
        """Line `number` (from 1) of the cleaned log of a job of the session's project, or None."""
        ...

    def url(self, job_id: int, number: int) -> str:
        """A link to that line on the job's page."""
        ...


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job and the lines of its log that most likely explain it."""

    job_id: int
    name: str
    reason: str
    url: str
    excerpt: str


# ---------------------------------------------------------------------------------------- GitLab


@dataclass(frozen=True, slots=True)
class ThreadNote:
    """One note of a thread. `at` is when it was written, in GitLab's epoch seconds."""

    note_id: int
    author_id: int
    body: str
    system: bool = False
    internal: bool = False
    at: float = 0.0


class Desk(Protocol):
    """What the job itself reads of GitLab, with the read token. All raise SourceError."""

    def subject(self, trigger: PipelineFailed) -> Subject | str:
        """The merge request of a failed pipeline, or the reason why there is nothing to do."""
        ...

    def find(self, project: str, mr_iid: int, pipeline_id: int | None) -> Subject | str:
        """The same for a merge request named by a human; its newest failed pipeline by default.

        `project` is a path, or an id as text.
        """
        ...

    def superseded(self, subject: Subject) -> str:
        """Why its pipeline does not matter any more, or "". Raises nothing."""
        ...

    def same_commit(self, subject: Subject) -> Sequence[int]:
        """Other failed pipelines of the merge request on the same commit, newest first."""
        ...

    def failing(self, since: float) -> Iterator[PipelineFailed | str]:
        """The newest pipelines of open merge requests touched since (epoch seconds) that failed.

        Of the configured projects, or all that the token is a member of; where a part cannot be
        read, the reason. Bounded, and slow on purpose. Raises nothing.
        """
        ...

    def thread(self, project_id: int, mr_iid: int, discussion_id: str) -> Sequence[ThreadNote]:
        """The notes of a thread, oldest first."""
        ...

    def may_command(self, project_id: int, user_id: int) -> bool:
        """Whether the user is a member of the project at or above `reply_min_access`."""
        ...

    def is_bot(self, user_id: int) -> bool:
        """Whether GitLab says that the account is not a person's."""
        ...

    def since(self, subject: Subject) -> Sequence[str]:
        """What has changed on the merge request since, one line each. Raises nothing."""
        ...


class Forge(Protocol):
    """GitLab, written to, with the write token. All raise ForgeError."""

    def me(self) -> int:
        """The bot's own user id."""
        ...

    def handle(self) -> str:
        """The bot's own user name, by which it is mentioned; "" if nobody can."""
        ...

    def find(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """The bot's own note that carries `marker`, also after a lost answer to `post`."""
        ...

    def post(self, subject: Subject, body: str, discussion_id: str) -> NoteRef:
        """A new note, in the thread `discussion_id` unless it is ""."""
        ...

    def edit(self, subject: Subject, note: NoteRef, body: str) -> None:
        """Replace a note's body."""
        ...

    def acknowledge(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Show on somebody's note that it was seen; once, however often it is called."""
        ...

    def forget(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Take the acknowledgement back, if it is there."""
        ...


# -------------------------------------------------------------------------------------- sessions


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Where a session lies in the store."""

    project_id: int
    mr_iid: int
    session_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on a turn. `trigger_id` says on behalf of what; `until` is in epoch seconds."""

    owner: str
    trigger_id: str
    until: float


class SessionStore(Protocol):
    """Where sessions outlive workers. All raise StoreError."""

    def latest(self, key: SessionKey) -> int | None:
        """The highest turn that has a `context.json`, or None."""
        ...

    def read_context(self, key: SessionKey, turn: int) -> bytes:
        """The committed `context.json` of a turn."""
        ...

    def open_files(
        self, key: SessionKey, turn: int
    ) -> AbstractContextManager[Iterator[bytes]] | None:
        """The chunks of a turn's `sandbox.tar.gz`, or None if it has none."""
        ...

    def write_files(self, key: SessionKey, turn: int, chunks: Iterable[bytes]) -> int:
        """Store `sandbox.tar.gz` from a stream, before the turn is committed. Returns its bytes."""
        ...

    def commit(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Write `context.json` if the turn has none. Raises TurnTaken if it has (law 10)."""
        ...

    def claim(self, key: SessionKey, turn: int, claim: Claim, now: float) -> Claim | None:
        """Take the turn for `claim.owner`; None on success, else the claim that holds it.

        A claim past its `until` is taken over. Atomic against every other worker.
        """
        ...

    def release(self, key: SessionKey, turn: int, claim: Claim) -> None:
        """Give the turn up, if `claim` still holds it."""
        ...

    def checkpoint(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Keep the unfinished turn's context; replaced by the next one, gone after `commit`."""
        ...

    def read_checkpoint(self, key: SessionKey, turn: int) -> bytes | None:
        """The unfinished turn's last checkpoint, or None."""
        ...

    def find(self, session_id: str) -> SessionKey | None:
        """The key of a session by its id alone (or a unique beginning of it)."""
        ...

    def sessions(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[SessionKey]:
        """Every stored session, or those of one merge request."""
        ...

    def holder(self, key: SessionKey, turn: int, now: float) -> Claim | None:
        """Who works on the turn, or None."""
        ...

    def stop(self, key: SessionKey, turn: int, reason: str) -> None:
        """Ask whoever works on the turn to end it. The first reason stands."""
        ...

    def stopped(self, key: SessionKey, turn: int) -> str:
        """The reason given to `stop`, or ""."""
        ...

    def erase(self, key: SessionKey, before: int) -> None:
        """Remove all objects of the turns before `before`, which must itself be committed."""
        ...

    def location(self, key: SessionKey, turn: int) -> str:
        """Where the turn's objects lie, for a human."""
        ...


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
