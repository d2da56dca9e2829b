"""Gives documents of sources to the model: inline, or as a file with a preview."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from sandbox.base import DATA, OUT, Sandbox, SandboxLimit
from worker.errors import ArgumentError
from worker.logs.excerpt import preview_log
from worker.logs.preview import head_and_tail, most_shown
from worker.tools.base import ToolContext, ToolOutput
from worker.tools.source import (
    GREEN,
    INSTALLED,
    OUTLINE,
    SUFFIXES,
    Document,
    DocumentKind,
    SideFile,
)

_SEEN = "the same document, unchanged, was saved before: {}; look at parts of it there"

PARTS = (64 << 20, 16 << 20, 2 << 20)
"""The sizes that are tried in turn if a document does not fit into the sandbox."""


def show_document(
    document: Document, context: ToolContext, number: int, known_path: str = ""
) -> ToolOutput:
    """Return a small document itself; save a large one in the sandbox and return a preview.

    A document that was already saved at `known_path` is not saved again.
    """
    size = len(document.data)
    whole = min(document.shown_whole, context.whole_bytes)
    most = max(most_shown(context.preview_bytes), whole)
    if document.chunks is None and size <= most:
        shown = make_preview(document, size) if whole else _parse_value(document)
        return ToolOutput({"result": shown} | _describe_omission(document), size)
    if known_path:
        return ToolOutput({"saved_to": known_path, "preview": _SEEN.format(known_path)}, size)
    return _save(
        document, context, f"{OUT}/{number}.txt", make_preview(document, context.preview_bytes)
    )


def save_document(
    document: Document,
    context: ToolContext,
    path: str,
    limit: int,
    alike: int = 1,
    known_path: str = "",
) -> ToolOutput:
    """Save the document at `path`; returns a preview of at most `limit` bytes.

    `alike` documents of the same source share the bytes for documents that are shown whole. A
    document that was already saved at `known_path` has no preview.
    """
    if known_path:
        return _save(document, context, path, _SEEN.format(known_path))
    whole = min(document.shown_whole, context.whole_bytes) // alike
    room = whole if len(document.data) <= whole else limit
    preview = document.brief(room) if document.brief else make_preview(document, room)
    return _save(document, context, path, preview)


def _save(document: Document, context: ToolContext, path: str, shown: str) -> ToolOutput:
    """Write the document to `path`; `shown` is its preview.

    Raises ArgumentError if it cannot be written there, SourceError if its stream breaks off.
    """
    beside = tuple(document.side_files())
    own = _list_leftovers(beside, context, path)
    size, cut = _put(document, context, path)
    content: dict[str, Any] = {"saved_to": path, "bytes": size} | cut
    if document.lines is not None or not document.chunks:
        content["lines"] = _count_lines(document)
    content["preview"] = shown
    content |= _put_beside(beside, own, context, path) | _describe_omission(document)
    return ToolOutput(content, size)


def _count_lines(document: Document) -> int:
    """Return the number of the last line, also if it is not ended."""
    if document.lines is not None:
        return document.lines
    return document.data.count(b"\n") + (document.data[-1:] not in (b"", b"\n"))


def _put(document: Document, context: ToolContext, path: str) -> tuple[int, dict[str, Any]]:
    """Write the document; if it does not fit and may be cut in its middle, write part of it."""
    whole = document.chunks() if document.chunks else [document.data]
    try:
        return context.sandbox.put(path, whole), {}
    except ValueError as error:
        raise ArgumentError(f"cannot save to {path!r}: {error}") from error
    except SandboxLimit as error:
        if document.part is None:
            raise ArgumentError(f"cannot save to {path!r}: {error}") from error
        return _put_part(document.part, context, path, str(error))


def _put_part(
    part: Callable[[int], Iterator[bytes]], context: ToolContext, path: str, reason: str
) -> tuple[int, dict[str, Any]]:
    for most in PARTS:
        with suppress(SandboxLimit):
            size = context.sandbox.put(path, part(most))
            return size, {"cut": f"lines from its middle are left empty in the file: {reason}"}
    raise ArgumentError(f"cannot save to {path!r}, nor a part of it: {reason}")


def _put_beside(
    beside: Sequence[SideFile], own: Collection[str], context: ToolContext, path: str
) -> dict[str, Any]:
    """Write the side files that fit, but do not overwrite the model's `own` files."""
    descriptions = {}
    for each in beside:
        if each.suffix in own:
            descriptions[path + each.suffix] = "it was there before and is kept as it was"
            continue
        with suppress(SandboxLimit):
            context.sandbox.put(path + each.suffix, each.chunks())
            descriptions[path + each.suffix] = each.description
    return {"also_saved": descriptions} if descriptions else {}


def _list_leftovers(beside: Sequence[SideFile], context: ToolContext, path: str) -> list[str]:
    """List the suffixes of side files that exist without a main file: the model wrote them."""
    if not beside or has_file(context.sandbox, path):
        return []
    return [each.suffix for each in beside if has_file(context.sandbox, path + each.suffix)]


def check_free(path: str, context: ToolContext) -> None:
    """Raise ArgumentError if the host saved a file at `path` beside another one."""
    if (
        (first := find_main_path(path)) != path
        and has_file(context.sandbox, path)
        and has_file(context.sandbox, first)
    ):
        about = _ABOUT[path[len(first) :]]
        raise ArgumentError(
            f"path: {path!r} is there already: {about}, saved beside {first!r}. Read it, or choose "
            "another path"
        )


def find_main_path(path: str) -> str:
    """Return the path of the main file if `path` has the name of a side file; else `path`."""
    return next((path.removesuffix(each) for each in SUFFIXES if path.endswith(each)), path)


_ABOUT = {
    GREEN: "the log of the job's last run that passed",
    INSTALLED: "what was installed differently in its last run that passed",
    OUTLINE: "the times and sections of the log",
}


def has_file(sandbox: Sandbox, path: str) -> bool:
    """Whether there is a file at `path` in the sandbox."""
    try:
        sandbox.get(path, limit=1)
    except (FileNotFoundError, ValueError):
        return False
    return True


def make_preview(document: Document, limit: int) -> str:
    """Make a preview of at most `limit` bytes: a log's lines on the failure, or head and tail."""
    if document.preview is not None:
        return document.preview(limit)
    if document.kind is DocumentKind.LOG:
        return preview_log(document.data, limit)
    return head_and_tail(document.data.decode(errors="replace"), limit)


def check_path(path: str) -> None:
    """Raise ArgumentError unless `path` is a file path under /tmp/data."""
    if not path.startswith(f"{DATA}/") or path.endswith("/") or ".." in path.split("/"):
        raise ArgumentError(f"path: {path!r} is not a file path under {DATA}/")


def _parse_value(document: Document) -> Any:
    text = document.data.decode(errors="replace")
    if document.kind is not DocumentKind.JSON:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _describe_omission(document: Document) -> dict[str, Any]:
    return {"missing": document.gaps} if document.gaps else {}
