"""What an event asks for (pure): triggers, or a reason to ignore it.

Decisions use the payload only; questions to GitLab (is it the bot's thread? may this user command
it?) are for the worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from worker.conversation.comment_commands import may_address_bot
from worker.conversation.triggers import (
    UNRELATED_SOURCES,
    BranchEnded,
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
)
from worker.incidents.watched import is_of_branch, is_watched
from worker.safety.markdown import find_marker
from worker.verdict.facts import parse_time
from worker.webhook.events import Claims, EmojiEvent, Event, NoteEvent, OtherEvent, PipelineEvent


@dataclass(frozen=True, slots=True)
class Ignored:
    """There is nothing to do, for a reason."""

    reason: str


def route_event(
    event: Event, kind: str, projects: Sequence[str], branches: Sequence[str]
) -> tuple[Trigger, ...] | Ignored:
    """Route an event. `kind` is GitLab's name for it, `projects` the allow-list of globs,
    `branches` the watched ones (see `is_watched`).

    The pipeline of a watched branch may be that of a merge request from this branch, too: then
    there are two triggers, and the worker asks GitLab for each.
    """
    if isinstance(event, PipelineEvent):
        return _route_pipeline(event, projects, branches)
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


def _route_pipeline(
    event: PipelineEvent, projects: Sequence[str], branches: Sequence[str]
) -> tuple[Trigger, ...] | Ignored:
    unwanted = _explain_unwanted_pipeline(event)
    unlisted = _explain_unlisted(_get_pipeline_path(event), projects)
    is_of_watched = _has_ended_for_branch(event, branches)
    if unlisted or (unwanted and not is_of_watched):
        return Ignored(unlisted if is_of_watched else unwanted or unlisted)
    made = list[Trigger]()
    if is_of_watched:
        run = event.object_attributes
        ended_at = read_hook_time(run.finished_at or "")
        made.append(BranchEnded(event.project.id, run.id, run.sha, run.ref, ended_at))
    if not unwanted:
        made.append(_make_pipeline_trigger(event))
    return tuple(made)


def _has_ended_for_branch(event: PipelineEvent, branches: Sequence[str]) -> bool:
    """Whether the pipeline may be one of a watched branch, and has come to its end: there is no
    default branch in the event of an empty project.

    One that waits for a manual job has ended: its other jobs have, and nobody may ever play that.
    """
    run = event.object_attributes
    is_over = run.status in ("failed", "success", "manual")
    if not is_over or run.tag or event.merge_request or not is_of_branch(run.source or ""):
        return False
    return is_watched(run.ref, event.project.default_branch or "", branches) is not False


def _make_pipeline_trigger(event: PipelineEvent) -> PipelineFailed | PipelinePassed:
    run, request = event.object_attributes, event.merge_request
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
    """Explain why the pipeline is not looked at for a merge request; "" if it is."""
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
        return (
            "the pipeline ran on the default branch: it is no merge request's, and not one that "
            "incidents.branches watches"
        )
    if not request and run.source in UNRELATED_SOURCES:
        return f"the pipeline was started by {run.source}, not by a change"
    return ""


def _route_note(event: NoteEvent, projects: Sequence[str]) -> tuple[Trigger, ...] | Ignored:
    note, request = event.object_attributes, event.merge_request
    if note.noteable_type != "MergeRequest" or request is None:
        return Ignored("the comment is not on a merge request")
    if note.system:
        return Ignored("the comment was written by GitLab itself")
    if (note.action or "create") != "create":
        return Ignored("the comment was edited, not written")
    # Forging our marker is useless: it only makes us ignore the note.
    if find_marker(note.note):
        return Ignored("the comment is one of our own notes")
    if note.type not in ("DiscussionNote", "DiffNote") and not may_address_bot(note.note):
        return Ignored("the comment is neither in a thread nor addressed to Sandpiper")
    if reason := _explain_unlisted(_get_note_path(event), projects):
        return Ignored(reason)
    if not note.discussion_id:
        return Ignored("the comment names no thread")
    return (Replied(request.target_project_id, request.iid, note.discussion_id, note.id),)


def _route_emoji(event: EmojiEvent, projects: Sequence[str]) -> tuple[Trigger, ...] | Ignored:
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
    return (Reacted(request.target_project_id, request.iid, award.awardable_id, award.id, revoked),)


def route_job(
    claims: Claims, projects: Sequence[str], branches: Sequence[str]
) -> tuple[Trigger, ...] | Ignored:
    """Route a CI job's request for its pipeline, as `route_event` does an event.

    The claims don't name the default branch: where it is watched, the worker asks GitLab whether
    the job's branch is that one.
    """
    source = claims.pipeline_source
    unlisted = _explain_unlisted(claims.project_path, projects)
    if claims.ref_type != "branch":
        return Ignored(f"the pipeline runs for a {claims.ref_type}, not for a merge request")
    if source == "parent_pipeline":
        return Ignored("a child pipeline is reported with its parent")
    unwanted = ""
    if source in UNRELATED_SOURCES:
        unwanted = f"the pipeline was started by {source}, not by a change"
    ran = (claims.project_id, claims.pipeline_id, claims.sha, claims.ref)
    made = list[Trigger]()
    if is_of_branch(source) and is_watched(claims.ref, "", branches) is not False:
        made.append(BranchEnded(*ran))
    if not unwanted:
        made.append(PipelineFailed(*ran, by_job=True))
    if unlisted or not made:
        return Ignored(unwanted or unlisted)
    return tuple(made)


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
    # Of a fork, the target project's path is only in the merge request's URL.
    project = event.project
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
