"""Records as the REST API v4 and webhooks show them, with the fields that we read.

See https://docs.gitlab.com/user/project/integrations/webhook_events/.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from worker.lab.gitlab.state import (
    ENDED,
    Commit,
    DiffFile,
    Job,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    User,
)

Json = dict[str, Any]


def _pick(record: object, names: str) -> Json:
    """Return the fields that the API calls as we do."""
    return {name: getattr(record, name) for name in names.split()}


def show_user(record: User) -> Json:
    """A user inside another object."""
    return _pick(record, "id username name state")


def show_project(record: Project) -> Json:
    """GET /projects/:id."""
    parent = record.parent
    fork = {"forked_from_project": _show_short_project(parent)} if parent else {}
    return _show_short_project(record) | {
        "default_branch": record.default_branch,
        "archived": record.archived,
        "visibility": "public" if record.public else "private",
        "public_jobs": record.public_jobs,
        "builds_access_level": record.builds_access,
        "issues_access_level": record.issues_access,
        "merge_requests_access_level": "enabled",
        "repository_access_level": "enabled",
        "ci_config_path": "",
        **fork,
    }


def _show_short_project(record: Project) -> Json:
    return _pick(record, "id web_url") | {"path_with_namespace": record.path}


def show_merge_request(record: MergeRequest) -> Json:
    """A merge request in a list."""
    own = "id iid title description state created_at target_branch source_branch draft sha web_url"
    merged = "squash merge_commit_sha squash_commit_sha merged_at closed_at"
    return _pick(record, f"{own} {merged}") | {
        "project_id": record.project.id,
        "updated_at": record.updated_at or record.created_at,
        "author": show_user(record.author),
        "source_project_id": record.source_project.id,
        "target_project_id": record.project.id,
        "labels": list(record.labels),
        "detailed_merge_status": "ci_must_pass",
    }


def show_merge_request_page(record: MergeRequest) -> Json:
    """GET …/merge_requests/:iid."""
    head = record.head_pipeline
    return show_merge_request(record) | {
        "changes_count": str(len(record.diffs)),
        "diff_refs": {
            "base_sha": record.base_sha,
            "head_sha": record.sha,
            "start_sha": record.base_sha,
        },
        "head_pipeline": show_pipeline_page(head) if head else None,
    }


def show_diff(record: DiffFile) -> Json:
    """One item of GET …/diffs."""
    hidden = record.too_large or record.collapsed
    flags = "new_file renamed_file deleted_file generated_file collapsed too_large"
    return _pick(record, f"new_path {flags}") | {
        "old_path": record.old_path or record.new_path,
        "a_mode": "0" if record.new_file else "100644",
        "b_mode": "0" if record.deleted_file else "100644",
        "diff": "" if hidden else record.diff,
    }


def show_commit(record: Commit) -> Json:
    """One item of GET …/commits."""
    author = {"name": record.author.name, "email": f"{record.author.username}@example.com"}
    return {
        "id": record.sha,
        "short_id": record.sha[:8],
        "created_at": record.created_at,
        "parent_ids": list(record.parents),
        "title": record.title,
        "message": record.message or f"{record.title}\n",
        "authored_date": record.created_at,
        "committed_date": record.created_at,
        **{
            f"{who}_{field}": text
            for who in ("author", "committer")
            for field, text in author.items()
        },
    }


def show_pipeline(record: Pipeline) -> Json:
    """A pipeline in a list."""
    own = "id iid sha ref status source created_at web_url"
    more = {"project_id": record.project.id, "updated_at": record.touched_at, "name": None}
    return _pick(record, own) | more


def show_pipeline_page(record: Pipeline) -> Json:
    """GET …/pipelines/:id."""
    return show_pipeline(record) | {
        "yaml_errors": record.yaml_errors,
        "tag": False,
        "user": show_user(record.user),
        "started_at": record.created_at,
        "finished_at": (record.finished_at or record.created_at) if record.has_ended else None,
        "duration": 222 if record.has_ended else None,
    }


def show_job(record: Job) -> Json:
    """A job; only failed ones have `failure_reason`. As in GitLab, there is no `retried`."""
    reason = {"failure_reason": record.failure_reason} if record.status == "failed" else {}
    own = "id status stage name allow_failure duration web_url artifacts_expire_at created_at"
    pipeline = show_pipeline(record.pipeline)
    del pipeline["name"]
    archive = record.archive
    files = [] if archive is None else [{"file_type": "archive", "size": len(archive)}]
    if record.tests is not None and record.is_report_kept:
        files.append({"file_type": "junit", "size": 100 * len(record.tests)})
    return _pick(record, own) | {
        "ref": record.pipeline.ref,
        "user": show_user(record.started_by or record.pipeline.user),
        "commit": {"id": record.pipeline.sha, "short_id": record.pipeline.sha[:8]},
        "started_at": record.created_at if record.started_at == "" else record.started_at,
        "finished_at": get_job_end(record),
        "erased_at": record.created_at if record.erased else None,
        "pipeline": pipeline,
        **reason,
        "artifacts": files,
        "runner": None if record.started_at is None else _RUNNER,
        "tag_list": list(record.tags),
    }


def get_job_end(record: Job) -> str | None:
    """Return when a job ended, None if it has not."""
    ended = record.finished_at or record.started_at or record.created_at
    return ended if record.status in ENDED else None


_RUNNER = {"id": 7, "description": "shared-runner-7"}


def show_note(record: Note) -> Json:
    """A note."""
    thread = record.merge_request.discussions.get(record.discussion_id)
    position = thread.position if thread else None
    resolved = {"resolved": thread.resolved} if thread and record.type else {}
    return _pick(record, "id type body created_at updated_at system internal") | {
        "author": show_user(record.author),
        "resolvable": record.type is not None,
        **resolved,
        **({"position": position} if position else {}),
    }


Event = tuple[dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Receiver:
    """The target of hooks, with its secret token."""

    url: str
    token: str = ""


def make_delivery(name: str, instance: str, payload: Json, receiver: Receiver | None) -> Event:
    """Make headers and body of a delivery. Sending the same pair again is a re-delivery."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitLab/19.1.0",
        "X-Gitlab-Event": name,
        "X-Gitlab-Webhook-UUID": str(uuid.uuid4()),
        "X-Gitlab-Instance": instance,
        "X-Gitlab-Event-UUID": str(uuid.uuid4()),
        "Idempotency-Key": str(uuid.uuid4()),
    }
    if receiver and receiver.token:
        headers["X-Gitlab-Token"] = receiver.token
    return headers, body


