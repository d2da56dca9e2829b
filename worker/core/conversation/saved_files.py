"""Finds the sandbox files that a conversation names. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from worker.core.conversation.messages import Message, find_results

_SAVED = ("saved_to", "stdout_file", "stderr_file")
_PATH = 300


def find_saved_files(messages: Sequence[Message]) -> tuple[str, ...]:
    """The paths under /tmp where tool results say that something was saved, each once, in order."""
    paths = (path for result in find_results(messages) for path in _paths(result.content))
    return tuple(dict.fromkeys(paths))


def list_parts(content: str) -> Sequence[Mapping[str, Any]]:
    """The JSON objects of a tool result: those of a batch, or the result itself."""
    try:
        made = json.loads(content)
    except (ValueError, RecursionError):
        return ()
    listed = made.get("results", [made]) if isinstance(made, dict) else []
    parts = listed if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, dict)]


def _paths(content: str) -> Iterator[str]:
    for each in list_parts(content):
        beside = each.get("also_saved")
        named = [*map(each.get, _SAVED), *(beside if isinstance(beside, dict) else ())]
        yield from (path for path in named if isinstance(path, str) and _is_plain(path))


def _is_plain(path: str) -> bool:
    return path.startswith("/tmp/") and path.isprintable() and len(path) <= _PATH
