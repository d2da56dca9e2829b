"""What a delivery says and asks for (pure): a typed event, then a Trigger or a reason to ignore it.

The payloads: https://docs.gitlab.com/user/project/integrations/webhook_events/. A wrong type in a
field we use is a Rejected 400 that names the field; a kind we don't read is an `OtherEvent`,
because GitLab disables webhooks that answer with 4xx. Decisions use the payload only; questions to
GitLab (is it the bot's thread? may this user command it?) are for the worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from worker.conversation.comment_commands import may_address_bot
from worker.conversation.triggers import (
    UNRELATED_SOURCES,
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
)
from worker.errors import Rejected
from worker.safety.markdown import find_marker
from worker.verdict.facts import parse_time

Id = Annotated[int, Field(gt=0, lt=2**63)]
Word = Annotated[str, Field(max_length=255)]
Path = Annotated[str, Field(min_length=1, max_length=2048)]
# Printable and without spaces, as git requires of a ref: it is put into URLs and log lines.
Ref = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00-\x20\x7f]+$")]
# 40 hex digits each in practice; what matters here is that they are safe in a URL's path.
Sha = Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,64}$")]
DiscussionId = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,128}$")]


class _Payload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Project(_Payload):
    """The project whose hook fired."""

    id: Id
    path_with_namespace: Path
    default_branch: Word | None = None
    web_url: Path | None = None


class PipelineAttributes(_Payload):
    """The pipeline; `ref` is the source branch's name for merge request pipelines too."""

    id: Id
    ref: Ref
    sha: Sha
    status: Word
    tag: bool = False
    source: Word | None = None
    finished_at: Word | None = None


class PipelineMergeRequest(_Payload):
    """The merge request; only `url` contains the target project's path."""

    iid: Id
    target_project_id: Id
    state: Word | None = None
    url: Path | None = None


class PipelineEvent(_Payload):
    """A pipeline changed its status."""

    object_kind: Literal["pipeline"]
    object_attributes: PipelineAttributes
    project: Project
    merge_request: PipelineMergeRequest | None = None


class _NoteAttributes(_Payload):
    """The comment; `type` is None for a plain one, `action` is missing before GitLab 16.11."""

    id: Id
    note: str = ""
    noteable_type: Word | None = None
    discussion_id: DiscussionId | None = None
    type: Word | None = None
    action: Word | None = None
    system: bool | None = None


class Target(_Payload):
    """The target project of a note's merge request."""

    path_with_namespace: Path


class _NoteMergeRequest(_Payload):
    """The merge request that was commented."""

    iid: Id
    target_project_id: Id
    target: Target | None = None


class NoteEvent(_Payload):
    """Somebody commented."""

    object_kind: Literal["note"]
    object_attributes: _NoteAttributes
    project: Project
    merge_request: _NoteMergeRequest | None = None


class _EmojiAttributes(_Payload):
    """One reaction; `action` is "award" or "revoke"."""

    id: Id
    name: Word
    awardable_type: Word | None = None
    awardable_id: Id | None = None
    action: Word | None = None


class _AwardedNote(_Payload):
    """The comment that somebody reacted to."""

    note: str = ""


class EmojiEvent(_Payload):
    """Somebody added or removed a reaction."""

    object_kind: Literal["emoji"]
    event_type: Word | None = None
    object_attributes: _EmojiAttributes
    project: Project
    merge_request: _NoteMergeRequest | None = None
    note: _AwardedNote | None = None


class OtherEvent(_Payload):
    """An event we don't read. System hooks name their kind in the body only."""

    object_kind: Word | None = None
    event_name: Word | None = None


def _parse_number(value: object) -> object:
    """Parse an id, which is text in the claims."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(str(value)) if digits else value


class Claims(_Payload):
    """GitLab's claims about the job that asks."""

    project_id: Annotated[Id, BeforeValidator(_parse_number)]
    project_path: Path
    pipeline_id: Annotated[Id, BeforeValidator(_parse_number)]
    pipeline_source: Word = ""
    ref: Ref
    ref_type: Word = "branch"
    sha: Sha
    jti: Annotated[str, Field(min_length=1, max_length=255)]
    exp: float

    def make_trigger(self) -> PipelineFailed:
        """Make the trigger that the job asks for."""
        return PipelineFailed(self.project_id, self.pipeline_id, self.sha, self.ref, by_job=True)


Event = PipelineEvent | NoteEvent | EmojiEvent | OtherEvent

_Model = type[PipelineEvent] | type[NoteEvent] | type[EmojiEvent] | type[OtherEvent]

_KINDS: Mapping[str, _Model] = {
    "Pipeline Hook": PipelineEvent,
    "Note Hook": NoteEvent,
    "Confidential Note Hook": NoteEvent,
    "Emoji Hook": EmojiEvent,
}
_SYSTEM: Mapping[str, _Model] = {"pipeline": PipelineEvent, "note": NoteEvent}


def get_kind(headers: Mapping[str, str]) -> str:
    """Return GitLab's name of the event. `headers` has lower-case names or ignores case."""
    return headers.get("x-gitlab-event", "")


def parse_event(headers: Mapping[str, str], body: bytes) -> Event:
    """Parse the event of a verified delivery. Raises Rejected 400."""
    name = get_kind(headers)
    if not name:
        raise Rejected(400, "there is no X-Gitlab-Event header: this is not a GitLab webhook")
    event = _validate(_KINDS.get(name, OtherEvent), body)
    if name == "System Hook" and isinstance(event, OtherEvent):
        model = _SYSTEM.get(event.object_kind or "")
        return _validate(model, body) if model else event
    return event


def _validate(model: _Model, body: bytes) -> Event:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the body"
        raise Rejected(400, f"not a GitLab event: {where}: {problem['msg']}") from error


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
    return Replied(request.target_project_id, request.iid, note.discussion_id, note.id)


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
