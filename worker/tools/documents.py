"""Gives documents of sources to the model: inline, or as a file with a preview.

`fetch_to_sandbox` and `fetch_batch_to_sandbox` save them as files where the model wants them.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from posixpath import normpath
from typing import Any

from pydantic import Field

from sandbox.base import DATA, OUT, Sandbox, SandboxLimit
from worker.errors import ArgumentError
from worker.logs.excerpt import preview_log
from worker.logs.preview import head_and_tail, most_shown
from worker.safety.sentences import correct_spelling
from worker.safety.untrusted import parse_objects
from worker.tools.arguments import Arguments
from worker.tools.base import ToolContext, ToolDef, ToolOutput, catch_failure, run_in_parallel
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
        shown: Any = (
            make_preview(document, size) if whole else document.data.decode(errors="replace")
        )
        if not whole and document.kind is DocumentKind.JSON:
            with suppress(ValueError):
                shown = json.loads(shown)
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
    own: list[str] = []
    if beside and not has_file(context.sandbox, path):  # then the model wrote what lies beside it
        own = [each.suffix for each in beside if has_file(context.sandbox, path + each.suffix)]
    size, cut = _put(document, context, path)
    content: dict[str, Any] = {"saved_to": path, "bytes": size} | cut
    if document.lines is not None:
        content["lines"] = document.lines
    elif not document.chunks:  # the number of the last line, also if it is not ended
        has_rest = document.data[-1:] not in (b"", b"\n")
        content["lines"] = document.data.count(b"\n") + has_rest
    content["preview"] = shown
    content |= _put_beside(beside, own, context, path) | _describe_omission(document)
    return ToolOutput(content, size)


def _put(document: Document, context: ToolContext, path: str) -> tuple[int, dict[str, Any]]:
    """Write the document; if it does not fit and may be cut in its middle, write part of it."""
    part = document.part
    whole = document.chunks() if document.chunks else [document.data]
    try:
        return context.sandbox.put(path, whole), {}
    except ValueError as error:
        raise ArgumentError(f"cannot save to {path!r}: {error}") from error
    except SandboxLimit as error:
        if part is None:
            raise ArgumentError(f"cannot save to {path!r}: {error}") from error
        reason = str(error)
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


def _check_free(path: str, context: ToolContext) -> None:
    """Raise ArgumentError if the host saved a file at `path` beside another one."""
    if (
        (first := _find_main_path(path)) != path
        and has_file(context.sandbox, path)
        and has_file(context.sandbox, first)
    ):
        about = _ABOUT[path[len(first) :]]
        raise ArgumentError(
            f"path: {path!r} is there already: {about}, saved beside {first!r}. Read it, or choose "
            "another path"
        )


def _find_main_path(path: str) -> str:
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


def _describe_omission(document: Document) -> dict[str, Any]:
    return {"missing": document.gaps} if document.gaps else {}


_MAX_BATCH = 20


class _FetchRequest(Arguments):
    """The arguments of `fetch_to_sandbox`, and one request of a batch."""

    source: str = Field(description="Another tool's name, like gitlab_get_job_log.")
    arguments: dict[str, Any] = Field(default={}, description="Its arguments.")
    path: str = Field(description="A file under /tmp/data/.", max_length=500)


class _FetchBatch(Arguments):
    """The arguments of `fetch_batch_to_sandbox`."""

    requests: list[_FetchRequest] = Field(min_length=1, max_length=_MAX_BATCH)


def _fetch_batch(args: _FetchBatch, context: ToolContext, number: int) -> ToolOutput:
    """Fetch several documents; a failure is reported beside the other results."""
    limit = context.preview_bytes // len(args.requests)
    alike = Counter(request.source for request in args.requests)
    targets = [normpath(request.path) for request in args.requests]

    def fetch_item(index: int, request: _FetchRequest) -> ToolOutput:
        target = targets[index]
        first = _find_main_path(target)
        # An earlier request writes the same file, or any request the main one.
        if target in targets[:index] or (first != target and first in targets):
            raise ArgumentError(f"path: another request of this batch writes {request.path!r}")
        return _fetch(request, context, limit, alike[request.source])

    done = list(
        run_in_parallel(
            [
                partial(catch_failure, partial(fetch_item, index, request), request.source)
                for index, request in enumerate(args.requests)
            ]
        )
    )
    results = [
        {"source": request.source, **one.content} if one.is_error else one.content
        for request, one in zip(args.requests, done, strict=True)
    ]
    return ToolOutput(
        {"results": results},
        sum(one.size for one in done),
        is_error=all(one.is_error for one in done),
    )


def list_paths(arguments: str) -> set[str]:
    """List the main files of the files that a call writes.

    Empty if the arguments are invalid.
    """
    found = [one.get("path") for one in parse_objects(arguments, "requests")]
    return {_find_main_path(normpath(path)) for path in found if isinstance(path, str)}


def _fetch(request: _FetchRequest, context: ToolContext, limit: int, alike: int = 1) -> ToolOutput:
    check_path(request.path)
    _check_free(normpath(request.path), context)
    wanted, sources = request.source, context.sources
    name = wanted if wanted in sources else correct_spelling(wanted, sources)
    if name is None:
        known_names = ", ".join(sorted(sources))
        raise ArgumentError(f"source: {wanted!r} is not one of {known_names}")
    document = sources[name].fetch(json.dumps(request.arguments))
    known = context.documents.find_path(name, request.arguments, document)
    done = save_document(document, context, request.path, limit, alike, known)
    context.documents.add(name, request.arguments, document, request.path)
    if name == request.source:
        return done
    hint = f"there is no source {request.source!r}; this is what {name} gave"
    return replace(done, content={"hint": hint, **done.content})


FETCH = ToolDef(
    name="fetch_to_sandbox",
    description=(
        "Save what another tool (a data source) returns to a file in the sandbox, with a preview: "
        "of a job log the lines that most likely explain the failure."
    ),
    args=_FetchRequest,
    run=lambda args, context, number: _fetch(args, context, context.preview_bytes),
)
FETCH_BATCH = ToolDef(
    name="fetch_batch_to_sandbox",
    description=f"Up to {_MAX_BATCH} fetch_to_sandbox requests; they share one preview's bytes.",
    args=_FetchBatch,
    run=_fetch_batch,
)
NAMES = frozenset({FETCH.name, FETCH_BATCH.name})
