"""`gitlab_get_file`: one file of the repository at a commit."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from pydantic import Field

from worker.errors import ArgumentError
from worker.gitlab.read.api import Blob, NoSuchFile
from worker.gitlab.read.base import RawDocument, Ref, SourceDef, redact_document
from worker.gitlab.read.session_reader import Reader
from worker.safety.redacted_values import assume_redacted
from worker.tools.arguments import Arguments
from worker.tools.source import Document, DocumentKind
from worker.verdict.previews import find_lines, preview_file

MAX_BYTES = 4 * 1024 * 1024

SHOWN_WHOLE = 1024
"""Most bytes of a file that is shown whole even where the window is small."""

BRIEF = 10
"""Lines that are shown of a file that is only saved to the sandbox."""

_SAMPLE = 8192  # bytes that are searched for a NUL, the mark of a binary file
_CUT = re.compile(r"\[\.\.\. \d+ bytes of this file are left out here \.\.\.\]")


class File(Arguments):
    """Which file, and as of when."""

    path: str = Field(min_length=1, max_length=1000, description="Like src/app.py.")
    ref: Ref = ""
    first_line: int = Field(default=0, ge=0, description="Default: 1.")
    last_line: int = Field(default=0, ge=0, description="Default: the last.")


def fetch(args: File, reader: Reader) -> Document:
    """Read the file, or only the start and end of a large one; of a range, the numbered lines."""
    path = check_path(args.path)
    document = redact_document(_read_whole(args, path, reader), reader.redact)
    lines = list_known_lines(document)
    if args.first_line or args.last_line:
        return _cut_range(args, document, lines)

    def preview(limit: int, most: int | None = None) -> str:
        numbered = "".join(_number_lines(lines)) if len(document.data) <= limit else ""
        # Thousands of empty lines would cost many times what the file has.
        if most is None and 0 < len(numbered) <= 2 * limit:
            return numbered
        named = find_lines(path, lines, reader.logs.get_error_text())
        return preview_file(lines, named, limit, most)

    if b"\0" in document.data[:_SAMPLE]:  # a binary file
        return document
    brief = partial(preview, most=BRIEF)
    return replace(document, preview=preview, brief=brief, shown_whole=SHOWN_WHOLE)


def _read_whole(args: File, path: str, reader: Reader) -> RawDocument:
    ref = args.ref or reader.subject.sha
    try:
        blob = reader.read_first(lambda project: read_from_project(project, reader, path, ref), ref)
    except NoSuchFile as error:  # the model's guess was wrong, no evidence is missing
        raise ArgumentError(
            f"path: there is no {path} at {ref}; gitlab_list_files names the files"
        ) from error
    return join_ends(blob)


def join_ends(blob: Blob) -> RawDocument:
    """Return a file as a document; where its middle was left out, a line says so."""
    if not blob.omitted_bytes:
        return RawDocument(blob.head)
    mark = f"\n[... {blob.omitted_bytes} bytes of this file are left out here ...]\n".encode()
    missing = f"{blob.omitted_bytes} of the file's {blob.size} bytes, cut from its middle"
    return RawDocument(blob.head + mark + blob.tail, missing)


def list_known_lines(document: Document) -> list[str]:
    """List the lines of a file whose numbers are known: all, or those before a cut."""
    lines = [line.rstrip("\r") for line in document.data.decode(errors="replace").split("\n")]
    if document.gaps:
        cut = next((at for at, line in enumerate(lines) if _CUT.fullmatch(line)), len(lines))
        return lines[:cut]
    return lines if lines[-1] else lines[:-1]


def _cut_range(args: File, whole: Document, lines: Sequence[str]) -> Document:
    """Cut lines from the redacted file: a multi-line secret is found only in the whole file."""
    first, last = max(args.first_line, 1), args.last_line or len(lines)
    if first > min(last, len(lines)):
        raise ArgumentError(
            f"first_line, last_line: there are no lines {first} to {last}: {args.path} has "
            f"{len(lines)} lines" + (f" that are known ({whole.gaps})" if whole.gaps else "")
        )
    heading = f"[{args.path}, {len(lines)} lines]\n"
    shown = "".join(_number_lines(lines[first - 1 : last], first))
    return Document(assume_redacted((heading + shown).encode()), DocumentKind.TEXT)


def _number_lines(lines: Iterable[str], first: int = 1) -> Iterator[str]:
    for number, line in enumerate(lines, first):
        yield f"{number}: {line}\n"


def read_from_project(project: str, reader: Reader, path: str, ref: str) -> Blob:
    """Return a file of one project, which is given by its API path. Raises SourceError."""
    url = f"{project}/repository/files/{quote(path, safe='')}/raw"
    return reader.client.blob(url, f"the file {path} at {ref}", MAX_BYTES, {"ref": ref})


def check_path(path: str) -> str:
    """Return `path`. Raises ArgumentError unless it is a plain path that is safe in a URL."""
    parts = path.split("/")
    if {"", ".", ".."} & set(parts) or not path.isprintable():
        raise ArgumentError(f"path: {path!r} is not the plain path of a file in the repository")
    return path


FILE = SourceDef(
    name="gitlab_get_file",
    description=(
        "A file of the repository, or a range of its lines. Lines are shown numbered, as `12: "
        "text`; a whole file is saved without numbers. Of a long one you see what is near the "
        "places that the failing jobs' logs name."
    ),
    args=File,
    fetch=fetch,
)
