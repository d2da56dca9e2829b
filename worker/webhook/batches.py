"""Queues triggers in batches: deliveries that arrive together share threads and round trips.

With a thread for each trigger, the threads would take Python's lock from each other at every system
call, which costs more than the work itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from worker.conversation.triggers import Trigger
from worker.errors import QueueError

Enqueue = Callable[[Sequence[Trigger]], Sequence[QueueError | None]]
"""Queues triggers, and returns for each of them why it was not queued, or None. It may block."""

MOST = 64
"""The most triggers of one batch."""

PATIENCE = 0.1
"""Seconds after which the next batch begins although the last one has not ended."""

_THREADS = 4

_Waiting = tuple[Trigger, asyncio.Future[QueueError | None]]


class Batches:
    """Collects triggers while a batch is being queued; they are the next batch. For one event loop.

    A batch that takes long, because the store is slow to write one of its triggers, does not hold
    up the others.
    """

    def __init__(self, enqueue: Enqueue, patience: float = PATIENCE) -> None:
        self._enqueue, self._patience = enqueue, patience
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "enqueue")

    async def enqueue(self, trigger: Trigger) -> None:
        """Queue a trigger with the next batch. Raises QueueError, and what `Enqueue` raises.

        One that is cancelled before its batch begins is not queued.
        """
        future: asyncio.Future[QueueError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((trigger, future))
        self._begin_batch()
        if failure := await future:
            raise failure

    def _begin_batch(self) -> None:
        """Begin a batch if any trigger waits, unless one has begun a moment ago."""
        if self._waiting and not self._is_busy:
            self._is_busy = True
            task = asyncio.get_running_loop().create_task(self._run_batch())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_batch(self) -> None:
        batch = self._take_batch()
        triggers = [trigger for trigger, _ in batch]
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._enqueue, triggers)
        await asyncio.wait([work], timeout=self._patience)
        self._is_busy = False
        self._begin_batch()
        await asyncio.wait([work])
        _end_all(batch, work)

    def _take_batch(self) -> list[_Waiting]:
        batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
        return [each for each in batch if not each[1].done()]


def _end_all(batch: list[_Waiting], work: asyncio.Future[Sequence[QueueError | None]]) -> None:
    error = work.exception()
    for number, (_, future) in enumerate(batch):
        if future.done():
            continue
        if error:
            future.set_exception(error)
        else:
            future.set_result(work.result()[number])
