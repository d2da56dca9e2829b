"""A turn that a command takes itself, and its events on the terminal as they happen.

Nobody goes on with such a turn if it ends early.
"""

import json
import signal
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from worker.cli.terminal import StoppedBySignal, watch_signals
from worker.conversation.context import Status
from worker.conversation.events import (
    Answered,
    Asking,
    Event,
    Milestone,
    RunEvent,
    Stage,
    ToolRan,
    TurnEnded,
    Watcher,
)
from worker.conversation.messages import ToolCall
from worker.errors import HandedOver, LeaseLost, SandpiperError
from worker.safety.untrusted import parse_object
from worker.turns.parts import Attempt, Deps, Ended
from worker.turns.placeholder import UnfinishedNote
from worker.turns.sandbox import remove_sandbox

STOPPED = "it was stopped by the one who ran it in a terminal"
"""What the note of a run says that Ctrl-C has ended."""


def take_turn(take: Callable[[Attempt], Ended], deps: Deps, run: Attempt, *, stopped: str) -> Ended:
    """Call `take` with a run that ends between two steps at Ctrl-C.

    If it ends without a result, its note says why, and its sandbox is gone. Raises StoppedBySignal
    with the message `stopped`, and what `take` raises.
    """
    note = UnfinishedNote(run.watch)

    def stop(number: int) -> None:
        deps.queue.leases.is_stopping = True

    def remove() -> None:
        deps.queue.leases.unregister()
        if session := note.session_id:
            remove_sandbox(session, deps)
        note.write_reason(STOPPED, deps, restores=True)

    with watch_signals(stop, remove) as came:
        try:
            return take(replace(run, watch=note.watch))
        except HandedOver:
            note.write_reason(STOPPED, deps, restores=True)
            raise StoppedBySignal(came[-1], stopped) from None
        except LeaseLost:
            raise  # another worker goes on, and its note is this one
        except SandpiperError as error:
            note.write_reason(str(error), deps)
            raise
        except StoppedBySignal:  # in the middle of a step
            note.write_reason(STOPPED, deps, restores=True)
            raise


_WIDTH = 76
_NOT_POSTED = {
    Milestone.PLACEHOLDER: Stage("placeholder not posted: this run posts nothing"),
    Milestone.NOTE: Stage("note not posted: this run posts nothing"),
}


def make_watcher(console: Console, *, posts: bool = True) -> Watcher:
    """Make a watcher that prints to `console`. `posts` says whether the run posts notes.

    It raises StoppedBySignal once nobody reads what is printed.
    """

    def watch(event: Event) -> None:
        if isinstance(event, Stage) and not posts:
            event = _NOT_POSTED.get(event.milestone, event)
        if isinstance(event, RunEvent):
            try:
                console.print(format_event(event), highlight=False, soft_wrap=True)
            except SystemExit as closed:  # what rich makes of a broken pipe
                raise StoppedBySignal(signal.SIGPIPE) from closed

    return watch


def format_event(event: RunEvent) -> Text:
    """Format an event. What the model or a tool wrote is plain text, never markup."""
    match event:
        case Stage(text):
            return Text.assemble(("• ", "cyan"), text)
        case Asking(iteration, of, notice):
            warned = f"  {notice.splitlines()[0]}" if notice else ""
            count = (f"iteration {iteration}", "bold")
            return Text.assemble(count, f" of at most {of}", (warned, "yellow"))
        case Answered():
            usage = event.usage
            cost = "cost unknown" if event.cost_usd is None else f"${event.cost_usd:.4f}"
            return Text(
                f"  model: {usage.input:,} tokens in ({usage.cached_share:.0%} cached), "
                f"{usage.output:,} out, {event.context_share:.1%} of the context budget, {cost}, "
                f"{event.seconds:.1f} s",
                "dim",
            )
        case ToolRan():
            sizes = f"{event.size:,} bytes, {event.shown_bytes:,} shown to the model"
            return Text.assemble(
                ("  " + _shorten(event.call.name), "green"),
                f" {_summarise_call(event.call)} ",
                ("failed " if event.is_error else "", "red"),
                (f"{sizes}, {event.seconds:.2f} s", "dim"),
            )
        case TurnEnded(turn=turn, outcome=outcome, location=location):
            # The reason of a failed run follows as the command's last line.
            is_shown = outcome.reason and outcome.status is not Status.FAILED
            why = f" ({outcome.reason})" if is_shown else ""
            return Text.assemble(
                ("• ", "cyan"), f"turn {turn} {outcome.status}{why}, stored: {location}"
            )


def _summarise_call(call: ToolCall) -> str:
    try:
        text = " ".join(_shorten(value) for value in parse_object(call.arguments).values())
    except RecursionError:
        return ""
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    flat = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in flat)
