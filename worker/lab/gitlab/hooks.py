"""Makes webhook deliveries as GitLab does: headers, and the fields of payloads that we read.

See https://docs.gitlab.com/user/project/integrations/webhook_events/.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from worker.lab.gitlab.state import MergeRequest, Note, Pipeline, Project, User

Json = dict[str, Any]
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
    mr = pipeline.mr
    return {
        "object_kind": "pipeline",
        "object_attributes": {
            "id": pipeline.id,
            "iid": pipeline.iid,
            "ref": mr.source_branch if mr else pipeline.ref,
            "tag": False,
            "sha": pipeline.sha,
            "source": pipeline.source,
            "status": status or pipeline.status,
            "finished_at": _write_time(pipeline.finished_at or pipeline.created_at),
            "url": pipeline.web_url,
        },
        "merge_request": _make_merge_request(mr) if mr else None,
        "user": _make_user(pipeline.user),
        "project": _make_project(pipeline.project),
    }


def _write_time(moment: str) -> str:
    """Write a time of the API as webhooks write it."""
    return f"{moment[:19].replace('T', ' ')} UTC"


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
