"""Triggers that arrive together are queued together, and one that is slow holds up nobody."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from worker.conversation.triggers import PipelineFailed, Trigger
from worker.errors import QueueError
from worker.webhook.http import MOST, Batches


def trigger(number: int) -> Trigger:
    return PipelineFailed(233, number, "5d9b3c1f", "fix/window", 418, 233)


class Queue:
    """Keeps the batches. One with `blocked` waits for `release`; `failing` is not queued."""

    def __init__(self, blocked: int = -1, failing: int = -1) -> None:
        self.batches: list[list[Trigger]] = []
        self.began, self.release = threading.Event(), threading.Event()
        self.blocked, self.failing = trigger(blocked), trigger(failing)

    def __call__(self, triggers: Sequence[Trigger]) -> list[QueueError | None]:
        self.batches.append(list(triggers))
        if self.blocked in triggers:
            self.began.set()
            assert self.release.wait(10)
        failure = QueueError("down", transient=True)
        return [failure if each == self.failing else None for each in triggers]


def test_what_arrives_during_a_batch_is_the_next_one() -> None:
    queue = Queue(blocked=0)

    async def talk() -> None:
        batches = Batches(queue, patience=10)
        first = asyncio.create_task(batches.enqueue(trigger(0)))
        assert await asyncio.to_thread(queue.began.wait, 10)
        others = [asyncio.create_task(batches.enqueue(trigger(each))) for each in range(1, 100)]
        await asyncio.sleep(0)
        queue.release.set()
        await asyncio.gather(first, *others)

    asyncio.run(talk())
    assert [len(each) for each in queue.batches] == [1, MOST, 99 - MOST]
    assert [each for batch in queue.batches for each in batch] == [
        trigger(each) for each in range(100)
    ]


def test_a_batch_that_takes_long_does_not_hold_up_the_next_one() -> None:
    queue = Queue(blocked=0)

    async def talk() -> bool:
        batches = Batches(queue, patience=0.01)
        slow = asyncio.create_task(batches.enqueue(trigger(0)))
        assert await asyncio.to_thread(queue.began.wait, 10)
        await asyncio.wait_for(batches.enqueue(trigger(1)), 10)
        await asyncio.wait_for(batches.enqueue(trigger(2)), 10)
        was_done = slow.done()
        queue.release.set()
        await slow
        return was_done

    assert not asyncio.run(talk())
    assert queue.batches == [[trigger(0)], [trigger(1)], [trigger(2)]]


def test_a_failure_is_told_to_the_one_whose_trigger_it_is() -> None:
    queue = Queue(failing=1)

    async def talk() -> list[BaseException | None]:
        batches = Batches(queue)
        asked = [batches.enqueue(trigger(each)) for each in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    told = asyncio.run(talk())
    assert len(queue.batches) == 1
    assert [type(each) for each in told] == [type(None), QueueError, type(None)]


def test_an_unforeseen_error_is_told_to_all_and_the_next_batch_is_queued() -> None:
    calls: list[int] = []

    def enqueue(triggers: Sequence[Trigger]) -> list[QueueError | None]:
        calls.append(len(triggers))
        if len(calls) == 1:
            raise ZeroDivisionError
        return [None] * len(triggers)

    async def talk() -> list[BaseException | None]:
        batches = Batches(enqueue)
        asked = [batches.enqueue(trigger(each)) for each in range(2)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        await batches.enqueue(trigger(2))
        return told

    assert [type(each) for each in asyncio.run(talk())] == [ZeroDivisionError] * 2
    assert calls == [2, 1]


def test_one_that_nobody_waits_for_any_more_is_not_queued() -> None:
    queue = Queue(blocked=0)

    async def talk() -> None:
        batches = Batches(queue, patience=10)
        first = asyncio.create_task(batches.enqueue(trigger(0)))
        assert await asyncio.to_thread(queue.began.wait, 10)
        last = asyncio.create_task(batches.enqueue(trigger(2)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.enqueue(trigger(1)), 0.01)
        queue.release.set()
        await asyncio.gather(first, last)

    asyncio.run(talk())
    assert queue.batches == [[trigger(0)], [trigger(2)]]
