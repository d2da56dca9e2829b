"""What the loop costs per iteration, beside a bare httpx loop that re-encodes its history.

Ours: decide, encode, post, decode, run the tool, checkpoint twice into a folder store. Theirs:
`json.dumps` of the whole history and `httpx.Client.post`. Both get the same results, 4 KB of a log
with newlines and quotes, never the same twice; the model answers at once. Clients and the session's
folder are made beforehand. CPU of this process only, medians of rounds that take turns.
"""

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import httpx

from tests.bench import server
from tests.contexts import context
from worker.clock import SystemClock
from worker.conversation.context import Context, SessionKey
from worker.conversation.context_json import Dumper
from worker.conversation.events import ignore_event
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import ToolCall, ToolResult, ToolSpec
from worker.conversation.model import Model
from worker.models import table
from worker.models.client import HttpModel
from worker.sessions.folder import FolderStore
from worker.sessions.store import Claim
from worker.tools.source import Ran
from worker.turns.loop import LoopParts, run_loop

KEY = SessionKey(1, 1, "0123456789abcdef0123")
ITERATIONS = {10: 2.5, 50: 2.0, 200: 1.2}
"""How many, and the goal for the ratio."""

SAMPLES = 400
"""Iterations measured at least, in rounds."""

PEAK, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_LINE = (
    '2026-11-21T10:04:%02d.%06d ERROR [worker-3] "GET /api/v4/jobs" -> {"status": 504}\n\tat x\n'
)
_numbers = count()


def result() -> str:
    """What a command printed, as the model is sent it: 4 KB, different each time."""
    start = next(_numbers)
    log = "".join(_LINE % (start % 60, start * 100 + line) for line in range(45))
    return json.dumps({"exit_code": 1, "stdout": log[:3800]})


@dataclass
class _Toolbox:
    specs: tuple[ToolSpec, ...] = ()
    made: Callable[[], str] = field(default=result)

    def is_repeatable(self, call: ToolCall) -> bool:
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for call in calls:
            content = self.made()
            yield Ran(ToolResult(call.id, call.name, content), len(content), 0.0)


def main() -> None:
    """Print CPU milliseconds per iteration and the ratio to the floor."""
    print("loop: CPU ms per iteration, checkpoints included / bare httpx loop / ratio / goal")
    with server.running() as url:
        for many, goal in ITERATIONS.items():
            ours, floor = measured(url, many)
            ratio = f"{ours / floor:.2f} / {goal:.1f}"
            print(f"  {many:4d} iterations: {ours:6.2f} / {floor:6.2f} / {ratio}")
        most = max(ITERATIONS)
        ours, floor = (_memory(name, url, most) for name in ("ours", "bare"))
        print(f"  memory for {most} iterations: {ours:.0f} MB / {floor:.0f} MB")


def measured(url: str, many: int) -> tuple[float, float]:
    """Milliseconds of CPU per iteration: ours, the floor's."""
    ours, floor = [], []
    with _model(url, many) as model, _store() as store, httpx.Client() as client:
        for _ in range(max(9, SAMPLES // many)):
            floor.append(_cpu(partial(bare, client, url, many)) / many)
            ours.append(_cpu(partial(driven, model, store, many)) / many)
    return median(ours), median(floor)


@contextmanager
def _model(url: str, many: int) -> Iterator[HttpModel]:
    name = "anthropic/claude-sonnet-5-5"
    with closing(table.build_model(name, f"{url}/{many}", "none", clock=SystemClock())) as model:
        yield model


@contextmanager
def _store() -> Iterator[FolderStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(Path(folder))
        store.claim_turn(KEY, 0, Claim("bench", "bench", 1.0), 0.0)
        yield store


def driven(model: Model, store: FolderStore, many: int) -> None:
    """`many` iterations of the real loop with the real codec and a folder store."""
    clock, dumper = SystemClock(), Dumper()
    limits = Limits.model_construct(
        max_iterations=10**6, context_tokens=10**9, wall_clock=1e9, cost_usd=1e9
    )
    start = context(turn_usage=TurnUsage(started_at=clock.now()))

    def checkpoint(now: Context) -> None:
        store.write_checkpoint(KEY, 0, dumper.dump(now))

    parts = LoopParts(model, _Toolbox(), clock, checkpoint, ignore_event)
    ended = run_loop(replace(start, session_id=KEY.session_id), limits, parts)
    assert ended.turn_usage.iterations == many, ended.outcome


def bare(client: httpx.Client, url: str, many: int) -> None:
    """The floor: what one would write on a slip of paper."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "event"}]
    for _ in range(many):
        body = {"model": "m", "max_tokens": 1000, "system": "system", "messages": messages}
        sent = json.dumps(body).encode()
        got = client.post(f"{url}/{many}/v1/messages", content=sent).json()
        messages.append({"role": "assistant", "content": got["content"]})
        found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result()}
        messages.append({"role": "user", "content": [found]})


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def _memory(who: str, url: str, many: int) -> float:
    """Megabytes by which a fresh process grows."""
    command = [sys.executable, "-m", "tests.bench.loop_overhead", who, url, str(many)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _grow(who: str, url: str, many: int) -> None:
    with _model(url, many) as model, _store() as store, httpx.Client() as client:
        PEAK.write_text("5")
        before = _peak()
        if who == "ours":
            driven(model, store, many)
        else:
            bare(client, url, many)
        print((_peak() - before) / 1024)


def _peak() -> int:
    """The most memory this process has used since the mark was reset, in kilobytes."""
    return int(STATUS.read_text().partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    _grow(sys.argv[1], sys.argv[2], int(sys.argv[3]))
