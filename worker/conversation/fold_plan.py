"""When a conversation is folded, and how: a function of the session, its limits, the clock. Pure.

How many tokens a request will have is estimated without a tokenizer: a weight is computed from the
bytes of each class. What a byte weighs lies between its costs in the available tokenizers (Claude's
first one, Mistral's two). A provider's own count of an earlier request converts weights to that
provider's tokens.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits, punctuation

from worker.conversation.context import Context
from worker.conversation.folds import Fold, FoldKind, build_view
from worker.conversation.limits import Limits, find_room
from worker.conversation.messages import Assistant, Message, ToolResult, ToolSpec, User
from worker.conversation.model import LIFETIME
from worker.conversation.tiers import REPLY
from worker.settings.runs import Resume, Strategy

_KINDS: Mapping[Strategy, tuple[FoldKind, ...]] = {
    Strategy.NONE: (FoldKind.PRUNE, FoldKind.SUMMARY),
    Strategy.PRUNE: (FoldKind.PRUNE, FoldKind.SUMMARY),
    Strategy.WINDOW: (FoldKind.PRUNE, FoldKind.WINDOW),
    Strategy.SUMMARY: (FoldKind.PRUNE, FoldKind.SUMMARY),
    Strategy.RECURSIVE: (FoldKind.PRUNE, FoldKind.RECURSIVE),
}
"""The kinds of folds of each strategy, the cheapest first."""

_PRUNE_LIMITS = (200, 0)
"""Characters pruning leaves at each end of a result; the second if the first saves too little."""

_SMALL_WINDOW = 64_000
"""A window of fewer tokens is kept free by summaries if no strategy is set."""

LEAST_SAVED = 0.05
"""The share of the window that a fold must save to be worth a new prefix."""

_ENOUGH = {Strategy.PRUNE: 0.15}
_ENOUGH_OTHERWISE = 0.25
"""If a fold saves this share of the window, folds that lose more are not considered."""

LEAST_SAVED_AT_RESUME = 2000
"""Tokens that a fold at the start of a reply must save."""

_TAILS = (6, 2)
"""How many of the last messages are kept if `keep_last` of them make a conversation too long."""

_BYTES_PER_TOKEN = 3.5
_SHORTEST_CUT = 1000
"""Bytes of a message that a cut leaves at least."""

_PLACEHOLDER = 3000
"""The assumed number of characters of a summary that is still to be written."""


def estimate_size(context: Context, folds: Sequence[Fold] | None = None) -> int:
    """The estimated input tokens of the next request; `folds` replace the session's if given."""
    view = build_view(context.messages, context.folds if folds is None else folds)
    return estimate_tokens(_weigh(context, view), _find_counted(context))


def _weigh(context: Context, messages: Sequence[Message]) -> float:
    return weigh_request(context.system, context.tools, messages, origin=context.model)


def _find_counted(context: Context) -> tuple[float, int] | None:
    """The weight and the counted tokens of the session's last request to this model, also if it was
    refused as too long."""
    counted = (
        call
        for call in reversed(context.calls)
        if call.model == context.model and call.message > 0 and call.usage.input > 0
    )
    last = next(counted, None)
    spent = context.turn_usage
    if spent.refused_tokens and spent.refused_at > (last.message if last else 0):
        folds = context.folds[: spent.refused_folds]
        sent = build_view(context.messages[: spent.refused_at], folds)
        return _weigh(context, sent), spent.refused_tokens
    if last is None:
        return None
    folds = tuple(fold for fold in context.folds if fold.made_at <= last.message)
    return _weigh(context, build_view(context.messages[: last.message], folds)), last.usage.input


