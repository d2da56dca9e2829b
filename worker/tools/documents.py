"""Documents of sources on their way to the model: inline, or a file with a preview."""

import json
from typing import Any

from sandbox.base import DATA, OUT, SandboxLimit
from worker.core import logs
from worker.core.ports import Document, DocumentKind
from worker.core.preview import head_and_tail
from worker.errors import ArgumentError
from worker.tools.base import Bench, Made

INLINE = 4096
"""The most bytes of one document that the model sees unasked (design, section 5)."""


def inline(document: Document, bench: Bench, number: int) -> Made:
    """The document itself if it is small, else a file in the sandbox and a preview."""
    if document.chunks is None and len(document.data) <= INLINE:
        return Made({"result": _value(document)} | _missing(document), len(document.data))
    return fetched(document, bench, f"{OUT}/{number}.txt", INLINE)


def fetched(document: Document, bench: Bench, path: str, limit: int) -> Made:
    """The document as a file at `path`, with a preview of at most `limit` bytes."""
    content = saved(document, bench, path, limit)
    return Made(content | _missing(document), content["bytes"])


def saved(document: Document, bench: Bench, path: str, limit: int) -> dict[str, Any]:
    """Write the document to `path`.

    Raises ArgumentError if it cannot be written there, SourceError if its stream breaks off.
    """
    try:
        size = bench.sandbox.put(path, document.chunks() if document.chunks else [document.data])
    except (ValueError, SandboxLimit) as error:
        raise ArgumentError(f"cannot save to {path!r}: {error}") from error
    shown = preview(document, limit)
    if document.chunks:
        return {"saved_to": path, "bytes": size, "preview": shown}
    lines = document.data.count(b"\n")
    return {"saved_to": path, "bytes": size, "lines": lines, "preview": shown}


def preview(document: Document, limit: int) -> str:
    """At most `limit` bytes: of a log the lines that explain the failure, else head and tail."""
    if document.kind is DocumentKind.LOG:
        return logs.preview(document.data, limit)
    return head_and_tail(document.data.decode(errors="replace"), limit)


def check_path(path: str) -> None:
    """Raise ArgumentError unless `path` is a file's under /tmp/data."""
    if not path.startswith(f"{DATA}/") or path.endswith("/") or ".." in path.split("/"):
        raise ArgumentError(f"path: {path!r} is not a file path under {DATA}/")


def _value(document: Document) -> Any:
    text = document.data.decode(errors="replace")
    if document.kind is not DocumentKind.JSON:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _missing(document: Document) -> dict[str, Any]:
    return {"missing": document.missing} if document.missing else {}
