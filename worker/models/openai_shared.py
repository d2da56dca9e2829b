"""What OpenAI's two APIs have in common: sent answers, arguments, usage."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    User,
    is_same_id,
)
from worker.models.codec import TOOL_NAME, dump_json, get_count, parse_json, read_tool_name


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer as it is sent back. `ids` maps our ids of the calls to the ids in `json`."""

    json: bytes
    ids: Mapping[str, str]


def split_side(side: Sequence[Message]) -> tuple[list[ToolResult], list[str]]:
    """Split a side into results, which must directly follow their calls, and the texts after
    them."""
    results = [message for message in side if isinstance(message, ToolResult)]
    texts = [message.text for message in side if isinstance(message, User)]
    return results, [text for text in texts if text.strip()] or ["(empty)"] * bool(texts)


def get_result_text(result: ToolResult) -> str:
    """Return a result's text; these APIs have no flag for errors."""
    content = result.content if result.content.strip() else "(no output)"
    return f"ERROR: {content}" if result.is_error else content


def repair_arguments(text: str) -> str:
    """Return the arguments, or {} if they are not an object. Several servers parse every call of
    the history, so a call that does not parse would make all later requests fail."""
    try:
        return text if isinstance(parse_json(text), dict) else "{}"
    except ValueError:
        return "{}"


def is_blank(content: Any) -> bool:
    """Whether the content of an answer is nothing, or text without a visible character: servers
    answer calls with " ", and others refuse that in what is sent back."""
    return not content or (isinstance(content, str) and not content.strip())


def omit_fields(fields: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """Return the fields of a body without those that the server has refused."""
    return {name: value for name, value in fields.items() if name not in refused}


def do_calls_match(message: Assistant, sent_calls: Sequence[tuple[Any, Any, Any]]) -> bool:
    """Whether the verbatim calls, as (id, name, arguments), have the ids of `message`'s calls,
    valid names, and arguments as text."""
    return len(sent_calls) == len(message.calls) and all(
        is_same_id(call.id, call_id)
        and isinstance(name, str)
        and TOOL_NAME.fullmatch(name)
        and isinstance(arguments, str)
        for call, (call_id, name, arguments) in zip(message.calls, sent_calls, strict=True)
    )


def parse_tool_calls(calls: Iterable[tuple[Any, Any, Any]]) -> tuple[ToolCall, ...]:
    """Parse the id, name and arguments of each call of an answer. Raises ValueError if one cannot
    be a call.

    Some servers give calls no id, or the same id to all; an id is then made from the call itself.
    Some give the arguments as JSON, not as its text.
    """
    parsed: dict[str, ToolCall] = {}
    for number, (call_id, name, arguments) in enumerate(calls):
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else dump_json(arguments).decode()
        name = read_tool_name(name)
        if not isinstance(call_id, str) or not call_id or call_id in parsed:
            seed = f"{number} {name} {arguments}".encode("utf-8", "surrogatepass")
            call_id = f"call_{hashlib.sha256(seed).hexdigest()[:24]}"
        parsed[call_id] = ToolCall(call_id, name, arguments)
    return tuple(parsed.values())


def parse_usage(usage: Any, question: str, answer: str) -> Usage:
    """Return the tokens as billed. The fields are "<question>_tokens", "<answer>_tokens" and their
    details; cached tokens are part of the former, reasoning of the latter."""
    read = get_count(usage, f"{question}_tokens_details", "cached_tokens")
    written = get_count(usage, f"{question}_tokens_details", "cache_write_tokens")
    return Usage(
        uncached_input=max(0, get_count(usage, f"{question}_tokens") - read - written),
        cache_read=read,
        cache_write=written,
        output=get_count(usage, f"{answer}_tokens"),
        reasoning=get_count(usage, f"{answer}_tokens_details", "reasoning_tokens"),
    )
