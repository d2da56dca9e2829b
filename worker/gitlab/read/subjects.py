"""Finds the merge request that a pipeline belongs to, by GitLab's word alone.

An event can be forged by whoever knows the webhook's secret. Of its contents only ids are used, and
that a pipeline belongs to the merge request that the event names is asked of GitLab.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from worker.conversation.context import Subject
from worker.conversation.triggers import UNRELATED_SOURCES, PipelineFailed, PipelinePassed
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient

log = logging.getLogger("sandpiper.gitlab")

_PAGES = 2


def explain_unrelated(pipeline: wire.Pipeline) -> str:
    """Return why a pipeline is of no merge request's change, or ""."""
    if pipeline.source == "parent_pipeline":
        return f"pipeline {pipeline.id} is a child pipeline: its parent is looked at instead"
    if pipeline.tag:
        return f"pipeline {pipeline.id} ran for a tag, not for a merge request"
    if pipeline.source in UNRELATED_SOURCES and not wire.OF_MR.match(pipeline.ref):
        return f"pipeline {pipeline.id} was started by {pipeline.source}, not by a change"
    return ""


def list_pipelines(client: ReadClient, project_id: int, mr_iid: int) -> Sequence[wire.Pipeline]:
    """List the newest pipelines of a merge request, without children. Raises SourceError."""
    path = f"/projects/{project_id}/merge_requests/{mr_iid}/pipelines"
    return client.many(path, wire.Pipeline, f"the pipelines of !{mr_iid}", pages=_PAGES).items


def find_merge_request(
    client: ReadClient,
    trigger: PipelineFailed | PipelinePassed,
    pipeline: wire.Pipeline,
    targets: Iterable[int],
) -> wire.MergeRequest | str:
    """Return the merge request of a pipeline that ran in the trigger's project, or the reason why
    there is none. Raises SourceError.

    If the trigger names none, it is looked for in the projects `targets`.
    """
    ran_in = trigger.project_id
    if trigger.mr_iid:
        return _read_named(client, trigger, pipeline)
    return (
        _find_by_ref(client, pipeline, ran_in, targets)
        or _find_by_branch(client, pipeline, ran_in, targets)
        or f"no open merge request for branch {pipeline.ref} at {pipeline.sha}"
    )


def _read_named(
    client: ReadClient, trigger: PipelineFailed | PipelinePassed, pipeline: wire.Pipeline
) -> wire.MergeRequest | str:
    """Return the merge request that an event names if the pipeline is its own, else why not."""
    name = f"merge request !{trigger.mr_iid}"
    try:
        mr = read_merge_request(client, trigger.mr_project_id or trigger.project_id, trigger.mr_iid)
    except NotFound:
        return f"no open merge request for branch {pipeline.ref} at {pipeline.sha}"
    if is_pipeline_of(client, mr, pipeline, trigger.project_id):
        return mr
    return f"pipeline {pipeline.id} of project {trigger.project_id} is not one of {name}"


def read_merge_request(client: ReadClient, project_id: int, iid: int) -> wire.MergeRequest:
    """Return a merge request. Raises SourceError."""
    path = f"/projects/{project_id}/merge_requests/{iid}"
    return client.one(path, wire.MergeRequest, f"merge request !{iid}")


def is_pipeline_of(
    client: ReadClient, mr: wire.MergeRequest, pipeline: wire.Pipeline, ran_in: int
) -> bool:
    """Whether GitLab says that a pipeline, which `ran_in` a project, is the merge request's.

    It is the newest one, it ran on the newest commit of the source branch, or it is listed.
    """
    if mr.head_pipeline is not None and mr.head_pipeline.id == pipeline.id:
        return True
    branch = (mr.source_project_id, mr.source_branch, mr.sha)
    if (ran_in, pipeline.ref, pipeline.sha) == branch and not pipeline.tag:
        return True
    listed = list_pipelines(client, mr.target_project_id, mr.iid)
    return any(each.id == pipeline.id for each in listed)


def _find_by_ref(
    client: ReadClient, pipeline: wire.Pipeline, ran_in: int, targets: Iterable[int]
) -> wire.MergeRequest | None:
    """Find the merge request that the pipeline's ref names, if it is one of its pipelines.

    In a fork, such a ref may name the fork's own merge request.
    """
    named = wire.OF_MR.match(pipeline.ref)
    for project in targets if named else ():
        with suppress(NotFound):
            mr = read_merge_request(client, project, int(named[1]) if named else 0)
            if is_pipeline_of(client, mr, pipeline, ran_in):
                return mr
    return None


