"""Makes webhook deliveries as GitLab does: headers, signature and payloads.

See https://docs.gitlab.com/user/project/integrations/webhook_events/.
"""

import base64
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

from worker.demo.gitlab.state import Job, MergeRequest, Note, Pipeline, Project, User

Json = dict[str, Any]
Event = tuple[dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Receiver:
    """The target of hooks, with the secret token and optionally the signing token (`whsec_…`)."""

    url: str
    token: str = ""
    signing_token: str = ""


def make_delivery(name: str, instance: str, payload: Json, receiver: Receiver | None) -> Event:
    """Make headers and body of a delivery. Sending the same pair again is a re-delivery."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    key = str(uuid.uuid4())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitLab/19.1.0",
        "X-Gitlab-Event": name,
        "X-Gitlab-Webhook-UUID": str(uuid.uuid4()),
        "X-Gitlab-Instance": instance,
        "X-Gitlab-Event-UUID": str(uuid.uuid4()),
        "Idempotency-Key": key,
    }
    if receiver and receiver.token:
        headers["X-Gitlab-Token"] = receiver.token
    if receiver and receiver.signing_token:
        headers |= _make_signature(receiver.signing_token, key, body)
    return headers, body


def _make_signature(token: str, key: str, body: bytes) -> dict[str, str]:
    sent = str(int(time.time()))
    secret = base64.b64decode(token.removeprefix("whsec_"))
    mac = hmac.new(secret, f"{key}.{sent}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": key,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def make_pipeline_payload(pipeline: Pipeline, status: str = "") -> Json:
    """Make a Pipeline Hook's body; `status` replaces the current status, for an earlier event."""
    mr, state = pipeline.mr, status or pipeline.status
    branch = mr.source_branch if mr else pipeline.ref
    stages = list(dict.fromkeys(job.stage for job in pipeline.jobs))
    return {
        "object_kind": "pipeline",
        "object_attributes": {
            "id": pipeline.id,
            "iid": pipeline.iid,
            "name": None,
            "ref": branch,
            "tag": False,
            "sha": pipeline.sha,
            "before_sha": "0" * 40,
            "source": pipeline.source,
            "status": state,
            "detailed_status": "passed" if state == "success" else state,
            "stages": stages,
            "created_at": _format_time(pipeline.created_at),
            "finished_at": _format_time(pipeline.created_at),
            "duration": 222,
            "queued_duration": 3,
            "protected_ref": False,
            "variables": [],
            "url": pipeline.web_url,
        },
        "merge_request": _make_pipeline_mr(mr) if mr else None,
        "user": _make_user(pipeline.user),
        "project": _make_project(pipeline.project),
        "commit": _make_commit(
            pipeline.sha, mr.title if mr else "", pipeline.user, pipeline.project
        ),
        "builds": [_make_build(job) for job in pipeline.jobs if not job.is_retried],
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
            "attachment": None,
            "author_id": note.author.id,
            "change_position": None,
            "commit_id": None,
            "created_at": _format_time(note.created_at),
            "discussion_id": note.discussion_id,
            "id": note.id,
            "internal": note.internal,
            "line_code": None,
            "note": note.body,
            "noteable_id": mr.id,
            "noteable_type": "MergeRequest",
            "original_position": None,
            "position": None,
            "project_id": mr.project.id,
            "resolved_at": None,
            "resolved_by_id": None,
            "st_diff": None,
            "system": note.system,
            "type": note.type,
            "updated_at": _format_time(note.updated_at),
            "updated_by_id": note.updated_by.id if note.updated_by else None,
            "description": note.body,
            "url": note.web_url,
            "action": action,
        },
        "repository": {"name": mr.project.path, "homepage": mr.project.web_url},
        "merge_request": _make_note_mr(mr),
    }


def make_emoji_payload(note: Note, who: User, name: str, award_id: int, action: str) -> Json:
    """Make an Emoji Hook's body; `action` is "award" or "revoke"."""
    noted = make_note_payload(note)
    block = {key: value for key, value in noted["object_attributes"].items() if key != "action"}
    return {
        "object_kind": "emoji",
        "event_type": action,
        "user": _make_user(who),
        "project_id": noted["project_id"],
        "project": noted["project"],
        "object_attributes": {
            "user_id": who.id,
            "created_at": _format_time(note.updated_at),
            "id": award_id,
            "name": name,
            "awardable_type": "Note",
            "awardable_id": note.id,
            "updated_at": _format_time(note.updated_at),
            "action": action,
            "awarded_on_url": note.web_url,
        },
        "note": block,
        "merge_request": noted["merge_request"],
    }


def _make_pipeline_mr(mr: MergeRequest) -> Json:
    return {
        "id": mr.id,
        "iid": mr.iid,
        "title": mr.title,
        "source_branch": mr.source_branch,
        "source_project_id": mr.source_project.id,
        "target_branch": mr.target_branch,
        "target_project_id": mr.project.id,
        "state": mr.state,
        "merge_status": "can_be_merged",
        "detailed_merge_status": "ci_must_pass",
        "url": mr.web_url,
    }


def _make_note_mr(mr: MergeRequest) -> Json:
    return _make_pipeline_mr(mr) | {
        "author_id": mr.author.id,
        "description": mr.description,
        "draft": mr.draft,
        "last_commit": _make_commit(mr.sha, mr.title, mr.author, mr.source_project),
        "head_pipeline_id": mr.head_pipeline.id if mr.head_pipeline else None,
        "labels": [],
    }


def _make_build(job: Job) -> Json:
    return {
        "id": job.id,
        "stage": job.stage,
        "name": job.name,
        "status": job.status,
        "created_at": _format_time(job.created_at),
        "started_at": _format_time(job.created_at),
        "finished_at": _format_time(job.created_at),
        "duration": job.duration,
        "queued_duration": 1.5,
        "failure_reason": job.failure_reason,
        "when": "on_success",
        "manual": False,
        "allow_failure": job.allow_failure,
        "user": _make_user(job.pipeline.user),
        "runner": {"id": 7, "description": "shared-runner-7", "active": True, "is_shared": True},
        "artifacts_file": {"filename": None, "size": None},
        "environment": None,
    }


def _make_user(user: User) -> Json:
    return {
        "id": user.id,
        "name": user.name,
        "username": user.username,
        "avatar_url": None,
        "email": "[REDACTED]",
    }


def _make_project(project: Project) -> Json:
    return {
        "id": project.id,
        "name": project.path.rpartition("/")[2],
        "description": None,
        "web_url": project.web_url,
        "avatar_url": None,
        "git_ssh_url": f"git@gitlab.invalid:{project.path}.git",
        "git_http_url": f"{project.web_url}.git",
        "namespace": project.path.rpartition("/")[0],
        "visibility_level": 20 if project.public else 0,
        "path_with_namespace": project.path,
        "default_branch": project.default_branch,
        "ci_config_path": None,
    }


def _make_commit(sha: str, title: str, author: User, project: Project) -> Json:
    return {
        "id": sha,
        "message": f"{title}\n",
        "title": title,
        "timestamp": "2026-11-20T08:55:00+00:00",
        "url": f"{project.web_url}/-/commit/{sha}",
        "author": {"name": author.name, "email": f"{author.username}@example.com"},
    }


def _format_time(moment: str) -> str:
    return moment.replace("T", " ").replace(".000Z", " UTC")