def choose_fold(context: Context, limits: Limits, now: float) -> Fold | None:
    """The fold to make before the next request, None if there is none to make.

    If it leaves messages out, its text is still to be written.
    """
    at = len(context.messages)
    folds = [fold for fold in context.folds if fold.made_at == at]
    settings, room = limits.context, find_room(limits, context.turn_usage)
    if context.turn_usage.refused_at == at:
        # A provider has refused the request as too long.
        size = estimate_size(context)
        folds_on = size >= room * settings.fold_to and len(folds) < settings.passes
        if folds_on and (helpful := _choose_helpful(context, limits, size)):
            return helpful
        return None if size < room * settings.fold_at else _choose_cut(context, limits, size)
    if not folds and settings.resume is not Resume.NONE and _is_cold_reply(context, now):
        kind = FoldKind(settings.resume.value)
        listed = _list_ranges(context, kind, settings.keep_first, context.turn_start)
        if (fold := next(listed, None)) is None:
            return None
        saved = estimate_size(context) - estimate_size(context, (*context.folds, fold))
        return fold if saved >= LEAST_SAVED_AT_RESUME else None
    if _find_strategy(context, limits) is Strategy.NONE:
        return None
    size = estimate_size(context)
    if size < room * (settings.fold_to if folds else settings.fold_at):
        return None
    return _choose_helpful(context, limits, size) if len(folds) < settings.passes else None


def _find_strategy(context: Context, limits: Limits) -> Strategy:
    if limits.context.strategy is not None:
        return limits.context.strategy
    is_small = find_room(limits, context.turn_usage) < _SMALL_WINDOW
    return Strategy.SUMMARY if is_small else Strategy.NONE


