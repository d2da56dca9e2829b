"""A language model: what it is asked, and what it answers; and a helper, asked for small things."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from worker.conversation.context import CacheMark
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


# ------------------------------------------------------------------------------- the prompt's cache
#
# https://platform.claude.com/docs/en/build-with-claude/prompt-caching says what a mark is.
# Anthropic writes an entry only at a mark, for 1.25 times plain input, and reads the longest one at
# or shortly before one, for 0.1: a token should be written once, by the first request that holds
# it.
#
# Two marks slide: one on the last stable group, one where that was before. With these alone, the
# newest results of an ephemeral request (one that ends in a warning or a reminder) would be paid
# for twice: 5 % of an eight-request session. But prefixes are hashed block by block, and the
# ephemeral text is a block of its own. So there are two more: the *inner* mark, on the last stored
# block of such a request, and the *kept* mark, where the newest entry ends; without it the next
# request finds that entry only by a look-back of 20 positions, and ten parallel calls may be
# longer. The first request after a fold, which has no kept mark, has two where folds end instead.
#
# That is four, the most that the API accepts. A spare one goes to the end of the system prompt, for
# the other sessions of the workflow. A forced final request is marked as any other: not to write
# its tail would save 1.3 % of eight requests, and cost 4.4 % if a reply comes within the lifetime.

LIFETIME = 300.0
"""Seconds an entry lives after the start of the last request that used it.

No safety margin is subtracted: a mark on an expired entry costs nothing, but a missing mark on a
live entry costs the whole prefix.
"""


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """The marks of one request, as positions in `messages.group_messages`; `cache` goes into the
    session once the request was answered."""

    marks: tuple[int, ...]
    cache: CacheMark | None


def plan_marks(
    count: int,
    cache: CacheMark | None,
    *,
    ephemeral: bool,
    now: float,
    fold_ends: Sequence[int] = (),
) -> MarkPlan:
    """Plan the marks of a request of `count` groups that is sent at `now` (epoch seconds).

    `fold_ends` are at most two positions, for the first request after a fold: the entry that ends
    at the older one can still be read, and the entry at the newer one after the next fold.
    """
    alive = cache if cache and now - cache.sent_at < LIFETIME else None
    inner = count - 1
    newest = max(inner - ephemeral, 0)
    marks = {newest, inner, *(end for end in fold_ends if end < inner)}
    if alive:
        marks |= {min(alive.position, newest), min(max(alive.position, alive.end), inner)}
    return MarkPlan(tuple(sorted(marks)), CacheMark(newest, now, inner))
