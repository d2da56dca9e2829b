"""What a model may call, and what is behind it: sources, and what they have given."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.core.conversation.messages import ToolCall, ToolResult, ToolSpec
from worker.core.ports.evidence import Place
from worker.core.text.redacted_values import Redacted


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


GREEN, INSTALLED, OUTLINE = SUFFIXES = (".green", ".installed", ".outline")
"""What is put after a log's path for the files beside it: the log of the last run that passed, what
was installed differently then, and the log's times and sections."""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file that goes into the sandbox beside a document's, named like it with a `suffix` more.

    The suffix is one of `SUFFIXES`.
    """

    suffix: str
    chunks: Callable[[], Iterator[Redacted]]
    description: str


@dataclass(frozen=True, slots=True)
class Document:
    """What a source gives, without secrets. `gaps` says what is not in it and why, or "".

    A document too large to hold is a stream: `chunks` opens it, raising SourceError on the way,
    and `data` says in words what it is. `final` is False if the same call may give more later.

    `preview` shows it in so many bytes, where its kind has no better way; `brief` shows it where it
    was only to be saved, in fewer lines. `part` gives about so many bytes of it, line numbers kept,
    for where the whole does not fit. None of them raises. One of up to `shown_whole` bytes is
    shown whole, by `preview`, which may write more than it has.
    """

    data: Redacted
    kind: DocumentKind = DocumentKind.JSON
    gaps: str = ""
    chunks: Callable[[], Iterator[Redacted]] | None = None
    final: bool = True
    lines: int | None = None
    preview: Callable[[int], str] | None = None
    brief: Callable[[int], str] | None = None
    shown_whole: int = 0
    side_files: Callable[[], Iterable[SideFile]] = tuple
    part: Callable[[int], Iterator[Redacted]] | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for data that nobody has redacted."""
        given: object = self.data
        if not isinstance(given, Redacted):
            raise TypeError("a Document is made of Redacted: a source returns a RawDocument")


class Source(Protocol):
    """One read-only data source, bound to the session's project on the host."""

    @property
    def spec(self) -> ToolSpec:
        """Its name, description and arguments; a project is never an argument."""
        ...

    def fetch(self, arguments: str) -> Document:
        """`arguments` is JSON text from the model. Raises ArgumentError or SourceError."""
        ...


class Captures(Protocol):
    """What the session's sources give, as the model was given it, to prove quotes by."""

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
