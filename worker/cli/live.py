"""A run as it happens, line by line on the terminal."""

import json

from rich.console import Console
from rich.markup import escape

from worker.core.messages import ToolCall
from worker.core.progress import Answered, Asking, Event, Stage, ToolRan, TurnEnded, Watcher

_WIDTH = 76


def watcher(console: Console) -> Watcher:
    """A watcher that prints to `console`."""

    def watch(event: Event) -> None:
        console.print(line(event), highlight=False, soft_wrap=True)

    return watch


def line(event: Event) -> str:
    """One event as rich markup. What the model or a tool wrote is escaped."""
    match event:
        case Stage(text):
            return f"[cyan]•[/] {escape(text)}"
        case Asking(iteration, of, notice):
            warned = f"  [yellow]{escape(notice.splitlines()[0])}[/]" if notice else ""
            return f"[bold]iteration {iteration}[/] of at most {of}{warned}"
        case Answered():
            return _answered(event)
        case ToolRan():
            return _ran(event)
        case TurnEnded(turn, outcome, _, location):
            why = f" ({escape(outcome.reason)})" if outcome.reason else ""
            return f"[cyan]•[/] turn {turn} {outcome.status}{why}, stored: {escape(location)}"


def _answered(event: Answered) -> str:
    usage = event.usage
    cost = "cost unknown" if event.cost_usd is None else f"${event.cost_usd:.4f}"
    return (
        f"  [dim]model: {usage.input:,} tokens in ({usage.cached_share:.0%} cached), "
        f"{usage.output:,} out, {event.context_share:.1%} of the context budget, {cost}, "
        f"{event.seconds:.1f} s[/]"
    )


def _ran(event: ToolRan) -> str:
    failed = " [red]failed[/]" if event.is_error else ""
    return (
        f"  [green]{escape(event.call.name)}[/] {escape(_gist(event.call))}{failed} "
        f"[dim]{event.size:,} bytes, {event.shown:,} shown to the model, {event.seconds:.2f} s[/]"
    )


def _gist(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return ""
    text = " ".join(_short(value) for value in arguments.values())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())
