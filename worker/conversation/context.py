"""A session as a value: all that is stored, which is all that a run needs to continue."""

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from enum import StrEnum

from worker.conversation.folds import Fold
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, Message, ToolResult, ToolSpec, Usage
from worker.conversation.tiers import ReplyModel, TierChoice
from worker.incidents.record import name_branch
from worker.safety.redacted_values import Counts
from worker.stored_keys import KEY
from worker.verdict.jobs import Survey

SCHEMA = 1
"""The version of `context.json`. A reader knows its own and all older ones."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The place of a session in the store. `branch` is `name_branch`'s, "" for the session of a
    merge request; that of a branch has the `mr_iid` 0."""

    project_id: int
    mr_iid: int
    session_id: str
    branch: str = ""

    @property
    def place(self) -> str:
        """What tells apart the merge requests and branches of a project: `12`, `branch-main`."""
        return self.branch or str(self.mr_iid)


@dataclass(frozen=True, slots=True)
class Subject:
    """The merge request and pipeline a session is about; sources are bound to these ids.

    `project_id` is the merge request's (target) project, where the note goes. The pipeline may
    have run in a fork: `pipeline_project_id`. `sha` is the commit the pipeline ran on. `web_url` is
    the merge request's page, `pipeline_web_url` the pipeline's, "" where it is not known.
    `title` is the merge request's, redacted, `author` the user name of who opened it.

    A pipeline that is no merge request's is its `branch`'s, "" otherwise: then `mr_iid` is 0,
    `web_url` the page of the branch's commits, and `green_sha` the last commit on which it passed
    before, "" if that is not known.
    """

    gitlab_url: str
    project_id: int
    project: str
    mr_iid: int
    pipeline_project_id: int
    pipeline_id: int
    sha: str
    web_url: str
    pipeline_web_url: str = ""
    title: str = ""
    author: str = ""
    branch: str = ""
    green_sha: str = ""

    @property
    def name(self) -> str:
        """What people call it: `group/project!12`, or `group/project@main` for a branch."""
        return f"{self.project}@{self.branch}" if self.branch else f"{self.project}!{self.mr_iid}"

    def make_key(self, session_id: str) -> SessionKey:
        """Make the key of a session about it."""
        branch = name_branch(self.branch) if self.branch else ""
        return SessionKey(self.project_id, self.mr_iid, session_id, branch)


@dataclass(frozen=True, slots=True)
class CacheMark:
    """Where the last request, sent at `sent_at` (epoch seconds), had its mark on stable messages.

    Positions count `messages.group_messages`. `end` is where the newest cache entry ends if that is
    past the mark, as it is after an ephemeral request (see `model.plan_marks`).
    """

    position: int
    sent_at: float = field(metadata={KEY: "at"})
    end: int = -1


@dataclass(frozen=True, slots=True)
class NoteRef:
    """A note on a merge request. `discussion_id` is set when it is an answer in a thread.

    `internal` says that only members read it.
    """

    note_id: int
    discussion_id: str = ""
    url: str = ""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one model call used. `cost_usd` is None where the model's price is unknown.

    The request was sent at `sent_at` (epoch seconds) and took `seconds`. `message` is the index of
    its answer in the session's messages, -1 if the answer was not kept. `task` says what a helper
    was asked for, "" for a request of the conversation itself. `tier` and `reasoning` are the
    tier and the level that were asked for, "" where none was.
    """

    turn: int
    model: str
    usage: Usage
    cost_usd: float | None
    sent_at: float = field(default=0.0, metadata={KEY: "at"})
    seconds: float = 0.0
    message: int = -1
    task: str = ""
    tier: str = ""
    reasoning: str = ""


RULE, KNOWN, INCIDENT, TRAIN = "rule", "known", "incident", "train"
"""Values of `Context.found_by`: the finding was made without a model. INCIDENT: what failed, fails
on the target branch too, and all that is known of that is the branch's. TRAIN: another car of the
merge train has broken it."""

OF_OTHERS = frozenset({INCIDENT, TRAIN})
"""Those that say nothing of the merge request itself."""

WITHOUT_MODEL = frozenset({RULE, KNOWN, *OF_OTHERS})

ASKED = "asked"
"""Value of `Context.found_by`: a model investigates what the host had answered without one."""


class Status(StrEnum):
    """How a turn ended."""

    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a turn. `text` is the model's answer ("" if none); `reason` says why not DONE."""

    status: Status
    text: str
    reason: str = ""


GIVEN_UP = "given up: "
"""The beginning of the reason of a turn that is not tried again."""

