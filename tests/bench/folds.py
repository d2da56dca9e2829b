"""What folds cost, and what they keep inside a narrow window.

Long sessions of the real loop and the real codecs, over HTTP, against the strict simulators of four
wires, each with the window that the model is believed to have: it refuses what is longer. In the
end the model asks for what its third call gave, by the file that it was told of.
"""

import itertools
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.bench import prompt_cache
from tests.bench.sessions import ENDLESS, Session, calling
from tests.contexts import TOOL, call, context
from tests.fakes import HandClock, MemorySandbox, ScriptedModel
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim, ResponsesSim
from worker.conversation.context import Context
from worker.conversation.folds import Fold, FoldKind
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, ToolSpec, User
from worker.lab.script import Answer, Asked, Call, Say, Script
from worker.models import table
from worker.models.built_in_models import BUILT_IN
from worker.settings.runs import ContextSettings, Resume, Strategy
from worker.tools.source import Ran
from worker.turns.loop import LoopParts, make_fold, run_loop
from worker.turns.sandbox import FoldedResults

WINDOW, CALLS, RESULT = 64_000, 400, 8_000
NEEDLE = "needle-42"
STRATEGIES = [each for each in Strategy if each is not Strategy.NONE]

Simulator = Callable[..., AbstractContextManager[Any]]
WIRES: dict[str, tuple[Simulator, str]] = {
    "anthropic": (AnthropicSim, "anthropic/claude-sonnet-5-5"),
    "gemini": (GeminiSim, "gemini/gemini-4-argon"),
    "responses": (ResponsesSim, "openai/gpt-6-sol"),
    "chat": (ChatSim, "openai-compatible/qwen3"),
}


def call_often(calls: int) -> Script:
    """Calls a tool so often, then reads what the third call gave, and answers."""
    number = itertools.count(1)

    def answer(asked: Asked) -> Answer:
        made = next(number)
        if made <= calls and asked.tools_allowed and "switched off" not in asked.notice:
            return Call([("look", {"at": made})])
        if made == calls + 1 and asked.tools_allowed:
            return Call([("look", {"file": "/tmp/_out/2.txt"})])
        return Say("## Cause\nIt timed out.")

    return answer


@dataclass
class Files:
    """A tool that gives RESULT bytes of text, or a file of the sandbox."""

    sandbox: MemorySandbox
    specs: tuple[ToolSpec, ...] = (TOOL,)

    def is_repeatable(self, call: ToolCall) -> bool:
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        """See Toolbox."""
        for number, made in enumerate(calls, first):
            asked = json.loads(made.arguments)
            text = self._read(asked["file"]) if "file" in asked else _make_text(number)
            content = json.dumps({"stdout": text})
            yield Ran(ToolResult(made.id, made.name, content), len(text), 0.0)

    def _read(self, path: str) -> str:
        return self.sandbox.files.get(path, b"no such file").decode()