def _choose_cut(context: Context, limits: Limits, size: int) -> Fold | None:
    """The longest cut that lets the request fit, else the one that saves most.

    If a request that was cut is refused as well, its messages are cut shorter.
    """
    settings, room = limits.context, find_room(limits, context.turn_usage)
    end = len(context.messages)
    made = [fold.limit for fold in context.folds if fold.kind is FoldKind.CUT and fold.upto == end]
    limit = max(int(room * settings.cut_share * _BYTES_PER_TOKEN), settings.cut_least)
    limit = min([limit, *(each // 2 for each in made)])
    best, most = None, LEAST_SAVED * room
    while limit >= _SHORTEST_CUT:
        cut = Fold(FoldKind.CUT, 0, end, made_at=end, limit=limit)
        left = estimate_size(context, (*context.folds, cut))
        if size - left >= most:
            best, most = cut, size - left
            if left < room * settings.fold_at:
                break
        limit //= 2
    return best


def _is_cold_reply(context: Context, now: float) -> bool:
    """Whether this is the first request of a reply, and its prefix is no longer cached.

    That is the session's own model's cache, also where another answers the reply: what is folded
    for that one is folded for both.
    """
    requests = [call for call in context.calls if not call.task and call.tier != REPLY]
    if context.turn == 0 or context.turn_usage.iterations or not requests:
        return False
    last = requests[-1]
    is_other = last.model != context.model and not context.reply_model
    return is_other or now - last.sent_at >= LIFETIME


def _choose_helpful(context: Context, limits: Limits, size: int) -> Fold | None:
    """The cheapest fold that saves enough, else the one that saves most.

    Fewer than `keep_last` messages are kept only if nothing else saves enough.
    """
    room = find_room(limits, context.turn_usage)
    enough = room * _ENOUGH.get(_find_strategy(context, limits), _ENOUGH_OTHERWISE)
    best, most = None, LEAST_SAVED * room
    for fold in _list_candidates(context, limits, size):
        saved = size - estimate_size(context, (*context.folds, fold))
        if saved >= most:
            best, most = replace(fold, text=""), saved
        if saved >= enough:
            break
    return best


def _list_candidates(context: Context, limits: Limits, size: int) -> Iterator[Fold]:
    settings, strategy = limits.context, _find_strategy(context, limits)
    too_long = size >= settings.fold_at * find_room(limits, context.turn_usage)
    kinds, tails = _KINDS[strategy], _TAILS if too_long else ()
    if strategy is Strategy.PRUNE and not too_long:
        kinds = (FoldKind.PRUNE,)
    for tail in (settings.keep_last, *(each for each in tails if each < settings.keep_last)):
        for kind in kinds:
            yield from _list_ranges(
                context, kind, settings.keep_first, len(context.messages) - tail
            )


def _list_ranges(context: Context, kind: FoldKind, keep_first: int, upto: int) -> Iterator[Fold]:
    """The folds of a kind up to `upto`, without those that would change nothing."""
    if kind is not FoldKind.PRUNE:
        folds = [_make_range(context, kind, keep_first, upto)]
    else:
        folds = [_make_range(context, kind, keep_first, upto, limit=each) for each in _PRUNE_LIMITS]
    yield from filter(None, folds)


def _make_range(
    context: Context, kind: FoldKind, keep_first: int, upto: int, *, limit: int = 0
) -> Fold | None:
    """Make the fold of the messages from `keep_first` on, up to the end of an exchange; None if all
    are folded already."""
    messages = context.messages
    upto = _find_end(messages, upto)
    fold = Fold(kind, keep_first, upto, made_at=len(messages), limit=limit)
    start = keep_first
    # A call that stays keeps its results.
    while fold.leaves_out and start < len(messages) and isinstance(messages[start], ToolResult):
        start += 1
    fold = replace(fold, start=start)
    # Earlier folds in whose stretch this one would change nothing.
    covering = (
        each.upto
        for each in context.folds
        if each.leaves_out or (each.kind is fold.kind and each.limit <= fold.limit)
    )
    if upto <= max([start, *covering]):
        return None
    if not fold.leaves_out:
        return fold
    question = context.turn_start
    kept = (question,) if start <= question < upto and isinstance(messages[question], User) else ()
    return replace(fold, text="x" * _PLACEHOLDER, kept_messages=kept)


def _find_end(messages: Sequence[Message], index: int) -> int:
    """The nearest index at or before `index`, at least 1, at which a fold may end.

    It separates no call from its results, and no answer from the user message before it.
    """
    index = max(1, min(index, len(messages)))
    while 1 < index < len(messages) and (
        isinstance(messages[index], ToolResult)
        or (isinstance(messages[index], Assistant) and isinstance(messages[index - 1], User))
    ):
        index -= 1
    return index


_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r")
_CLASSES = (
    (ascii_lowercase.encode(), 0.27),
    (ascii_uppercase.encode(), 0.6),
    (digits.encode(), 0.9),
    (punctuation.encode(), 0.6),
    (b"\r\n", 0.4),
    (_CONTROL, 1.0),
)
_BLANK, _BLANKS, _OTHER = 0.05, 0.1, 0.55
"""The weight of a blank, of a pair of blanks, and of a byte of any other class."""

_MESSAGE, _CALL = 5.0, 12.0
_UNCOUNTED, _GROWTH = 1.15, 1.1
"""Safety factors for a weight without an earlier count, and for what was added since the last
count: an estimate that is too low costs a refused request."""


def weigh_request(
    system: str, tools: Sequence[ToolSpec], messages: Sequence[Message], *, origin: str = ""
) -> float:
    """The weight of a request, roughly its tokens. Answers of `origin` are weighed verbatim."""
    weight = _weigh_text(system)
    for tool in tools:
        # A schema is a dict, which `lru_cache` cannot take.
        schema = json.dumps(tool.parameters, separators=(",", ":"), default=str)
        weight += _CALL + sum(map(_weigh_text, (tool.name, tool.description, schema)))
    return weight + sum(_weigh_message(message, origin) for message in messages)


@lru_cache(maxsize=8192)
def _weigh_message(message: Message, origin: str) -> float:
    match message:
        case User(text):
            return _MESSAGE + _weigh_text(text)
        case ToolResult():
            return _MESSAGE + _weigh_text(message.content) + _weigh_text(message.name)
        case Assistant(text, calls, wire):
            if wire and wire.origin == origin:
                return _MESSAGE + _weigh_text(wire.content)
            weights = (_CALL + _weigh_text(call.name + call.arguments) for call in calls)
            return _MESSAGE + _weigh_text(text) + sum(weights)


@lru_cache(maxsize=256)
def _weigh_text(text: str) -> float:
    data = text.encode(errors="replace")
    rest = data
    total = 0.0
    for members, weight in _CLASSES:
        left = rest.translate(None, members)
        total += weight * (len(rest) - len(left))
        rest = left
    pairs = data.count(b"  ")
    blanks = len(rest) - len(rest.translate(None, b" \t"))
    total += _BLANKS * pairs + _BLANK * max(0, blanks - 2 * pairs)
    return total + _OTHER * (len(rest) - blanks)


def estimate_tokens(weight: float, counted: tuple[float, int] | None) -> int:
    """The tokens of a request of this weight; `counted` is an earlier one's weight and tokens."""
    if counted is None or counted[0] <= 0 or counted[1] <= 0:
        return int(weight * _UNCOUNTED)
    before, tokens = counted
    if weight <= before:
        return int(tokens * weight / before)
    return int(tokens + (weight - before) * tokens / before * _GROWTH)
