"""Every boundary of the house on one screen, but for those to GitLab (`core.gitlab`).

Implementations don't inherit; tables are typed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.core.messages import Message, ToolCall, ToolResult, ToolSpec, Usage
from worker.core.places import Place
from worker.core.records import Records

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

    def repeatable(self, call: ToolCall) -> bool:
        """Whether the call only reads, so that running it again changes nothing."""
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
class Beside:
    """A file that goes into the sandbox beside a document's, named like it with a `suffix` more."""

    suffix: str
    chunks: Callable[[], Iterator[bytes]]
    about: str


@dataclass(frozen=True, slots=True)
class Document:
    """What a source returns. `missing` says what is not in it and why, or "".

    A document too large to hold is a stream: `chunks` opens it, raising SourceError on the way,
    and `data` says in words what it is. `final` is False if the same call may give more later.

    `preview` shows it in so many bytes, where its kind has no better way. `part` gives about so
    many bytes of it, line numbers kept, for where the whole does not fit. Neither raises.
    """

    data: bytes
    kind: DocumentKind = DocumentKind.JSON
    missing: str = ""
    chunks: Callable[[], Iterator[bytes]] | None = None
    final: bool = True
    lines: int | None = None
    preview: Callable[[int], str] | None = None
    beside: Callable[[], Iterable[Beside]] = tuple
    part: Callable[[int], Iterator[bytes]] | None = None


class Source(Protocol):
    """One read-only data source, bound to the session's project on the host."""

    @property
    def spec(self) -> ToolSpec:
        """Its name, description and arguments; a project is never an argument (law 2)."""
        ...

    def fetch(self, arguments: str) -> Document:
        """`arguments` is JSON text from the model. Raises ArgumentError or SourceError."""
        ...


class Captures(Protocol):
    """What the session's sources give, as the model was given it: to prove quotes by (law 5)."""

    def lines(self, place: Place) -> Sequence[str]:
        """The lines of a document of the session's project; line N is item N - 1.

        Raises SourceError or ArgumentError with the reason why there are none.
        """
        ...

    def url(self, place: Place, first: int, last: int) -> str:
        """A link to these lines of a place that `lines` has read, "" if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job and the lines of its log that most likely explain it."""

    job_id: int
    name: str
    reason: str
    url: str
    excerpt: str


# -------------------------------------------------------------------------------------- sessions


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Where a session lies in the store."""

    project_id: int
    mr_iid: int
    session_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on a turn. `trigger_id` says on behalf of what; `until` is in epoch seconds.

    `fence` is how often the turn was taken over from a dead owner.
    """

    owner: str
    trigger_id: str
    until: float
    fence: int = 0


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

    def claim(
        self, key: SessionKey, turn: int, claim: Claim, now: float, over: Claim | None = None
    ) -> Claim | None:
        """Take the turn for `claim.owner`; None on success, else the claim that holds it.

        A claim past its `until` is taken over, and `over`, whose owner was found dead. Atomic
        against every other worker.
        """
        ...

    @property
    def records(self) -> Records:
        """The small records that all workers on this store share."""
        ...

    def tidy(self, key: SessionKey, turn: int) -> None:
        """Remove what a worker that died right after `commit` has left of its work."""
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
        """Every stored session, or those of one project, or of one of its merge requests."""
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

    def record_after(self, key: SessionKey, turn: int, after: bytes) -> None:
        """Keep what became of a committed turn's pipeline, as `after.json`. The first stands."""
        ...

    def after(self, key: SessionKey, turn: int) -> bytes | None:
        """What `record_after` has kept, or None."""
        ...

    def feedback(self, key: SessionKey, turn: int) -> bytes | None:
        """What `change_feedback` has kept, or None."""
        ...

    def change_feedback(
        self, key: SessionKey, turn: int, made: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace a stored turn's `feedback.json` by what `made` makes of it, unless that is None.

        Atomic against every other worker: `made` is asked again if another was faster.
        """
        ...

    def erase(self, key: SessionKey, before: int) -> None:
        """Remove all objects of a session but the commit of the turn `before`, and its claim."""
        ...

    def touched(self, key: SessionKey) -> float | None:
        """When its latest turn was committed or else anything was written (epoch), or None."""
        ...

    def remove(self, key: SessionKey) -> None:
        """Remove all objects of a session. Whoever does so holds its next turn."""
        ...

    def location(self, key: SessionKey, turn: int) -> str:
        """Where the turn's objects lie, for a human."""
        ...


class KnownFailures(Protocol):
    """What is known of a project's errors, by their signatures' keys. All raise StoreError."""

    def read(self, project_id: int, key: str) -> bytes | None:
        """The entry of an error, or None."""
        ...

    def change(
        self, project_id: int, key: str, made: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace an entry by what `made` makes of it, None standing for no entry.

        Atomic against every other worker: `made` is asked again if another was faster.
        """
        ...

    def keys(self, project_id: int) -> tuple[str, ...]:
        """The keys of all entries of a project, at most some thousands."""
        ...


class RecentTurns(Protocol):
    """Turns by the time they began, for the operators. All raise StoreError."""

    def put(self, key: SessionKey, turn: int, at: float, row: bytes) -> None:
        """List a turn that began `at` (epoch seconds), or replace its row."""
        ...

    def newest(
        self, limit: int, before: str = "", project_id: int = 0
    ) -> Iterator[tuple[str, bytes]]:
        """Rows with their cursors, the newest first, those after the cursor `before` only.

        At most `limit` rows are read, and some thousand names looked at.
        """
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