def make_pipeline_payload(pipeline: Pipeline, status: str = "") -> Json:
    """Make a Pipeline Hook's body; `status` replaces the current status, for an earlier event."""
    mr, ended = pipeline.mr, pipeline.finished_at or pipeline.created_at
    now = status or pipeline.status
    return {
        "object_kind": "pipeline",
        "object_attributes": {
            "id": pipeline.id,
            "iid": pipeline.iid,
            "ref": mr.source_branch if mr else pipeline.ref,
            "tag": False,
            "sha": pipeline.sha,
            "before_sha": "0" * 40,
            "source": pipeline.source,
            "status": now,
            "created_at": _make_hook_time(pipeline.created_at),
            "finished_at": _make_hook_time(ended) if now in ENDED else None,
            "url": pipeline.web_url,
        },
        "merge_request": _make_merge_request(mr) if mr else None,
        "user": _make_user(pipeline.user),
        "project": _make_project(pipeline.project),
        "builds": [_make_build(each) for each in pipeline.jobs if not each.is_retried],
    }


def _make_hook_time(moment: str | None) -> str | None:
    return f"{moment[:19].replace('T', ' ')} UTC" if moment else None


def _make_build(job: Job) -> Json:
    """A job in a Pipeline Hook, which tells more of it than the API does."""
    started = job.created_at if job.started_at == "" else job.started_at
    return _pick(job, "id stage name status manual allow_failure duration") | {
        "created_at": _make_hook_time(job.created_at),
        "started_at": _make_hook_time(started),
        "finished_at": _make_hook_time(get_job_end(job)),
        "failure_reason": job.failure_reason if job.status == "failed" else None,
        "when": "manual" if job.manual else "on_success",
        "environment": {"name": job.environment, "action": "start"} if job.environment else None,
    }


def make_note_payload(note: Note, action: str = "create") -> Json:
    """Make a Note Hook's body. On updates `user` is the note's author, not the editor."""
    mr = note.merge_request
    return {
        "object_kind": "note",
        "event_type": "confidential_note" if note.internal else "note",
        "user": _make_user(note.author),
        "project_id": mr.project.id,
        "project": _make_project(mr.project),
        "object_attributes": {
            "author_id": note.author.id,
            "discussion_id": note.discussion_id,
            "id": note.id,
            "internal": note.internal,
            "note": note.body,
            "noteable_id": mr.id,
            "noteable_type": "MergeRequest",
            "project_id": mr.project.id,
            "system": note.system,
            "type": note.type,
            "url": note.web_url,
            "action": action,
        },
        "merge_request": _make_merge_request(mr),
    }


def _make_merge_request(mr: MergeRequest) -> Json:
    return {
        "id": mr.id,
        "iid": mr.iid,
        "title": mr.title,
        "source_branch": mr.source_branch,
        "source_project_id": mr.source_project.id,
        "target_branch": mr.target_branch,
        "target_project_id": mr.project.id,
        "state": mr.state,
        "url": mr.web_url,
    }


def _make_user(user: User) -> Json:
    return {"id": user.id, "name": user.name, "username": user.username}


def _make_project(project: Project) -> Json:
    return {
        "id": project.id,
        "name": project.path.rpartition("/")[2],
        "web_url": project.web_url,
        "path_with_namespace": project.path,
        "default_branch": project.default_branch,
    }