def _find_by_branch(
    client: ReadClient, pipeline: wire.Pipeline, ran_in: int, targets: Iterable[int]
) -> wire.MergeRequest | None:
    """Find the open merge request of a branch pipeline; a fork's may go to the parent."""
    found = [mr for project in targets for mr in _list_open(client, project, pipeline, ran_in)]
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(f"!{mr.iid} to {mr.target_branch}" for mr in found)
        log.info("pipeline %d: the oldest of %s is taken", pipeline.id, names)
    with suppress(NotFound):  # a list does not say which pipeline is the newest
        return read_merge_request(client, found[0].target_project_id, found[0].iid)
    return None


def _list_open(
    client: ReadClient, project: int, pipeline: wire.Pipeline, ran_in: int
) -> list[wire.MergeRequest]:
    query = {"source_branch": pipeline.ref, "state": "opened"}
    path = f"/projects/{project}/merge_requests"
    listed = client.many(path, wire.MergeRequest, "open merge requests", query)
    found = [mr for mr in listed.items if mr.sha == pipeline.sha and mr.source_project_id == ran_in]
    return sorted(found, key=lambda mr: mr.iid)


_MOST_NAMED = 5


_AT_WORK = (
    *("created", "waiting_for_resource", "preparing", "pending", "running", "scheduled"),
    *("waiting_for_callback", "canceling"),
)


def explain_outdated(mr: wire.MergeRequest, pipeline: wire.Pipeline) -> str:
    head = mr.head_pipeline
    if head is not None and head.id > pipeline.id:
        return f"pipeline {pipeline.id} is superseded by pipeline {head.id}"
    if wire.is_merge_result(pipeline.ref):
        is_head = head is not None and head.id == pipeline.id
        return "" if is_head else f"pipeline {pipeline.id} is not the head of !{mr.iid}"
    if mr.sha != pipeline.sha:
        return f"merge request !{mr.iid} has moved on from {pipeline.sha} to {mr.sha}"
    return ""


def explain_superseded(mr: wire.MergeRequest, subject: Subject) -> str:
    head = mr.head_pipeline
    if head is not None and head.id > subject.pipeline_id:
        if head.sha != subject.sha:
            return f"superseded by pipeline {head.id}"
        has_passed = head.status == "success"
        return f"superseded by pipeline {head.id}, which passed" if has_passed else ""
    synthetic = head is None or wire.is_merge_result(head.ref)
    if not synthetic and mr.sha and mr.sha != subject.sha:
        return f"superseded by commit {mr.sha[:8]}"
    return ""


def choose_pipeline(
    pipelines: Sequence[wire.Pipeline], pipeline_id: int | None, name: str
) -> wire.Pipeline | str:
    if pipeline_id is None:
        failed = [each for each in pipelines if each.status == "failed"]
        return max(failed, key=lambda each: each.id) if failed else _explain_none(pipelines, name)
    named = next((each for each in pipelines if each.id == pipeline_id), None)
    if named is None:
        numbers = sorted((each.id for each in pipelines if each.status == "failed"), reverse=True)
        known = (
            f"failed: {', '.join(map(str, numbers[:_MOST_NAMED]))}" if numbers else "none failed"
        )
        return f"pipeline {pipeline_id} is not one of the pipelines of {name}, of which {known}"
    if named.status != "failed":
        return f"pipeline {pipeline_id} of {name} {_describe_status(named)}, and has not failed"
    return named


def _explain_none(pipelines: Sequence[wire.Pipeline], name: str) -> str:
    if not pipelines:
        return f"{name} has no failed pipeline: none has run yet"
    newest = max(pipelines, key=lambda each: each.id)
    return f"{name} has no failed pipeline: its newest, {newest.id}, {_describe_status(newest)}"


def _describe_status(pipeline: wire.Pipeline) -> str:
    if pipeline.status in _AT_WORK:
        return f"is not over yet ({pipeline.status})"
    return "has passed" if pipeline.status == "success" else f"is {pipeline.status}"
