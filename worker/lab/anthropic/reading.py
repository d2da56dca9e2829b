"""Reads a request of the Messages API for the script."""

from collections.abc import Mapping, Sequence
from typing import Any

from worker.conversation.prompts import write_continuation
from worker.lab.anthropic.protocol import Json, list_blocks, merge_messages
from worker.lab.script import Asked, Result

_REPLY = write_continuation("", files="", seconds=0.0, changes=()).splitlines()[0]


def read_request(body: Mapping[str, Any]) -> Asked:
    """Read from a valid body what a script needs."""
    sides = list(merge_messages(body["messages"]))
    humans = [at for at, side in enumerate(sides) if _is_human(side, first=at == 0)]
    newest = humans[-1]
    return Asked(
        first=_list_texts(sides[0][1])[0],
        human=_get_human_text(sides[newest][1]),
        turn=len(humans) - 1,
        answers=sum(role == "assistant" for role, _ in sides[newest:]),
        results=_list_results(sides),
        notice=_get_notice(sides[-1][1]),
        tools_allowed=body.get("tool_choice", {}).get("type") != "none",
        body=body,
    )


def _is_human(side: tuple[str, list[Json]], *, first: bool) -> bool:
    """Whether a human wrote this. Text after tool results is a notice, unless it starts a reply."""
    role, content = side
    if role != "user":
        return False
    replied = any(_REPLY in text for text in _list_texts(content))
    return first or replied or not _has_results(content)


def _get_human_text(content: Sequence[Json]) -> str:
    texts = _list_texts(content)
    return next((text for text in texts if _REPLY in text), texts[0] if texts else "")


def _get_notice(content: Sequence[Json]) -> str:
    texts = _list_texts(content)
    return "\n".join(texts if _has_results(content) else texts[1:])


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
