"""The tools that a model may call, the sources behind them, and the documents they give."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.conversation.messages import ToolCall, ToolResult, ToolSpec
from worker.safety.redacted_values import Redacted


class Toolbox(Protocol):
    """Everything the model may call."""

    def is_repeatable(self, call: ToolCall) -> bool:
        """Whether the call only reads, so that running it again changes nothing."""
        ...

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator["Ran"]:
        """The result of each call, in call order. `first` numbers the first call of the batch.

        A failing tool is a result with `is_error`. Raises only SandboxLost.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ran:
    """A tool result, with the bytes that the tool produced and the seconds it took."""

    result: ToolResult
    size: int
    seconds: float


class DocumentKind(StrEnum):
    """How a document is previewed."""

    JSON = "json"
    TEXT = "text"
    LOG = "log"


GREEN, INSTALLED, OUTLINE = SUFFIXES = (".green", ".installed", ".outline")
"""Suffixes of a log's path for the files beside it: the log of the last run that passed, what was
installed differently then, and the log's times and sections."""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file that is saved in the sandbox beside a document, under its path plus `suffix`.

    The suffix is one of `SUFFIXES`.
    """

    suffix: str
    chunks: Callable[[], Iterator[Redacted]]
    description: str


@dataclass(frozen=True, slots=True)
class Document:
    """What a source gives, without secrets. None of its functions raises, but for `chunks`."""

    data: Redacted
    """All of it; of a stream, what it is, in words."""
    kind: DocumentKind = DocumentKind.JSON
    gaps: str = ""
    """What is missing from it and why, or ""."""
    chunks: Callable[[], Iterator[Redacted]] | None = None
    """Opens a document too large for memory; may raise SourceError while it is read."""
    final: bool = True
    """False if the same call may give more later."""
    lines: int | None = None
    preview: Callable[[int], str] | None = None
    """Shows it in the given number of bytes, instead of the usual preview of its kind."""
    brief: Callable[[int], str] | None = None
    """Does so in fewer lines, if it was only to be saved."""
    shown_whole: int = 0
    """Up to this size it is shown whole by `preview`, which may write more than it has."""
    side_files: Callable[[], Iterable[SideFile]] = tuple
    part: Callable[[int], Iterator[Redacted]] | None = None
    """Gives about the given number of bytes of it, with its line numbers kept, if the whole does
    not fit."""

    def __post_init__(self) -> None:
        """Raises TypeError for data that nobody has redacted."""
        data: object = self.data
        if not isinstance(data, Redacted):
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
