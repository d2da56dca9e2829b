"""Decides what an event asks for (pure): a Trigger, or a reason to ignore it.

Decisions here use the payload only; questions to GitLab (is it the bot's thread? may this user
command it?) are for the worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from worker.conversation.comment_commands import may_address_bot
from worker.conversation.triggers import (
    UNRELATED_SOURCES,
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
)
from worker.safety.markdown import find_marker
from worker.verdict.facts import parse_time
from worker.webhook.events import (
    EmojiEvent,
    Event,
    NoteEvent,
    OtherEvent,
    PipelineEvent,
    PipelineMergeRequest,
    Project,
)
from worker.webhook.id_tokens import Claims


@dataclass(frozen=True, slots=True)
class Ignored:
    """There is nothing to do, for a reason."""

    reason: str


def route_event(event: Event, kind: str, projects: Sequence[str]) -> Trigger | Ignored:
    """Route an event. `kind` is GitLab's name for it, `projects` the allow-list of globs."""
    if isinstance(event, PipelineEvent):
        return _route_pipeline(event, projects)
    if isinstance(event, NoteEvent):
        return _route_note(event, projects)
    if isinstance(event, EmojiEvent):
        return _route_emoji(event, projects)
    if kind == "System Hook":
        name = event.object_kind or event.event_name or "unnamed"
        return Ignored(f"of system hooks, only pipeline and comment events are read, not {name}")
    return Ignored("only pipeline, comment and emoji events are read")


def is_of_project(event: Event, project_id: int) -> bool:
    """Whether an event is one that a webhook of this project may tell of.

    Of a pipeline of a fork, GitLab says to the worker whether it is the merge request's.
    """
    if isinstance(event, OtherEvent):
        return True  # it is not read
    if event.project.id != project_id:
        return False
    request = None if isinstance(event, PipelineEvent) else event.merge_request
    return request is None or request.target_project_id == project_id


def _route_pipeline(event: PipelineEvent, projects: Sequence[str]) -> Trigger | Ignored:
    run, request = event.object_attributes, event.merge_request
    reason = _explain_unwanted_pipeline(event) or _explain_unlisted(
        _get_pipeline_path(event), projects
    )
    if reason:
        return Ignored(reason)
    trigger = PipelinePassed if run.status == "success" else PipelineFailed
    made = trigger(
        project_id=event.project.id,
        pipeline_id=run.id,
        sha=run.sha,
        ref=run.ref,
        mr_iid=request.iid if request else 0,
        mr_project_id=request.target_project_id if request else 0,
    )
    return replace(made, finished_at=read_hook_time(run.finished_at or ""))


def read_hook_time(text: str) -> int:
    """Return a time of a webhook, `2026-11-20 09:18:41 UTC`, or one of the API's, in epoch seconds;
    0 if it is neither."""
    return max(
        0, int(parse_time(text.removesuffix(" UTC") + "+00:00" * text.endswith(" UTC")) or 0)
    )


def _explain_unwanted_pipeline(event: PipelineEvent) -> str:
    run, request = event.object_attributes, event.merge_request
    if run.status not in ("failed", "success"):
        return f"the pipeline is {run.status}, not failed"
    if run.source == "parent_pipeline":
        return "a child pipeline is reported with its parent"
    if run.tag:
        return "the pipeline ran for a tag, not for a merge request"
    if request and request.state in ("closed", "merged"):
        return f"the merge request is {request.state}"
    if not request and run.ref == event.project.default_branch:
        return "the pipeline ran on the default branch, not for a merge request"
    if not request and run.source in UNRELATED_SOURCES:
        return f"the pipeline was started by {run.source}, not by a change"
    return ""


def _route_note(event: NoteEvent, projects: Sequence[str]) -> Trigger | Ignored:
    note, request = event.object_attributes, event.merge_request
    if note.noteable_type != "MergeRequest" or request is None:
        return Ignored("the comment is not on a merge request")
    reason = _explain_unwanted_note(event) or _explain_unlisted(_get_note_path(event), projects)
    if reason:
        return Ignored(reason)
    if not note.discussion_id:
        return Ignored("the comment names no thread")
    return Replied(request.target_project_id, request.iid, note.discussion_id, note.id)


def _explain_unwanted_note(event: NoteEvent) -> str:
    note = event.object_attributes
    if note.system:
        return "the comment was written by GitLab itself"
    if (note.action or "create") != "create":
        return "the comment was edited, not written"
    # Forging our marker is useless: it only makes us ignore the note.
    if find_marker(note.note):
        return "the comment is one of our own notes"
    if note.type not in ("DiscussionNote", "DiffNote") and not may_address_bot(note.note):
        return "the comment is neither in a thread nor addressed to Sandpiper"
    return ""


def _route_emoji(event: EmojiEvent, projects: Sequence[str]) -> Trigger | Ignored:
    award, request = event.object_attributes, event.merge_request
    if award.awardable_type != "Note" or not award.awardable_id or request is None:
        return Ignored("the reaction is not to a comment on a merge request")
    if award.name.partition("_tone")[0] not in ("thumbsup", "thumbsdown"):
        return Ignored("only 👍 and 👎 are counted")
    if event.note and not find_marker(event.note.note):
        return Ignored("the reaction is not to one of our notes")
    if reason := _explain_unlisted(_get_note_path(event), projects):
        return Ignored(reason)
    revoked = "revoke" in (award.action, event.event_type)
    return Reacted(request.target_project_id, request.iid, award.awardable_id, award.id, revoked)


def explain_unwanted_job(claims: Claims, projects: Sequence[str]) -> str:
    """Explain why a CI job's request for its pipeline is ignored; "" if it is not."""
    if claims.ref_type != "branch":
        return f"the pipeline runs for a {claims.ref_type}, not for a merge request"
    if claims.pipeline_source == "parent_pipeline":
        return "a child pipeline is reported with its parent"
    if claims.pipeline_source in UNRELATED_SOURCES:
        return f"the pipeline was started by {claims.pipeline_source}, not by a change"
    return _explain_unlisted(claims.project_path, projects)


def _explain_unlisted(path: str | None, projects: Sequence[str]) -> str:
    # Without the target project's path in the payload, the worker decides; it always checks.
    if path is None or is_allowed(path, projects):
        return ""
    return f"the project {path} is not in the configured list (gitlab.projects)"


def is_allowed(path: str, projects: Sequence[str]) -> bool:
    """Whether a project path matches the list. `*` spans subgroups; an empty list allows all."""
    # GitLab's paths are the same whatever their case.
    return not projects or any(fnmatchcase(path.lower(), glob.lower()) for glob in projects)


def _get_pipeline_path(event: PipelineEvent) -> str | None:
    request = event.merge_request
    if request is None or request.target_project_id == event.project.id:
        return event.project.path_with_namespace
    return _get_target_path(event.project, request)


def _get_target_path(project: Project, request: PipelineMergeRequest) -> str | None:
    """Return the target project's path; for a fork it is only in the merge request's URL."""
    root = (project.web_url or "").removesuffix(project.path_with_namespace)
    url, separator, _ = (request.url or "").partition("/-/merge_requests/")
    # Both URLs are of one instance, so the part before the fork's path is the common root.
    if not separator or not root or root == project.web_url or not url.startswith(root):
        return None
    return url.removeprefix(root)


def _get_note_path(event: NoteEvent | EmojiEvent) -> str | None:
    request = event.merge_request
    if request is None or request.target_project_id == event.project.id:
        return event.project.path_with_namespace
    return request.target.path_with_namespace if request.target else None
