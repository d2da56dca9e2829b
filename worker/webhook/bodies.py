"""Reads request bodies: each has a deadline, and all together have a limit in bytes."""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.types import Message

from worker.errors import Rejected
from worker.webhook.verify import BodyCheck

MAX_BODY = 25 * 1024 * 1024
"""Bytes. GitLab itself sends no larger webhook payload."""

MAX_ALL = 2 * MAX_BODY
"""Bytes of all unfinished bodies. A signed body is held before its sender is verified."""


_PIECE = 64 * 1024
"""Bytes. With large blocks, the allocator keeps a multiple of the memory in use."""


@dataclass(eq=False, slots=True)
class _Arrival:
    deadline: asyncio.Timeout
    pieces: list[bytearray] = field(default_factory=list)
    size: int = 0
    dropped: bool = False

    def add(self, chunk: bytes) -> None:
        """Add a chunk; many small chunks take no more memory than a large one."""
        if not self.pieces or len(self.pieces[-1]) > _PIECE:
            self.pieces.append(bytearray())
        self.pieces[-1] += chunk
        self.size += len(chunk)


class BodyReader:
    """Reads bodies; holds at most MAX_ALL bytes of unfinished ones. For one event loop.

    If there is no room, the body that started first is dropped: a real delivery takes a moment, so
    senders who are slow on purpose cannot keep it out.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held = 0
        self._arriving: dict[_Arrival, None] = {}  # the oldest first

    async def read(self, request: Request, check: BodyCheck) -> bytes:
        """Read the whole body and verify it with `check`.

        Raises Rejected: what `check` raises, 400 if the sender disconnects, 408 after `seconds`,
        413 over MAX_BODY, 503 if the body was dropped.
        """
        arrival = None
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                arrival = _Arrival(deadline)
                self._arriving[arrival] = None
                try:
                    # Not `stream()`, which keeps each chunk until the next one arrives.
                    while self._add_message(arrival, await request.receive(), check):
                        pass
                finally:
                    self._remove(arrival)
        except TimeoutError as error:
            if arrival and arrival.dropped:
                raise _reject_no_room() from error
            raise Rejected(408, f"the body did not arrive within {self._seconds:g} s") from error
        check.verify()
        return b"".join(arrival.pieces)

    def _add_message(self, arrival: _Arrival, message: Message, check: BodyCheck) -> bool:
        """Add a received message; returns whether more will follow."""
        if message["type"] != "http.request":
            raise Rejected(400, "the sender hung up before the body was complete")
        if arrival.dropped:  # this chunk came before the deadline set by `_drop` expired
            raise _reject_no_room()
        chunk = message.get("body", b"")
        if arrival.size + len(chunk) > MAX_BODY:
            raise reject_too_large()
        while self._held + len(chunk) > MAX_ALL:
            self._drop(next(iter(self._arriving)), arrival)
        self._held += len(chunk)
        arrival.add(chunk)
        check.update(chunk)
        return bool(message.get("more_body", False))

    def _drop(self, oldest: _Arrival, newest: _Arrival) -> None:
        if oldest is newest:
            raise _reject_no_room()
        self._remove(oldest)
        oldest.pieces, oldest.dropped = [], True
        oldest.deadline.reschedule(asyncio.get_running_loop().time())

    def _remove(self, arrival: _Arrival) -> None:
        if arrival in self._arriving:
            del self._arriving[arrival]
            self._held -= arrival.size


def reject_too_large() -> Rejected:
    """Make the rejection of a body over MAX_BODY."""
    return Rejected(413, f"the body is larger than {MAX_BODY} bytes")


def _reject_no_room() -> Rejected:
    return Rejected(503, "too many deliveries are arriving at once; deliver this event again later")
