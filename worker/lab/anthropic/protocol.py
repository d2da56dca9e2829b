"""A request of the Messages API as the server reads it: its blocks, its signatures, its cache.

See https://platform.claude.com/docs/en/build-with-claude/prompt-caching. A prefix consists of
tools, system and messages, in this order. Entries are written only at marks; a mark reads the
longest entry within the last 20 positions. A run of calls or of results is one position on the
Claude API; Vertex AI may count every block.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.conversation.prompts import write_continuation
from worker.lab.script import Asked, Result

Json = dict[str, Any]


class Refused(Exception):
    """An error answer. `code` is the stable error code, "" for most."""

    def __init__(self, status: int, kind: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code

    def body(self, request_id: str) -> Json:
        """Return the error's body: https://platform.claude.com/docs/en/api/errors."""
        error: Json = {"type": self.kind, "message": str(self)}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def make_invalid(message: str) -> Refused:
    """Make the error for a request that breaks a rule."""
    return Refused(400, "invalid_request_error", message)


def list_blocks(content: Any) -> list[Json]:
    """Return a message's or system prompt's content as blocks; plain text is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def merge_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Json]]]:
    """Yield roles with blocks; adjacent messages of one role are merged, as on the server."""
    role, together = "", list[Json]()
    for message in messages:
        if message["role"] != role and together:
            yield role, together
            together = []
        role = message["role"]
        together = together + list_blocks(message["content"])
    if together:
        yield role, together


def remove_mark(block: Mapping[str, Any]) -> Json:
    """Return the block without its cache mark, which does not belong to the prefix."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def encode_compact(value: Any) -> bytes:
    """Encode JSON with the keys in their own order, on which a prefix depends."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


_REPLY = write_continuation("", files="", seconds=0.0, changes=()).splitlines()[0]


def read_request(body: Mapping[str, Any]) -> Asked:
    """Read from a valid body what a script needs."""
    sides = list(merge_messages(body["messages"]))
    # Text after tool results is a notice and no human's, unless it starts a reply.
    humans = [
        at
        for at, (role, content) in enumerate(sides)
        if role == "user"
        if at == 0
        or any(_REPLY in text for text in _list_texts(content))
        or not _has_results(content)
    ]
    newest = humans[-1]
    said, last = _list_texts(sides[newest][1]), sides[-1][1]
    notices = _list_texts(last)[0 if _has_results(last) else 1 :]
    return Asked(
        first=_list_texts(sides[0][1])[0],
        human=next((text for text in said if _REPLY in text), said[0] if said else ""),
        turn=len(humans) - 1,
        answers=sum(role == "assistant" for role, _ in sides[newest:]),
        results=_list_results(sides),
        notice="\n".join(notices),
        tools_allowed=body.get("tool_choice", {}).get("type") != "none",
        body=body,
    )


def _has_results(content: Sequence[Json]) -> bool:
    return any(block["type"] == "tool_result" for block in content)


def _list_texts(content: Sequence[Json]) -> list[str]:
    return [block["text"] for block in content if block["type"] == "text"]


def _list_results(sides: Sequence[tuple[str, list[Json]]]) -> tuple[Result, ...]:
    names: dict[str, str] = {}
    results = []
    for _, content in sides:
        for block in content:
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                text = "\n".join(_list_texts(list_blocks(block.get("content", ""))))
                failed = bool(block.get("is_error"))
                results.append(Result(names[block["tool_use_id"]], text, failed))
    return tuple(results)


_BINDING = re.compile(r"(fable-5-1|mythos-5-1|(opus|sonnet|haiku)-5-5)")
_THINKING = frozenset({"thinking", "redacted_thinking"})


def binds_thinking(model: str) -> bool:
    """Whether the model's signatures include the prefix."""
    return bool(_BINDING.search(model))


def sign_thinking(body: Mapping[str, Any]) -> str:
    """Make the signature of a thinking block in the answer to `body`."""
    return _compute_signature(body, list(merge_messages(body["messages"])))


def check_thinking(body: Mapping[str, Any]) -> None:
    """Raise Refused for thinking that was signed with another prefix."""
    sides = list(merge_messages(body["messages"]))
    for i, (_, content) in enumerate(sides):
        signed = [at for at, block in enumerate(content) if block["type"] == "thinking"]
        for j in signed:
            why = f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block"
            given = content[j]["signature"]
            if not re.fullmatch(r"sig_[0-9a-f]{40}", given):
                raise make_invalid(why)
            is_bound = binds_thinking(str(body["model"]))
            if is_bound and given != _compute_signature(body, sides[:i]):
                raise make_invalid(
                    f"{why}. The block is bound to a different conversation. Remove the block, or "
                    'set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )


def _compute_signature(body: Mapping[str, Any], before: Sequence[tuple[str, list[Json]]]) -> str:
    """Compute a signature without cache marks and earlier thinking, which may have been removed."""
    digest = hashlib.sha256(encode_compact([remove_mark(tool) for tool in body.get("tools", ())]))
    digest.update(
        encode_compact([remove_mark(block) for block in list_blocks(body.get("system", ()))])
    )
    for role, content in before:
        kept = [remove_mark(block) for block in content if block["type"] not in _THINKING]
        digest.update(role.encode() + encode_compact(kept))
    return f"sig_{digest.hexdigest()[:40]}"


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
        end = read
        for position in positions:
            if position.has_mark and position.tokens >= MINIMUM:
                self._entries[position.key] = start + LIFETIME
                end = max(end, position.tokens)
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
