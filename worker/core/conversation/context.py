"""A session as a value: everything a run needs to go on, and all that is stored of it."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from worker.core.conversation.limits import Spent
from worker.core.conversation.messages import Assistant, Message, ToolResult, ToolSpec, Usage
from worker.core.failure.jobs import Survey
from worker.core.text.redaction_counts import Counts

SCHEMA = 1
"""The version of `context.json`. A reader knows its own and all older ones."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The merge request and pipeline a session is about; sources are bound to these ids.

    `project_id` is the merge request's (target) project, where the note goes. The pipeline may
    have run in a fork: `pipeline_project_id`. `sha` is the commit the pipeline ran on. `web_url` is
    the merge request's page, `pipeline_web_url` the pipeline's, "" where it is not known.
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


@dataclass(frozen=True, slots=True)
class CacheMark:
    """Where B2 stood in the last request, and when (epoch seconds) the request was sent.

    Positions count `messages.groups`. `end` is where the newest cache entry ends if that is past
    B2, as it is after an ephemeral request (see `breakpoints`).
    """

    position: int
    at: float
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

    It was sent `at` (epoch seconds) and took `seconds`. `message` is the index of its answer in the
    session's messages, -1 where none was kept.
    """

    turn: int
    model: str
    usage: Usage
    cost_usd: float | None
    at: float = 0.0
    seconds: float = 0.0
    message: int = -1


RULE, KNOWN = "rule", "known"
"""`Context.found_by` of a finding that was made without a model."""

ASKED = "asked"
"""`Context.found_by` of a turn in which a model looks into what the host had answered."""


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


@dataclass(frozen=True, slots=True)
class Context:
    """One session up to now. Frozen: a step returns a new one.

    `system` and `tools` never change after the first request (law 7). `turn_start` is the index of
    the first message of this turn. `answered` are the ids of the reply notes already dealt with.
    `gave_way` is the model that did not answer in this turn, if another took over. `calls` are all
    model calls of the session, in order. `survey` is what the host found before the model.
    `found_by` is "rule" or "known" while no model has looked into the failure, "asked" in the later
    turn in which one does, else "". `lost` says what of the session could not be had in this turn.
    `rested` says that its run was handed over: none of its open calls had been begun.
    `redacted` counts the secrets that were taken out of what this turn has read. `said` is the note
    as this turn has posted it, `verdict` its verdict ("" if it is no finding), and `seconds` what
    the turn took.
    """

    session_id: str
    subject: Subject
    workflow: str
    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    spent: Spent
    turn: int = 0
    turn_start: int = 0
    cache: CacheMark | None = None
    note: NoteRef | None = None
    answered: tuple[int, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    outcome: Outcome | None = None
    gave_way: str = ""
    calls: tuple[CallCost, ...] = ()
    survey: Survey | None = None
    found_by: str = ""
    lost: tuple[str, ...] = ()
    rested: bool = False
    redacted: Counts = ()
    said: str = ""
    verdict: str = ""
    seconds: float = 0.0

    def add(self, *messages: Message) -> "Context":
        """The same session with `messages` at the end."""
        return replace(self, messages=self.messages + messages)

    @property
    def investigates(self) -> bool:
        """Whether the turn is to end in a finding: the first one, or a model's first look."""
        return self.turn == 0 or self.found_by == ASKED

    def last_text(self) -> str:
        """The newest text the model wrote in this turn, or ""."""
        for message in reversed(self.messages[self.turn_start :]):
            if isinstance(message, Assistant) and message.text.strip():
                return message.text
        return ""


def find_last_use(context: Context) -> int:
    """The newest turn in which the model called a tool, -1 if it has called none."""
    messages = context.messages
    if any(map(_calls, messages[context.turn_start :])):
        return context.turn
    turns = [
        call.turn
        for call in context.calls
        if 0 <= call.message < len(messages) and _calls(messages[call.message])
    ]
    # Sessions that were stored before calls knew their answers.
    unknown = context.turn if any(isinstance(each, ToolResult) for each in messages) else -1
    return max(turns, default=unknown)


def _calls(message: Message) -> bool:
    return isinstance(message, Assistant) and bool(message.calls)
