"""Shortens tool results, and names the files that hold the whole of them. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from worker.conversation.folds.fold import Fold
from worker.conversation.messages import Message, ToolResult
from worker.conversation.saved_files import find_saved_files
from worker.safety.untrusted import parse_objects

KEPT_BYTES = 600
"""A result of at most this many bytes is not shortened."""

_OUT = "/tmp/_out"
_MOST_PATHS = 5


def number_results(messages: Sequence[Message]) -> Iterator[tuple[int, int, ToolResult]]:
    """The tool results with their index in `messages` and their number in the session."""
    number = 0
    for index, message in enumerate(messages):
        if isinstance(message, ToolResult):
            yield index, number, message
            number += 1


@lru_cache(maxsize=4096)
def shorten_result(
    result: ToolResult, number: int, shown: int, most: int = KEPT_BYTES
) -> ToolResult:
    """Shorten a result of more than `most` bytes to the path of the file that holds the whole.

    `shown` characters of its head and of its tail are kept. The same result always gives the same
    bytes.
    """
    size = len(result.content.encode(errors="replace"))
    if size <= most:
        return result
    content = {"pruned": f"[pruned: {size} bytes; whole in {_tell_paths(result, number)}]"}
    if shown:
        content = {"head": result.content[:shown], **content, "tail": result.content[-shown:]}
    return replace(result, content=json.dumps(content, ensure_ascii=False))


def _tell_paths(result: ToolResult, number: int) -> str:
    paths = [*find_saved_files([result])]
    if (missing_file := find_missing_file(result, number)) and missing_file not in paths:
        paths.append(missing_file)
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return ", ".join(paths[:_MOST_PATHS]) + more


def find_missing_file(result: ToolResult, number: int) -> str:
    """The file to write the result to before it is folded, "" if files already hold all of it."""
    parts = parse_objects(result.content, "results")
    if parts and all(map(_lies_in_file, parts)):
        return ""
    taken = f"{_OUT}/{number}.txt" in find_saved_files([result])
    return f"{_OUT}/{number}.{'json' if taken else 'txt'}"


def _lies_in_file(part: Mapping[str, Any]) -> bool:
    """Whether a result, or one of a batch, shows only what its files hold."""
    if "saved_to" in part:
        return True
    shown = [name for name in ("stdout", "stderr") if part.get(name)]
    return bool(shown) and all(f"{name}_file" in part for name in shown)


def list_missing_files(
    messages: Sequence[Message], folds: Sequence[Fold]
) -> Iterator[tuple[str, str]]:
    """The paths and contents of the files to write before the results are folded."""
    upto = max((fold.upto for fold in folds), default=0)
    for index, number, result in number_results(messages[:upto]):
        covering = [fold for fold in folds if fold.start <= index < fold.upto]
        long = len(result.content.encode(errors="replace")) > KEPT_BYTES
        if not covering or not (long or any(fold.leaves_out for fold in covering)):
            continue
        if path := find_missing_file(result, number):
            yield path, result.content
