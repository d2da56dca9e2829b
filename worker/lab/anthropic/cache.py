"""Anthropic's prompt cache: counts what a request reads, writes and pays in full.

See https://platform.claude.com/docs/en/build-with-claude/prompt-caching.

A prefix consists of tools, system and messages, in this order. Entries are written only at marks; a
mark reads the longest entry within the last 20 positions. A run of calls or of results is one
position on the Claude API; Vertex AI may count every block.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.lab.anthropic.protocol import encode_compact, list_blocks, merge_messages, remove_mark

LOOK_BACK = 20
MINIMUM = 512
"""The shortest cached prefix in tokens."""
LIFETIME = 300.0
CHARACTERS_PER_TOKEN = 4
_RUNS = frozenset({"tool_use", "tool_result"})


@dataclass(frozen=True, slots=True)
class InputTokens:
    """Input tokens of one request."""

    uncached_tokens: int
    read_tokens: int
    written_tokens: int

    @property
    def total(self) -> int:
        """The number of all input tokens."""
        return self.uncached_tokens + self.read_tokens + self.written_tokens


@dataclass(frozen=True, slots=True)
class Position:
    """A block of a request. `key` identifies the prefix up to it, `tokens` is its size."""

    key: str
    tokens: int
    slot: int
    has_mark: bool


@dataclass
class PrefixCache:
    """One workspace's cache."""

    now: Callable[[], float] = time.monotonic
    _entries: dict[str, float] = field(default_factory=dict)

    def account_body(self, body: Mapping[str, Any]) -> InputTokens:
        """Count the tokens of one valid request, and store what it writes."""
        return self.account(list(list_positions(body)))

    def account(self, positions: Sequence[Position]) -> InputTokens:
        """Count the tokens of a request that is given as positions."""
        start = self.now()
        self._entries = {key: until for key, until in self._entries.items() if until > start}
        marks = [at for at, position in enumerate(positions) if position.has_mark]
        read = max((self._count_read(positions, at, start) for at in marks), default=0)
        end = max(read, self._count_written(positions, start))
        total = positions[-1].tokens if positions else 0
        return InputTokens(uncached_tokens=total - end, read_tokens=read, written_tokens=end - read)

    def _count_read(self, positions: Sequence[Position], mark: int, start: float) -> int:
        oldest = positions[mark].slot - LOOK_BACK + 1
        for position in reversed(positions[: mark + 1]):
            if position.slot < oldest:
                break
            if position.key in self._entries:
                self._entries[position.key] = start + LIFETIME
                return position.tokens
        return 0

    def _count_written(self, positions: Sequence[Position], start: float) -> int:
        end = 0
        for position in positions:
            if position.has_mark and position.tokens >= MINIMUM:
                self._entries[position.key] = start + LIFETIME
                end = position.tokens
        return end


def estimate_tokens(characters: int) -> int:
    """Estimate the number of tokens."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def list_positions(body: Mapping[str, Any], *, runs_are_one: bool = True) -> Iterator[Position]:
    """Yield the blocks of a request in the order of the prefix.

    With `runs_are_one` a run of calls or results is one position of the look-back.
    """
    digest = hashlib.sha256(str(body["model"]).encode())
    length, slot, last = 0, 0, ""
    for tier, block in _list_prefix(body):
        kind = block.get("type", "") if tier != "tools" else ""
        slot += not (runs_are_one and kind in _RUNS and f"{tier} {kind}" == last)
        last = f"{tier} {kind}"
        text = encode_compact(remove_mark(block))
        digest.update(tier.encode() + text)
        length += len(text)
        yield Position(digest.hexdigest(), estimate_tokens(length), slot, "cache_control" in block)


def _list_prefix(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in body.get("tools", ()):
        yield "tools", tool
    for block in list_blocks(body.get("system", ())):
        yield "system", block
    # A changed tool_choice invalidates the messages, and only them.
    choice = encode_compact(body.get("tool_choice", {"type": "auto"})).decode()
    for role, content in merge_messages(body["messages"]):
        for block in content:
            yield f"{choice} {role}", block
