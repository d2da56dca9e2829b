"""A source as a row of the table, and how its documents are written.

To add a source of your own, install a package with an entry point in the group `sandpiper.sources`:

    [project.entry-points."sandpiper.sources"]
    weather = "our_package.sources:ROWS"

that names one SourceDef or a sequence of them. Every SourceDef must keep these rules:

- `name` is `[a-z][a-z0-9_]*`, at most 64 characters, not taken, and begins with a word of its own
  (`weather_get_forecast`); a workflow offers it if its `tools:` name it (`weather_*`).
- `args` is a subclass of worker.tools.arguments.Arguments; each field has a description. No
  argument names a project, host or URL: what is read is bound to `reader.subject` on the host.
- `fetch(args, reader)` only reads, and ends within about `timeout` seconds. It sets time-outs on
  its own HTTP calls and refuses redirects. Several threads may call it at once.
- It returns a RawDocument of unchanged values: Sandpiper redacts it, writes JSON or text, and cuts
  it to `cap` bytes. `missing` says what is not in it, and why.
- If there is nothing at all (expired, no permission, rate limit), it raises SourceError of
  worker.errors with a message for the model; for invalid arguments, it raises ArgumentError.
  The exceptions in worker.errors.UNFORESEEN, and those of httpx and zlib, become a SourceError.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read.evidence import KeptPlace
from worker.gitlab.read.redactions import Packed, Redactions, repack
from worker.gitlab.read.session_reader import Reader
from worker.safety.redacted_values import Redacted, assume_redacted
from worker.safety.untrusted import UNSEEN
from worker.tools.arguments import Arguments
from worker.tools.source import Document, DocumentKind

A = TypeVar("A", bound=Arguments)

TIMEOUT = 60.0
"""Most seconds of one call, after which a request under way may still use up its own time-out."""

CAP = 32 * 1024 * 1024
"""Bytes of one document in memory."""


def always(subject: Subject) -> bool:
    """Offer the source to every session."""
    return True


def has_merge_request(subject: Subject) -> bool:
    """Offer the source where the pipeline is a merge request's."""
    return not subject.branch


@dataclass(frozen=True, slots=True)
class RawDocument:
    """What a source has read, not yet redacted: only `redact_document` makes a Document of it.

    A document that is too large for memory or is not text is a stream, `chunks` or `files`, which
    may raise SourceError; `content` then says what it is.
    """

    content: Mapping[str, Any] | str | bytes
    """A mapping, which becomes JSON, or text."""
    missing: str = ""
    """What is not in it and why, or ""."""
    final: bool = True
    """False if the same call may give more later."""
    is_log: bool = False
    """Set for text whose preview should show the lines that explain a failure."""
    chunks: Callable[[], Iterable[bytes]] | None = None
    """Opens a stream of pieces of whole lines."""
    files: Callable[[], Iterable[Packed]] | None = None
    """Opens a tree, which is passed on as a tar.gz."""
    place: KeptPlace | None = None
    """Set if the original may be gone when quotes are checked: then the document is kept with the
    session under this name, which quotes use."""
    url: str = ""
    """A link to the document at `place`."""


@dataclass(frozen=True, slots=True)
class SourceDef(Generic[A]):
    """One read-only source."""

    name: str
    description: str
    args: type[A]
    """They never name a project."""
    fetch: Callable[[A, Reader], RawDocument | Document]
    """Returns what it has read, or a Document that is redacted already. Raises SourceError."""
    note: str = ""
    """A line in the system prompt: what the description has no room for, such as how it is
    quoted."""
    timeout: float = TIMEOUT
    """In seconds."""
    cap: int = CAP
    """In bytes."""
    applies: Callable[[Subject], bool] = always
    """Only sessions for which it returns True are offered the source."""


class NoArguments(Arguments):
    """For sources that are fully bound to the session."""


class OfJob(Arguments):
    """The arguments of a source that is about one job."""

    job_id: int = Field(gt=0, description="The job's id.")


Ref = Annotated[
    str,
    Field(
        max_length=300,
        description="Branch, tag or commit; default: the pipeline's commit.",
    ),
]
"""An argument that names a commit; "" for the one the pipeline ran on."""


def redact_document(raw: RawDocument, redact: Redactions) -> Document:
    """Redact what a source has read. Raises SourceError for invalid JSON."""
    content, kind = raw.content, DocumentKind.LOG if raw.is_log else DocumentKind.TEXT
    if isinstance(content, Mapping):
        kind = DocumentKind.JSON
        try:
            data = redact.redact_to_json(content)
        except (TypeError, ValueError, RecursionError) as error:
            raise SourceError(f"what was read is no JSON: {error}") from error
    else:
        data = redact(content.encode(errors="replace") if isinstance(content, str) else content)
        if kind is DocumentKind.TEXT:
            data = _reveal_invisible(data)
    return Document(data, kind, raw.missing, _make_opener(raw, redact), raw.final)


def _make_opener(raw: RawDocument, redact: Redactions) -> Callable[[], Iterator[Redacted]] | None:
    files, chunks = raw.files, raw.chunks
    if files is not None:
        return lambda: repack(files(), redact)
    return (lambda: redact.redact_stream(chunks())) if chunks is not None else None


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields without those that are None, "", False or an empty list; 0 is kept."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ("", [])
    }


def _reveal_invisible(data: Redacted) -> Redacted:
    """Write each invisible character in the form `<U+200B>`; bytes that are not UTF-8 stay.

    Such characters hide text from humans. They can also break a build, so they are not removed.
    """
    if data.isascii():
        return data

    def name(found: re.Match[str]) -> str:
        code = ord(found[0])
        is_plain = code < 0x80 or 0xD800 <= code <= 0xDFFF
        return found[0] if is_plain else f"<U+{code:04X}>"

    text = UNSEEN.sub(name, data.decode("utf-8", "surrogateescape"))
    return assume_redacted(text.encode("utf-8", "surrogateescape"))
