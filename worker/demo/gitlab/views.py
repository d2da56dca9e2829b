"""Records as the REST API v4 shows them, with the fields that we read."""

from typing import Any

from worker.demo.gitlab.state import (
    Commit,
    DiffFile,
    Discussion,
    Job,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    User,
)

Json = dict[str, Any]


def show_user(record: User) -> Json:
    """A user inside another object."""
    return {
        "id": record.id,
        "username": record.username,
        "name": record.name,
        "state": record.state,
    }


def show_account(record: User) -> Json:
    """GET /user, GET /users/:id."""
    return show_user(record) | {"bot": record.bot}


def show_project(record: Project) -> Json:
    """GET /projects/:id."""
    parent = record.parent
    fork = {"forked_from_project": _show_short_project(parent)} if parent else {}
    return _show_short_project(record) | {
        "visibility": "public" if record.public else "private",
        "public_jobs": record.public_jobs,
        "builds_access_level": record.builds_access,
        "merge_requests_access_level": "enabled",
        "repository_access_level": "enabled",
        "ci_config_path": "",
        **fork,
    }


def _show_short_project(record: Project) -> Json:
    return {
        "id": record.id,
        "path_with_namespace": record.path,
        "web_url": record.web_url,
    }


def show_member(record: User, level: int) -> Json:
    """GET /projects/:id/members/all/:user_id."""
    return show_user(record) | {"access_level": level}


def show_merge_request(record: MergeRequest) -> Json:
    """A merge request in a list."""
    return {
        "id": record.id,
        "iid": record.iid,
        "project_id": record.project.id,
        "title": record.title,
        "description": record.description,
        "state": record.state,
        "created_at": record.created_at,
        "updated_at": record.updated_at or record.created_at,
        "target_branch": record.target_branch,
        "source_branch": record.source_branch,
        "author": show_user(record.author),
        "source_project_id": record.source_project.id,
        "target_project_id": record.project.id,
        "labels": list(record.labels),
        "draft": record.draft,
        "detailed_merge_status": "ci_must_pass",
        "sha": record.sha,
        "web_url": record.web_url,
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
    return {
        "old_path": record.old_path or record.new_path,
        "new_path": record.new_path,
        "a_mode": "0" if record.new_file else "100644",
        "b_mode": "0" if record.deleted_file else "100644",
        "new_file": record.new_file,
        "renamed_file": record.renamed_file,
        "deleted_file": record.deleted_file,
        "generated_file": record.generated_file,
        "collapsed": record.collapsed,
        "too_large": record.too_large,
        "diff": "" if hidden else record.diff,
    }


def show_commit(record: Commit) -> Json:
    """One item of GET …/commits."""
    return {
        "id": record.sha,
        "short_id": record.sha[:8],
        "created_at": record.created_at,
        "title": record.title,
        "message": record.message or f"{record.title}\n",
        "author_name": record.author.name,
    }


def show_pipeline(record: Pipeline) -> Json:
    """A pipeline in a list."""
    return {
        "id": record.id,
        "iid": record.iid,
        "project_id": record.project.id,
        "sha": record.sha,
        "ref": record.ref,
        "status": record.status,
        "source": record.source,
        "created_at": record.created_at,
        "web_url": record.web_url,
    }


def show_pipeline_page(record: Pipeline) -> Json:
    """GET …/pipelines/:id."""
    return show_pipeline(record) | {
        "yaml_errors": record.yaml_errors,
        "finished_at": record.created_at,
        "duration": 222,
    }


def show_job(record: Job) -> Json:
    """A job; only failed ones have `failure_reason`. As in GitLab, there is no `retried`."""
    pipe = record.pipeline
    reason = {"failure_reason": record.failure_reason} if record.status == "failed" else {}
    return {
        "id": record.id,
        "status": record.status,
        "stage": record.stage,
        "name": record.name,
        "allow_failure": record.allow_failure,
        "started_at": record.created_at if record.started_at == "" else record.started_at,
        "finished_at": record.started_at or record.created_at,
        "erased_at": record.created_at if record.erased else None,
        "duration": record.duration,
        "pipeline": {
            "id": pipe.id,
            "iid": pipe.iid,
            "project_id": pipe.project.id,
            "sha": pipe.sha,
            "ref": pipe.ref,
            "status": pipe.status,
        },
        **reason,
        "web_url": record.web_url,
        "artifacts": _list_artifacts(record),
        "runner": {"id": 7, "description": "shared-runner-7"},
        "artifacts_expire_at": record.artifacts_expire_at,
        "tag_list": [],
    }


def _list_artifacts(record: Job) -> list[Json]:
    if record.archive is None:
        return []
    return [{"file_type": "archive", "size": len(record.archive)}]


def show_note(record: Note) -> Json:
    """A note."""
    thread = record.merge_request.discussions.get(record.discussion_id)
    position = thread.position if thread else None
    resolved = {"resolved": thread.resolved} if thread and record.type else {}
    return {
        "id": record.id,
        "type": record.type,
        "body": record.body,
        "author": show_user(record.author),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "system": record.system,
        "resolvable": record.type is not None,
        **resolved,
        **({"position": position} if position else {}),
        "internal": record.internal,
    }


def show_discussion(record: Discussion) -> Json:
    """A thread with its notes, oldest first."""
    return {"id": record.id, "notes": [show_note(each) for each in record.notes]}


def show_award(award_id: int, owner: User, emoji: str) -> Json:
    """An emoji reaction."""
    return {"id": award_id, "name": emoji, "user": show_user(owner)}
