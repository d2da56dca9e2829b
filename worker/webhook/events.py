"""What a delivery says (pure): a typed event, or the claims of a CI job. `routing` decides on it.

The payloads: https://docs.gitlab.com/user/project/integrations/webhook_events/. A wrong type in a
field we use is a Rejected 400 that names the field; a kind we don't read is an `OtherEvent`,
because GitLab disables webhooks that answer with 4xx.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from worker.errors import Rejected

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
