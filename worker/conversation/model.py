"""A language model: what it is asked, and what it answers; and a helper, asked for small things."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.conversation.messages import Message, ToolCall, ToolSpec, Usage


class StopReason(StrEnum):
    """Why the model stopped, in one vocabulary for all providers."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    BLOCKED = "blocked"
    PAUSED = "paused"
    CONTEXT_OVERFLOW = "context_overflow"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Request:
    """One model call.

    `notice` is ephemeral text for the end. `marks` are positions in `group_messages(messages)` that
    carry a cache mark. `deadline` is in monotonic seconds: no attempt starts or waits past it.
    `session` is the same for all requests of a session: providers use it to route to a warm cache.
    `max_output` limits the answer to fewer tokens than the model does; 0 sets no limit. With
    `has_to_call` the answer must call a tool, if the wire format can express that.
    """

    system: str
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    notice: str = ""
    tools_allowed: bool = True
    marks: tuple[int, ...] = ()
    deadline: float | None = None
    session: str = ""
    max_output: int = 0
    has_to_call: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """One model answer in canonical form. `wire` is the JSON text of the answer's content.

    `calls` is empty unless `stop` is TOOL_CALLS or END: a truncated call is never executed, only
    counted in `dropped_calls`. `thought` says that `wire` holds signed thinking. `cost_usd` is None
    when the model's price is unknown. `bare` says that the provider refused the verbatim parts of
    earlier answers and answered without them: no later request may send them.
    """

    text: str
    calls: tuple[ToolCall, ...]
    wire: str
    stop: StopReason
    usage: Usage
    cost_usd: float | None
    detail: str = ""
    dropped_calls: int = 0
    thought: bool = False
    bare: bool = False


class Model(Protocol):
    """A language model behind one provider."""

    @property
    def name(self) -> str:
        """provider/model, as configured; also the origin of verbatim wire parts."""
        ...

    @property
    def context_tokens(self) -> int:
        """The largest input, in tokens, that leaves room for an answer."""
        ...

    @property
    def binds_thinking(self) -> bool:
        """Whether signed thinking is valid only after the exact messages it was written for."""
        ...

    @property
    def keeps_cache_without_tools(self) -> bool:
        """Whether a request with the tools switched off still reads the cached messages."""
        ...

    def reply(self, request: Request) -> Reply:
        """Ask once, retrying what is transient. Raises ModelError or ContextOverflow."""
        ...


@dataclass(frozen=True, slots=True)
class HelperAnswer:
    """What a helper said, by which `model`, and what it cost (None: unknown price).

    The request was sent at `sent_at` (epoch seconds) and took `seconds`.
    """

    text: str
    usage: Usage
    cost_usd: float | None
    model: str
    sent_at: float = 0.0
    seconds: float = 0.0


class Helper(Protocol):
    """A model that is asked once, without tools and history."""

    @property
    def context_tokens(self) -> int:
        """The most input tokens of one request."""
        ...

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        """The answer, of at most `max_tokens`, to the instructions `task` about `text`.

        Raises nothing: None if the helper fails, is late or is not asked at the moment. Callers
        then go on by rules.
        """
        ...