NO_OUTCOME = Outcome(Status.FAILED, "", "the run ended without an outcome")
"""The outcome of a turn whose context has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One session up to now, frozen: a step returns a new one. Fields are stored in this order.

    `system` and `tools` never change after the first request, so that the provider's cache of the
    prompt stays valid. `turn_start` is the index of this turn's first message. `answered_notes` are
    the ids of the reply notes that were answered. `gave_way` is the model that did not answer in
    this turn, if another took over. `calls` are all model calls of the session, in order. `survey`
    is what the host found out before the model was asked. `found_by` is one of WITHOUT_MODEL
    while no model has investigated the failure, "asked" in the later turn in which one does, or "".
    `losses` are lines that say what could not be restored of the stored session in this turn.
    `handed_over` says that another worker goes on with the run, and that none of the open calls
    had begun. `redactions` counts the secrets that were removed from what this turn has read.
    `note_text` is the note as this turn posted it, `verdict` its verdict ("" if it is no finding),
    and `seconds` how long the turn took. `folds` say which messages are sent in another form, the
    oldest fold first; they change no stored message. `fact` is the line that may go into the
    project's memory once the finding is confirmed, "" if none. `tier` is what was chosen for the
    turn, None if there are no tiers. `reply_by` is what answers a turn that needs no tools in its
    place, None if nothing does. `unposted_note` is the finished note that GitLab did not take.
    A pipeline may be run again and fail again, under its id or another one: `look` is the turn in
    which the newest of these failures was looked at, `ended_at` when its pipeline ended by GitLab's
    clock (epoch seconds, 0 if that is not known), and `first_pipeline` the one that the session's
    id is made of, 0 if it is the subject's. `earlier_note` is the text of the note before such a
    turn, which stays folded below its result. `on_request` says that the failure did not come
    again: a look was asked for, or what explained it does so no more. `dry_turns` are the turns of
    which nothing was posted: their notes were printed in a terminal alone.
    """

    session_id: str
    turn: int = 0
    turn_start: int = 0
    workflow: str
    model: str
    gave_way: str = ""
    subject: Subject
    note: NoteRef | None = None
    answered_notes: tuple[int, ...] = field(default=(), metadata={KEY: "answered"})
    system: str
    tools: tuple[ToolSpec, ...]
    survey: Survey | None = None
    found_by: str = ""
    losses: tuple[str, ...] = field(default=(), metadata={KEY: "lost"})
    handed_over: bool = field(default=False, metadata={KEY: "rested"})
    redactions: Counts = field(default=(), metadata={KEY: "redacted"})
    note_text: str = field(default="", metadata={KEY: "said"})
    unposted_note: str = ""
    verdict: str = ""
    seconds: float = 0.0
    fact: str = ""
    tier: TierChoice | None = None
    reply_by: ReplyModel | None = None
    look: int = 0
    ended_at: float = 0.0
    first_pipeline: int = 0
    earlier_note: str = ""
    on_request: bool = False
    dry_turns: tuple[int, ...] = ()
    outcome: Outcome | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    turn_usage: TurnUsage = field(metadata={KEY: "spent"})
    cache: CacheMark | None = None
    folds: tuple[Fold, ...] = ()
    calls: tuple[CallCost, ...] = ()
    messages: tuple[Message, ...]

    def add(self, *messages: Message) -> "Context":
        """Return the same session with `messages` added at the end."""
        return replace(self, messages=self.messages + messages)

    @property
    def reply_model(self) -> ReplyModel | None:
        """What answers the turn as long as no tool is needed; None: the session's own model."""
        return self.reply_by if self.reply_by and not self.reply_by.end_reason else None

    @property
    def investigates(self) -> bool:
        """Whether the turn should end in a finding: it is the first on a failure, or a model's
        first investigation."""
        return self.is_look or self.found_by == ASKED

    @property
    def is_look(self) -> bool:
        """Whether the turn is the first on a failure, which nobody need have asked for."""
        return self.turn == self.look

    @property
    def is_given_up(self) -> bool:
        """Whether the turn was given up after its runs broke off again and again."""
        return self.outcome is not None and self.outcome.reason.startswith(GIVEN_UP)

    @property
    def dry_run(self) -> bool:
        """Whether nothing of this turn was posted: its note was printed in a terminal alone."""
        return self.turn in self.dry_turns

    @property
    def began_dry(self) -> bool:
        """Whether the session is a dry run: nothing of its first turn was posted, so that nobody
        can find it in GitLab."""
        return 0 in self.dry_turns

    @property
    def note_turn(self) -> int:
        """The turn that the marker of this turn's note names: all looks share the first note."""
        return 0 if self.is_look else self.turn

    @property
    def has_failed(self) -> bool:
        """Whether the turn has no answer that can be used."""
        return self.outcome is None or self.outcome.status is Status.FAILED

    def last_text(self) -> str:
        """The newest text the model wrote in this turn, or ""."""
        for message in reversed(self.messages[self.turn_start :]):
            if isinstance(message, Assistant) and message.text.strip():
                return message.text
        return ""


def find_last_tool_turn(context: Context) -> int:
    """The newest turn in which the model called a tool, -1 if it has called none."""
    messages = context.messages
    if any(map(_has_calls, messages[context.turn_start :])):
        return context.turn
    turns = [
        call.turn
        for call in context.calls
        if 0 <= call.message < len(messages) and _has_calls(messages[call.message])
    ]
    # For sessions stored before calls recorded the index of their answer.
    unknown = context.turn if any(isinstance(each, ToolResult) for each in messages) else -1
    return max(turns, default=unknown)


def _has_calls(message: Message) -> bool:
    return isinstance(message, Assistant) and bool(message.calls)


def make_session_id(
    gitlab_url: str,
    project_id: int,
    mr_iid: int,
    pipeline_id: int,
    workflow: str,
    salt: str = "",
    branch: str = "",
) -> str:
    """An id that is the same for every delivery of a pipeline's failure, for one workflow.

    `salt` is what nobody else knows, so that an id cannot be computed from numbers that everybody
    reads; it also gives sessions of another kind, such as dry runs, an id of their own. `branch`
    names the branch of a pipeline that is no merge request's.
    """
    place = f"branch {branch}" if branch else str(mr_iid)
    parts = [gitlab_url.rstrip("/"), str(project_id), place, str(pipeline_id), workflow, salt]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def make_id_salt(store_key: str) -> str:
    """Make the secret part of the salt of session ids from the store's own key."""
    return hmac.digest(store_key.encode(), b"sandpiper session ids", "sha256").hex()
