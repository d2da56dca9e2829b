"""Computes a chart of tokens per model call: the numbers for an SVG of stacked bars."""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.conversation.context import CallCost
from worker.conversation.messages import Usage
from worker.pages.texts import format_count
from worker.safety.untrusted import one_line

HEIGHT = 100.0


@dataclass(frozen=True, slots=True)
class Part:
    """One rectangle of a bar: from `y` downwards."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One model call. `model` names the model, or the tier and the helper's task."""

    number: int
    x: float
    parts: tuple[Part, ...]
    usage: Usage
    cost_usd: float | None
    model: str


@dataclass(frozen=True, slots=True)
class Chart:
    """All model calls of a session. Bars are one unit wide; the picture is `width` by HEIGHT."""

    bars: tuple[Bar, ...]
    top: str
    width: int
    turns: tuple[float, ...]


def build_chart(calls: Sequence[CallCost]) -> Chart | None:
    """Build the chart of the calls; None if there is nothing to show."""
    most = max((call.usage.input for call in calls), default=0)
    if most <= 0:
        return None
    bars = tuple(_build_bar(number, call, most) for number, call in enumerate(calls))
    turns = tuple(
        float(number)
        for number in range(1, len(calls))
        if calls[number].turn != calls[number - 1].turn
    )
    return Chart(bars, format_count(most), max(len(bars), 12), turns)


def _build_bar(number: int, call: CallCost, most: int) -> Bar:
    parts, below, usage = [], HEIGHT, call.usage
    for kind, tokens in (
        ("cached", usage.cache_read),
        ("written", usage.cache_write),
        ("fresh", usage.uncached_input),
    ):
        height = round(HEIGHT * max(0, tokens) / most, 2)
        if height:
            below = round(below - height, 2)
            parts.append(Part(kind, below, height))
    return Bar(number + 1, number + 0.1, tuple(parts), usage, call.cost_usd, _describe_model(call))


def _describe_model(call: CallCost) -> str:
    model = call.model.partition("/")[2] or call.model
    level = ", ".join(filter(None, (call.task or call.tier, call.reasoning)))
    return one_line(f"{level}: {model}" if level else model, 80)
