"""The messages of a session as they are sent: a pure function of messages and folds."""

from collections.abc import Sequence
from dataclasses import replace

from worker.conversation.folds.fold import Fold, FoldKind
from worker.conversation.folds.results import number_results, shorten_result
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    User,
    count_groups,
    drop_wire,
)

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
