"""`gitlab_get_mr_details`: what the merge request is about, and its pipeline."""

from typing import Any

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing
from worker.gitlab.read.base import NoArguments, RawDocument, SourceDef, present
from worker.gitlab.read.session_reader import Reader

MAX_DESCRIPTION = 20_000
"""Characters of the description."""

COMMIT_PAGES = 1


def fetch(args: NoArguments, reader: Reader) -> RawDocument:
    """Return the merge request, its pipeline and commits as JSON."""
    mr = reader.client.one(reader.merge_request, wire.MergeRequest, "the merge request")
    missing: list[str] = []
    pipeline = _read_pipeline(reader, missing)
    commits = _read_commits(reader, missing)
    if len(mr.description or "") > MAX_DESCRIPTION:
        missing.append(f"the description after {MAX_DESCRIPTION} characters")
    content = _describe_merge_request(mr) | {"pipeline": pipeline, "commits": commits}
    return RawDocument(content, "; ".join(missing))


def _describe_merge_request(mr: wire.MergeRequest) -> dict[str, Any]:
    fork = mr.source_project_id != mr.target_project_id
    return present(
        iid=mr.iid,
        title=mr.title,
        description=(mr.description or "")[:MAX_DESCRIPTION],
        state=mr.state,
        draft=mr.draft,
        author=mr.author.username if mr.author else None,
        created_at=mr.created_at,
        source_branch=mr.source_branch,
        from_a_fork=fork,
        target_branch=mr.target_branch,
        head_sha=mr.sha,
        labels=list(mr.labels),
        merge_status=mr.detailed_merge_status,
        changed_files=mr.changes_count,
        head_pipeline_id=mr.head_pipeline.id if mr.head_pipeline else None,
        web_url=mr.web_url,
    )


def _read_pipeline(reader: Reader, missing: list[str]) -> dict[str, Any] | None:
    number = reader.subject.pipeline_id
    try:
        path = f"{reader.pipeline_project}/pipelines/{number}"
        return describe_pipeline(reader.client.one(path, wire.Pipeline, f"pipeline {number}"))
    except SourceError as error:
        missing.append(str(error))
        return None


def describe_pipeline(pipeline: wire.Pipeline) -> dict[str, Any]:
    """Return what an analyst needs of a pipeline."""
    return present(
        id=pipeline.id,
        status=pipeline.status,
        source=pipeline.source,
        ref=pipeline.ref,
        sha=pipeline.sha,
        created_at=pipeline.created_at,
        seconds=pipeline.duration,
        yaml_errors=pipeline.yaml_errors,
        web_url=pipeline.web_url,
    )


def _read_commits(reader: Reader, missing: list[str]) -> list[dict[str, Any]]:
    try:
        path = f"{reader.merge_request}/commits"
        found = reader.client.many(path, wire.Commit, "the commits", pages=COMMIT_PAGES)
    except SourceError as error:
        missing.append(str(error))
        found = Listing(())
    if found.more:
        missing.append(f"commits before the newest {len(found.items)}")
    return [
        present(
            id=each.id or each.short_id,
            title=each.title,
            author=each.author_name,
            at=each.created_at,
        )
        for each in found.items
    ]


MR_DETAILS = SourceDef(
    name="gitlab_get_mr_details",
    description=(
        "The merge request: title, description, author, branches, labels, state, commits (newest "
        "first) and this session's pipeline."
    ),
    args=NoArguments,
    fetch=fetch,
)
