"""`fetch_to_sandbox` and `fetch_batch_to_sandbox`: documents of sources as files."""

import json
from functools import partial
from typing import Any

from pydantic import Field

from worker.arguments import Arguments
from worker.core.ports import Source
from worker.errors import ArgumentError, SourceError
from worker.tools import documents
from worker.tools.base import Bench, Made, ToolDef
from worker.tools.parallel import in_order

MAX_BATCH = 20


class One(Arguments):
    """The arguments of `fetch_to_sandbox`, and one request of a batch."""

    source: str = Field(description="The name of a data source tool, like gitlab_get_job_log.")
    arguments: dict[str, Any] = Field(default={}, description="The arguments of that tool.")
    path: str = Field(description="The file to write, under /tmp/data/.", max_length=500)


class Batch(Arguments):
    """The arguments of `fetch_batch_to_sandbox`."""

    requests: list[One] = Field(min_length=1, max_length=MAX_BATCH)


def run_one(args: One, bench: Bench, number: int) -> Made:
    """Fetch one document."""
    return _fetch(args, bench, documents.INLINE)


def run_batch(args: Batch, bench: Bench, number: int) -> Made:
    """Fetch several; one that fails says so beside the others."""
    limit = documents.INLINE // len(args.requests)
    jobs = [partial(_guarded, request, bench, limit) for request in args.requests]
    made = list(in_order(jobs))
    return Made(
        {"results": [one.content for one in made]},
        sum(one.size for one in made),
        is_error=all(one.is_error for one in made),
    )


def _guarded(request: One, bench: Bench, limit: int) -> Made:
    try:
        return _fetch(request, bench, limit)
    except SourceError as error:
        return Made({"source": request.source, "unavailable": str(error)}, 0, True)
    except ArgumentError as error:
        return Made({"source": request.source, "error": str(error)}, 0, True)


def _fetch(request: One, bench: Bench, limit: int) -> Made:
    documents.check_path(request.path)
    document = _source(request.source, bench).fetch(json.dumps(request.arguments))
    return documents.fetched(document, bench, request.path, limit)


def _source(name: str, bench: Bench) -> Source:
    if name not in bench.sources:
        raise ArgumentError(f"source: {name!r} is not one of {', '.join(sorted(bench.sources))}")
    return bench.sources[name]


FETCH = ToolDef(
    name="fetch_to_sandbox",
    description=(
        "Call a data source and save what it returns to a file in the sandbox, with a preview. "
        "Of a job log the preview shows the lines that most likely explain the failure."
    ),
    args=One,
    run=run_one,
)
FETCH_BATCH = ToolDef(
    name="fetch_batch_to_sandbox",
    description="Several fetch_to_sandbox requests in one call; they share one 4 KB of previews.",
    args=Batch,
    run=run_batch,
)
