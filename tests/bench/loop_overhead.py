"""What the loop costs per iteration, beside a bare httpx loop that re-encodes its history.

Ours: decide, encode, post, decode, run the tool, checkpoint twice into a folder store. Theirs:
`json.dumps` of the whole history and `httpx.Client.post`. Tool results are 4 KB; the model answers
at once. CPU of this process only.
"""

import gc
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx

from tests.bench import server
from tests.contexts import context
from worker.core.context import Context
from worker.core.history import Dumper
from worker.core.limits import Limits, Spent
from worker.core.messages import ToolCall, ToolResult, ToolSpec
from worker.core.ports import Ran, SessionKey
from worker.core.progress import unwatched
from worker.loop import Parts, drive
from worker.models import table
from worker.sessions.folder import FolderStore
from worker.wiring import SystemClock

RESULT = json.dumps({"exit_code": 0, "stdout": "x" * 4000})
KEY = SessionKey(1, 1, "0123456789abcdef0123")
ITERATIONS = (10, 50, 200)
ROUNDS = 3


@dataclass
class _Toolbox:
    specs: tuple[ToolSpec, ...] = ()
    count: int = 0

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for call in calls:
            yield Ran(ToolResult(call.id, call.name, RESULT), len(RESULT), 0.0)


def main() -> None:
    """Print CPU milliseconds per iteration and the ratio to the floor."""
    print("loop: CPU ms per iteration, checkpoints included / bare httpx loop / ratio")
    with server.running() as url:
        for count in ITERATIONS:
            floor = min(_cpu(partial(bare, url, count)) for _ in range(ROUNDS)) / count
            ours = min(_cpu(partial(driven, url, count)) for _ in range(ROUNDS)) / count
            print(f"  {count:4d} iterations: {ours:6.2f} / {floor:6.2f} / {ours / floor:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory of this process, both loops: {peak:.0f} MB")


def driven(url: str, count: int) -> None:
    """`count` iterations of the real loop with the real codec and a folder store."""
    clock = SystemClock()
    model = table.build("anthropic/claude-sonnet-5-5", url, "no-key-needed", clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        store, dumper = FolderStore(Path(folder)), Dumper()

        def checkpoint(now: Context) -> None:
            store.checkpoint(KEY, 0, dumper.dump(now))

        limits = Limits(max_iterations=count, context_tokens=10**9, wall_clock=1e9, cost_usd=1e9)
        parts = Parts(model, _Toolbox(), clock, checkpoint, unwatched)
        start = context(spent=Spent(started_at=clock.now()))
        ended = drive(replace(start, session_id=KEY.session_id), limits, parts)
    model.close()
    assert ended.spent.iterations == count


def bare(url: str, count: int) -> None:
    """The floor: what one would write on a slip of paper."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "event"}]
    with httpx.Client() as client:
        for _ in range(count):
            body = {"model": "m", "max_tokens": 1000, "system": "system", "messages": messages}
            got = client.post(f"{url}/v1/messages", content=json.dumps(body).encode()).json()
            messages.append({"role": "assistant", "content": got["content"]})
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": RESULT}
            messages.append({"role": "user", "content": [result]})


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000
