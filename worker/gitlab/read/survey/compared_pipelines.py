"""Reads the pipelines that a failing one is compared with."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.lists import list_branch_pipelines
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.nearby_pipelines import (
    LISTED,
    ComparedPipelines,
    choose_pipelines,
    get_items,
)
from worker.verdict.facts import Unknown

T = TypeVar("T")
_MOST = 30
"""Pipelines of a list."""


def read_or_unknown(read: Callable[[], T]) -> T | Unknown:
    """Return what `read` returns, or Unknown with the reason if it raises SourceError."""
    try:
        return read()
    except SourceError as error:
        return Unknown(str(error))


def find_pipelines(reader: Reader, pool: Executor) -> ComparedPipelines:
    """Find the pipelines to compare with the session's, in parallel. Raises nothing."""
    finding = pool.submit(
        read_or_unknown, lambda: _read_pipelines(reader, "failed", status="failed")
    )
    listing = pool.submit(read_or_unknown, lambda: _read_merge_request_pipelines(reader))
    mr = read_or_unknown(
        lambda: reader.client.one(reader.merge_request, wire.MergeRequest, "the merge request")
    )
    target = (
        mr
        if isinstance(mr, Unknown)
        else read_or_unknown(lambda: _read_target_pipelines(mr, reader))
    )
    listed = listing.result()
    own = _find_own(listed, reader)
    return choose_pipelines(own, mr, listed, target, finding.result())


def _find_own(listed: Sequence[wire.Pipeline] | Unknown, reader: Reader) -> wire.Pipeline:
    """Find the session's pipeline; if GitLab does not give it, make it of what is known."""
    subject = reader.subject
    for each in get_items(listed):
        if each.id == subject.pipeline_id:
            return each
    path = f"{reader.pipeline_project}/pipelines/{subject.pipeline_id}"
    found = read_or_unknown(lambda: reader.client.one(path, wire.Pipeline, "the pipeline"))
    if not isinstance(found, Unknown):
        return found
    return wire.Pipeline(
        id=subject.pipeline_id, project_id=subject.pipeline_project_id, sha=subject.sha
    )


def _read_merge_request_pipelines(reader: Reader) -> Sequence[wire.Pipeline]:
    path = f"{reader.merge_request}/pipelines"
    what = "the merge request's pipelines"
    return reader.client.page(path, wire.Pipeline, what, 1, 30).items


def _read_target_pipelines(mr: wire.MergeRequest, reader: Reader) -> Sequence[wire.Pipeline]:
    """Return the newest pipelines of the target branch, then the merge base's if they are older."""
    where = reader.client, reader.target_project, mr.target_branch
    found = [*list_branch_pipelines(*where, "the target branch's pipelines", LISTED).items]
    base = mr.diff_refs.base_sha if mr.diff_refs else None
    if base and base not in {each.sha for each in found}:
        what, query = "the merge base's pipelines", {"sha": base}
        found += list_branch_pipelines(*where, what, _MOST, query).items
    return found


def _read_pipelines(
    reader: Reader, which: str, most: int = _MOST, **query: str
) -> list[wire.Pipeline]:
    path = f"{reader.target_project}/pipelines"
    return list(reader.client.page(path, wire.Pipeline, f"{which} pipelines", 1, most, query).items)