def _make_text(number: int) -> str:
    found = NEEDLE if number == 2 else f"step {number}"
    return f"{found}\n" + f"{number:06} a line of a log, of some length\n" * (RESULT // 41)


PARTS = LoopParts(
    ScriptedModel(()), Files(MemorySandbox()), HandClock(), lambda _: None, lambda _: None
)
"""What folds are made with where no model is asked."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A session: how many requests were refused, whether the needle was found."""

    context: Context
    refused: int
    found: bool


def hold(wire: str, strategy: Strategy, calls: int = CALLS) -> Ended:
    """A session of many calls over a wire whose server has a window of WINDOW tokens."""
    simulator, model_name = WIRES[wire]
    with simulator(call_often(calls), window=WINDOW) as server:
        clock, sandbox = HandClock(), MemorySandbox()
        model = table.build_model(model_name, server.url, "key", clock=clock, catalogue=BUILT_IN)
        parts = LoopParts(
            *(model, Files(sandbox), clock, lambda _: None, lambda _: None),
            prepare_tools=FoldedResults(sandbox).write_missing,
        )
        settings = ContextSettings(strategy=strategy)
        limits = ENDLESS.model_copy(update={"context_tokens": WINDOW, "context": settings})
        start = context(turn_usage=TurnUsage(started_at=clock.now()), model=model_name)
        ended = run_loop(start, limits, parts)
        model.close()
        results = [each for each in ended.messages if isinstance(each, ToolResult)]
        return Ended(ended, len(server.unexpected_requests), NEEDLE in results[-1].content)


def measure_bill(strategy: Strategy) -> float:
    """Billed input of the same session on Anthropic's wire, to the least for the same folds."""
    session = Session(call_often(CALLS), new=RESULT)
    settings = ContextSettings(strategy=strategy)
    session.run(ENDLESS.model_copy(update={"context_tokens": WINDOW, "context": settings}))
    least = prompt_cache.least(session.sent)
    return prompt_cache.Measured(session.sent, least).ratio(runs=True)


def measure_late_reply(after: float) -> float:
    """What a reply to a session of about 100,000 tokens is billed, to the same without folds."""
    billed = []
    for resume in (Resume.PRUNE, Resume.NONE):
        session = Session(_call_less_in_reply, new=4_000)
        limits = ENDLESS.model_copy(update={"context": ContextSettings(resume=resume)})
        session.run(limits)
        before = len(session.sent)
        session.reply(after)
        session.run(limits)
        late = prompt_cache.bill(session.sent, runs=True)[before:]
        billed.append(sum(map(prompt_cache.price, late)))
    return billed[0] / billed[1]


def _call_less_in_reply(asked: Asked) -> Answer:
    """95 requests in the first turn, four in a reply."""
    return calling(95 if asked.turn == 0 else 4)(asked)


def make_long_session(exchanges: int) -> Context:
    """A session of so many calls of 2 KB results."""
    messages: list[Message] = [User("event")]
    for number in range(exchanges):
        messages.append(Assistant("", (call(f"c{number}"),)))
        messages.append(ToolResult(f"c{number}", "look", _make_text(number)[:2000]))
    return context(*messages)


def measure_fold_seconds(kind: FoldKind) -> float:
    """The CPU seconds of one fold of 1,000 messages, the size estimated before and after."""
    long = make_long_session(500)
    planned = Fold(kind, 1, 981, made_at=len(long.messages))
    started = time.process_time()
    make_fold(long, planned, PARTS)
    return time.process_time() - started


def measure_fold_memory(folds: int) -> float:
    """The memory that so many summaries one after the other hold, to that of the messages."""
    tracemalloc.start()
    long = make_long_session(500)
    before = tracemalloc.get_traced_memory()[0]
    for number in range(folds):
        planned = Fold(FoldKind.SUMMARY, 1, 101 + 90 * number, made_at=len(long.messages))
        long = make_fold(long, planned, PARTS)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / before


def main() -> None:
    """Print every figure beside its goal."""
    print(f"folds: {CALLS} calls of {RESULT} bytes in a window of {WINDOW} tokens")
    print(f"  {'':12}" + "".join(f"{wire:>28}" for wire in WIRES))
    for strategy in STRATEGIES:
        cells = [_tell_ended(hold(wire, strategy)) for wire in WIRES]
        print(f"  {strategy:12}" + "".join(f"{cell:>28}" for cell in cells))
    print("  billed input / the least for the same folds                      goal 1.05")
    for strategy in STRATEGIES:
        print(f"    {strategy:40}{measure_bill(strategy):>10.3f}")
    print("  a reply to 100,000 tokens, billed / the same without a fold")
    print(f"    {'after six hours':40}{measure_late_reply(6 * 3600):>10.3f}   goal 0.35")
    print(f"    {'within the life of the cache':40}{measure_late_reply(120):>10.3f}   goal 1")
    print("  CPU of a fold over 1,000 messages (ms)                           goal 20")
    for kind in (FoldKind.PRUNE, FoldKind.WINDOW, FoldKind.SUMMARY):
        seconds = min(measure_fold_seconds(kind) for _ in range(3))
        print(f"    {kind:40}{1000 * seconds:>10.1f}")
    print("  memory that folds hold / that of the messages                    goal 0.2")
    for folds in (1, 10):
        print(f"    {folds:<40}{measure_fold_memory(folds):>10.3f}")


def _tell_ended(ended: Ended) -> str:
    found = "found" if ended.found else "LOST"
    outcome = ended.context.outcome.status if ended.context.outcome else "?"
    folds = len({fold.made_at for fold in ended.context.folds})
    return f"{ended.refused} refused, {found}, {folds} folds, {outcome}"
