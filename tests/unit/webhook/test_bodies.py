"""Bodies of senders who are not known before the last byte."""

import asyncio
import base64
import tracemalloc
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.accepting import queue_nothing
from tests.unit.webhook.cases import headers, payload
from tests.unit.webhook.test_http import FAILED
from tests.unit.webhook.test_verify import NOW, SIGNING, sign, signed
from worker.webhook.connections import MAX_ALL
from worker.webhook.http import PATH, build_app

MB = 1024 * 1024
FORGED = {**signed("v1," + base64.b64encode(bytes(32)).decode()), **headers(FAILED)}

Message = MutableMapping[str, Any]


class Sender:
    """One request, whose chunks come when the test lets them. `status` is 0 until the answer."""

    def __init__(self, given: dict[str, str]) -> None:
        self.headers = [(name.encode(), value.encode()) for name, value in given.items()]
        self.status = 0
        self.answer: dict[str, str] = {}
        self.read = 0
        self._chunks = asyncio.Queue[tuple[bytes, bool]]()

    def is_idle(self) -> bool:
        """Whether all that was given is read, or will never be."""
        return self._chunks.empty() or self.status != 0

    async def ask(self, app: Starlette) -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "headers": self.headers,
            "query_string": b"",
        }
        await app(scope, self._receive, self._send)

    def give(self, chunk: bytes, *, more: bool = True) -> None:
        self._chunks.put_nowait((chunk, more))

    async def _receive(self) -> Message:
        body, more = await self._chunks.get()
        self.read += len(body)
        return {"type": "http.request", "body": body, "more_body": more}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answer = {name.decode(): value.decode() for name, value in message["headers"]}


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0)


@asynccontextmanager
async def asking(app: Starlette, *senders: Sender) -> AsyncIterator[None]:
    """The senders' requests, on their way."""
    tasks = [asyncio.ensure_future(each.ask(app)) for each in senders]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def signing_door(seconds: float = 60.0) -> Starlette:
    return build_app(SIGNING, queue_nothing, (), lambda: NOW, lambda: None, body_seconds=seconds)


async def deliver(app: Starlette, body: bytes, given: dict[str, str]) -> int:
    """Send the body in chunks of 1,000 bytes; the answer's status."""
    sender = Sender(given)
    for start in range(0, len(body), 1000):
        sender.give(body[start : start + 1000], more=start + 1000 < len(body))
    async with asking(app, sender):
        await until(lambda: sender.status != 0)
    return sender.status


@pytest.mark.attack("door")
def test_forged_bodies_take_little_and_keep_no_delivery_out(
    record_property: Callable[[str, object], None],
) -> None:
    async def play() -> None:
        app = signing_door()
        senders = [Sender(FORGED) for _ in range(40)]
        async with asking(app, *senders):
            for _ in range(24):
                for sender in (each for each in senders if not each.status):
                    sender.give(bytes(MB))
                    await until(sender.is_idle)
            dropped = [each for each in senders if each.status]
            assert {each.status for each in dropped} == {503}
            assert all(int(each.answer["retry-after"]) > 0 for each in dropped)
            body = payload(FAILED)
            assert await deliver(app, body, {**signed(sign(body)), **headers(FAILED)}) == 202

    record_property("tried", 40)
    tracemalloc.start()
    try:
        asyncio.run(play())
        assert tracemalloc.get_traced_memory()[1] < 1.5 * MAX_ALL
    finally:
        tracemalloc.stop()


@pytest.mark.attack("door")
@pytest.mark.parametrize("signature", ["v1,", "v2,x", "v1," + "=" * 44, "x" * 10_000])
def test_what_is_no_signature_is_refused_before_the_body_is_read(signature: str) -> None:
    async def play() -> None:
        sender = Sender({**FORGED, "webhook-signature": signature})
        sender.give(b"{")
        async with asking(signing_door(), sender):
            await until(lambda: sender.status != 0)
        assert (sender.status, sender.read) == (401, 0)

    asyncio.run(play())


@pytest.mark.parametrize("change", [0, 1, 5000])
def test_a_signature_is_checked_over_all_chunks(change: int) -> None:
    body = payload(FAILED) + b" " * 6000
    given = {**signed(sign(body)), **headers(FAILED)}
    changed = body[:-change] + b"\n" + body[len(body) - change + 1 :] if change else body
    expected = 401 if change else 202
    assert asyncio.run(deliver(signing_door(), changed, given)) == expected


def test_bodies_that_have_come_make_room_for_the_next() -> None:
    async def play() -> None:
        app, body = signing_door(), payload(FAILED) + b" " * (20 * MB)
        given = {**signed(sign(body)), **headers(FAILED)}
        assert [await deliver(app, body, given) for _ in range(4)] == [202] * 4

    asyncio.run(play())
