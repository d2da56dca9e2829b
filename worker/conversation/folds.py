"""Folds: stretches of the conversation that are sent in another form from one request on. Pure.

The messages as they are sent are a function of the stored messages and the folds.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    User,
    count_groups,
    drop_wire,
    find_saved_files,
)
from worker.safety.untrusted import parse_objects


class FoldKind(StrEnum):
    """How the messages of a fold are sent.

    PRUNE shortens long tool results to `Fold.limit` characters of their head and of their tail, and
    names the file that holds the whole. WINDOW leaves the messages out.
    SUMMARY and RECURSIVE send a summary in their place; the latter was made in parts. CUT shortens
    every single message that is longer than `Fold.limit`.
    """

    PRUNE = "prune"
    WINDOW = "window"
    SUMMARY = "summary"
    RECURSIVE = "recursive"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Fold:
    """`messages[start:upto]` of a session in another form. The messages themselves stay stored.

    It was made when the session had `made_at` messages, and applies to all requests since.
    `text` replaces the messages that are left out. `limit` is how many characters a PRUNE leaves of
    each end of a result, and how many bytes a CUT leaves of a message. `kept_messages` are the
    indices of messages in the stretch that are still sent.
    `drops_wire` says that verbatim answers from before the fold are no longer sent, because their
    model binds them to the exact messages before them.
    """

    kind: FoldKind
    start: int
    upto: int
    made_at: int
    text: str = ""
    limit: int = 0
    kept_messages: tuple[int, ...] = ()
    drops_wire: bool = False

    @property
    def leaves_out(self) -> bool:
        """Whether the messages are not sent at all."""
        return self.kind in {FoldKind.WINDOW, FoldKind.SUMMARY, FoldKind.RECURSIVE}


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


_CUT = "\n[cut: {} bytes are left out here]\n"


def build_view(messages: Sequence[Message], folds: Sequence[Fold]) -> tuple[Message, ...]:
    """The messages that a request holds. The same folds always give the same bytes."""
    if not folds:
        return tuple(messages)
    shown = _shorten_messages(messages, folds)
    left_out = next((fold for fold in reversed(folds) if fold.leaves_out), None)
    if left_out is None:
        return tuple(shown)
    kept_messages = [shown[index] for index in left_out.kept_messages]
    return (
        *shown[: left_out.start],
        User(left_out.text),
        *kept_messages,
        *shown[left_out.upto :],
    )


def list_fold_ends(messages: Sequence[Message], folds: Sequence[Fold]) -> tuple[int, ...]:
    """Where the two newest folds end, as positions in the groups of the view, oldest first.

    If both prune, what precedes the older end is the same before and after the newer fold.
    """
    left_out = next((fold.upto for fold in reversed(folds) if fold.leaves_out), 0)
    ends = sorted({fold.upto for fold in folds if fold.upto >= left_out})[-2:]
    views = (build_view(messages[:end], folds) for end in ends)
    return tuple(count_groups(view) - 1 for view in views)


def _shorten_messages(messages: Sequence[Message], folds: Sequence[Fold]) -> list[Message]:
    shown = list(messages)
    bound = max((fold.made_at for fold in folds if fold.drops_wire), default=0)
    shown[:bound] = map(drop_wire, shown[:bound])
    pruned = [fold for fold in folds if fold.kind is FoldKind.PRUNE]
    upto = max((fold.upto for fold in pruned), default=0)
    for index, number, result in number_results(messages[:upto]):
        limits = [fold.limit for fold in pruned if fold.start <= index < fold.upto]
        if limits:
            shown[index] = shorten_result(result, number, min(limits))
    _cut_messages(shown, [fold for fold in folds if fold.kind is FoldKind.CUT], messages)
    return shown


def _cut_messages(shown: list[Message], cuts: Sequence[Fold], messages: Sequence[Message]) -> None:
    """Cut each message as the shortest of the `cuts` that cover it says."""
    upto = max((fold.upto for fold in cuts), default=0)
    limits = [min(fold.limit for fold in cuts if index < fold.upto) for index in range(upto)]
    for index, number, result in number_results(messages[:upto]):
        if shown[index] is result:
            shown[index] = shorten_result(result, number, limits[index] // 2, limits[index])
    for index, limit in enumerate(limits):
        message = shown[index]
        if not isinstance(message, ToolResult):
            shown[index] = _cut_text(message, limit)


def _cut_text(message: User | Assistant, limit: int) -> User | Assistant:
    """The message with the middle of its text left out; a call's arguments stay whole."""
    encoded = message.text.encode(errors="replace")
    if len(encoded) <= limit:
        return message
    half = limit // 2
    head, tail = (part.decode(errors="ignore") for part in (encoded[:half], encoded[-half:]))
    text = head + _CUT.format(len(encoded) - limit) + tail
    if isinstance(message, User):
        return User(text)
    return replace(message, text=text, wire=None)
