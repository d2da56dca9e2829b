"""`fetch_to_sandbox` and `fetch_batch_to_sandbox`: save documents of sources as files."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from posixpath import normpath
from typing import Any

from pydantic import Field

from worker.errors import ArgumentError
from worker.safety.sentences import correct_spelling
from worker.safety.untrusted import parse_objects
from worker.tools import documents
from worker.tools.arguments import Arguments
from worker.tools.base import ToolContext, ToolDef, ToolOutput, catch_failure, run_in_parallel
from worker.tools.source import Source

_MAX_BATCH = 20


class FetchRequest(Arguments):
    """The arguments of `fetch_to_sandbox`, and one request of a batch."""

    source: str = Field(description="Another tool's name, like gitlab_get_job_log.")
    arguments: dict[str, Any] = Field(default={}, description="Its arguments.")
    path: str = Field(description="A file under /tmp/data/.", max_length=500)


class FetchBatch(Arguments):
    """The arguments of `fetch_batch_to_sandbox`."""

    requests: list[FetchRequest] = Field(min_length=1, max_length=_MAX_BATCH)


def _fetch_one(args: FetchRequest, context: ToolContext, number: int) -> ToolOutput:
    """Fetch one document into the sandbox."""
    return _fetch(args, context, context.preview_bytes)


def _fetch_batch(args: FetchBatch, context: ToolContext, number: int) -> ToolOutput:
    """Fetch several documents; a failure is reported beside the other results."""
    limit = context.preview_bytes // len(args.requests)
    alike = Counter(request.source for request in args.requests)
    targets = [normpath(request.path) for request in args.requests]
    jobs = [
        partial(
            _fetch_item,
            request,
            context,
            limit,
            alike[request.source],
            taken=_is_taken(index, targets),
        )
        for index, request in enumerate(args.requests)
    ]
    done = list(run_in_parallel(jobs))
    return ToolOutput(
        {"results": [one.content for one in done]},
        sum(one.size for one in done),
        is_error=all(one.is_error for one in done),
    )


def _is_taken(index: int, targets: Sequence[str]) -> bool:
    """Whether an earlier request of the batch writes the same file, or any request the main one."""
    target = targets[index]
    first = documents.find_main_path(target)
    return target in targets[:index] or (first != target and first in targets)


def list_paths(arguments: str) -> set[str]:
    """List the main files of the files that a call writes.

    Empty if the arguments are invalid.
    """
    found = [one.get("path") for one in parse_objects(arguments, "requests")]
    return {documents.find_main_path(normpath(path)) for path in found if isinstance(path, str)}


def _fetch_item(
    request: FetchRequest, context: ToolContext, limit: int, alike: int, *, taken: bool
) -> ToolOutput:
    def run() -> ToolOutput:
        if taken:
            raise ArgumentError(f"path: another request of this batch writes {request.path!r}")
        return _fetch(request, context, limit, alike)

    done = catch_failure(run, request.source)
    if not done.is_error:
        return done
    return replace(done, content={"source": request.source, **done.content})


def _fetch(request: FetchRequest, context: ToolContext, limit: int, alike: int = 1) -> ToolOutput:
    documents.check_path(request.path)
    documents.check_free(normpath(request.path), context)
    name, source = _find_source(request.source, context)
    document = source.fetch(json.dumps(request.arguments))
    known = context.documents.find_path(name, request.arguments, document)
    done = documents.save_document(document, context, request.path, limit, alike, known)
    context.documents.add(name, request.arguments, document, request.path)
    if name == request.source:
        return done
    hint = f"there is no source {request.source!r}; this is what {name} gave"
    return replace(done, content={"hint": hint, **done.content})


def _find_source(name: str, context: ToolContext) -> tuple[str, Source]:
    """Find the source with this name, or the one that is obviously meant."""
    real = name if name in context.sources else correct_spelling(name, context.sources)
    if real is None:
        raise ArgumentError(f"source: {name!r} is not one of {', '.join(sorted(context.sources))}")
    return real, context.sources[real]


FETCH = ToolDef(
    name="fetch_to_sandbox",
    description=(
        "Save what another tool (a data source) returns to a file in the sandbox, with a preview: "
        "of a job log the lines that most likely explain the failure."
    ),
    args=FetchRequest,
    run=_fetch_one,
)
FETCH_BATCH = ToolDef(
    name="fetch_batch_to_sandbox",
    description=f"Up to {_MAX_BATCH} fetch_to_sandbox requests; they share one preview's bytes.",
    args=FetchBatch,
    run=_fetch_batch,
)
NAMES = frozenset({FETCH.name, FETCH_BATCH.name})
