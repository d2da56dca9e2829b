"""Reads a merge request's diff for posting notes on it: its hunks, and the commits it compares."""

from worker.core.conversation.context import Subject
from worker.core.ports.gitlab import ChangedFile, Changes
from worker.sources.api import wire
from worker.sources.api.client import ReadClient

_PAGES = 10
_PER_PAGE = 20


def read_changes(client: ReadClient, subject: Subject) -> Changes | str:
    """The newest diff, or why it is not the one that `subject` was about. Raises SourceError.

    For a very large merge request, it has only the first files.
    """
    path = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}"
    mr = client.one(path, wire.MergeRequest, f"merge request !{subject.mr_iid}")
    refs, head = mr.diff_refs, mr.head_pipeline
    if mr.state != "opened":
        return f"merge request !{mr.iid} is {mr.state}"
    if refs is None or refs.head_sha != mr.sha:
        return f"GitLab has no diff of !{mr.iid} at its head"
    # A merged-results pipeline runs on a commit of its own, so the head pipeline is compared then.
    synthetic = head and head.id == subject.pipeline_id and wire.is_merge_result(head.ref)
    if subject.sha != mr.sha and not synthetic:
        return f"merge request !{mr.iid} has moved on from {subject.sha} to {mr.sha}"
    listed = client.many(
        f"{path}/diffs", wire.DiffFile, "the diff", pages=_PAGES, size=_PER_PAGE
    ).items
    files = tuple(ChangedFile(each.old_path, each.new_path, each.diff) for each in listed)
    return Changes(refs.base_sha, refs.start_sha, refs.head_sha, files)
