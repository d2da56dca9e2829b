"""What senders may hold: the HTTP server's connections, and the bodies of requests.

uvicorn itself does not limit how long it waits for a head, for the rest of a body that was already
answered, or for the reader of an answer. Nor does it limit the size of heads and the number of
pipelined requests.

A body has a deadline, and all bodies together have a limit in bytes.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass, field
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL
from operator import attrgetter
from typing import ClassVar, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from worker.errors import Rejected, SandpiperError
from worker.webhook.verify import BodyCheck

_SHUTDOWN_SECONDS = 10
"""Seconds to wait for running requests at shutdown."""

_LOG_INTERVAL = 60.0
"""Seconds between two log records about dropped connections."""

_log = logging.getLogger("sandpiper.webhook")


class Connection(HttpToolsProtocol):
    """One connection, which is closed when its peer takes too long or sends too much.

    If there are more than `most` connections, the one whose peer we have waited for longest is
    dropped: a client that opens many idle connections loses them, and deliveries get through.
    """

    most = 512
    """Half of the files that a process may usually open; `select` fails for files from 1,024 on."""
    head_seconds = 10.0
    """Seconds from the connection or the last answer to the end of a request's head."""
    write_seconds = 30.0
    """Seconds for a reader to take the next part of an answer, about 48 KB."""
    max_head = 32 * 1024
    """Bytes of a request besides its body; an id token may have 16 KB."""
    max_pipelined = 8

    _last_log: ClassVar[float] = 0.0

    order = (False, 0.0)
    """Whether the peer waits for us (else we for the peer), and since when; the connection with the
    least is dropped first."""

    _timer: asyncio.TimerHandle | None = None
    _extra = 0  # bytes of the present request besides its body
    _flushing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head; of too many connections, drop one."""
        super().connection_made(transport)
        self._start_waiting(self.head_seconds)
        if len(self.connections) > self.most:
            others = cast(set[Connection], self.connections - {self})
            oldest = min(others, key=attrgetter("order"))
            self.connections.discard(oldest)
            oldest.transport.abort()
            now = self.loop.time()
            if now - Connection._last_log > _LOG_INTERVAL:
                Connection._last_log = now
                _log.warning("over %d connections: those that say nothing are dropped", self.most)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data; refuse more than `max_head` bytes besides a body."""
        self._extra += len(data)
        super().data_received(data)
        if self._extra > self.max_head and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.send_400_response("The request's head is too large.")
            else:
                self.transport.abort()

    def on_headers_complete(self) -> None:
        """Check the head and stop its time-out: the app has time-outs for the body and its work."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.max_head or len(self.pipeline) >= self.max_pipelined:
            raise ValueError("too large a head, or too many requests at once")
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body, whose size the app limits."""
        self._extra -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete and the peer waits for us."""
        self._extra = 0
        if not self.cycle.response_complete:
            self.order = (True, self.loop.time())
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next head, and for the rest of a body that was answered early."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._start_waiting(self.write_seconds if self.flow.write_paused else self.head_seconds)

    def pause_writing(self) -> None:
        """Wait for the reader."""
        super().pause_writing()
        self._start_waiting(self.write_seconds)

    def resume_writing(self) -> None:
        """Stop waiting for the reader, which has caught up."""
        super().resume_writing()
        if self.cycle.response_complete:
            self._start_waiting(self.head_seconds)
        else:
            self._stop_waiting()
            self.order = (True, self.loop.time())

    def _start_waiting(self, seconds: float) -> None:
        self._stop_waiting()
        self.order = (False, self.loop.time())
        self._timer = self.loop.call_later(seconds, self._expire)

    def _stop_waiting(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Close the connection; unwritten data gets another `write_seconds`."""
        if self.transport.get_write_buffer_size() and not self._flushing:
            self._flushing = True
            self.transport.close()
            self._start_waiting(self.write_seconds)
        else:
            self.transport.abort()


def bind_port(host: str, port: int) -> socket.socket:
    """Take the port that the receiver is to listen on; 0 for any. Raises SandpiperError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        finding, advice = _UNBOUND.get(error.errno or 0, (error.strerror or "", "choose another"))
        raise SandpiperError(f"port {port} of {host}: {finding}: {advice}") from error
    return taken


_UNBOUND = {
    EADDRINUSE: ("another process has it", "end that one, or choose another by --port"),
    EACCES: ("this user may not take it", "choose one from 1024 on by --port"),
    EADDRNOTAVAIL: ("this machine has no such address", "correct --host"),
}


def build_server(
    app: Starlette, host: str, port: int, kind: type[Connection] = Connection
) -> uvicorn.Server:
    """Build the receiver's HTTP server, ready to run."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=kind,
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


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
        if arrival.dropped:  # this chunk came before its deadline, which was moved, expired
            raise _reject_no_room()
        chunk = message.get("body", b"")
        if arrival.size + len(chunk) > MAX_BODY:
            raise reject_too_large()
        while self._held + len(chunk) > MAX_ALL:
            oldest = next(iter(self._arriving))
            if oldest is arrival:
                raise _reject_no_room()
            self._remove(oldest)
            oldest.pieces, oldest.dropped = [], True
            oldest.deadline.reschedule(asyncio.get_running_loop().time())
        self._held += len(chunk)
        arrival.add(chunk)
        check.update(chunk)
        return bool(message.get("more_body", False))

    def _remove(self, arrival: _Arrival) -> None:
        if arrival in self._arriving:
            del self._arriving[arrival]
            self._held -= arrival.size


def reject_too_large() -> Rejected:
    """Make the rejection of a body over MAX_BODY."""
    return Rejected(413, f"the body is larger than {MAX_BODY} bytes")


def _reject_no_room() -> Rejected:
    return Rejected(503, "too many deliveries are arriving at once; deliver this event again later")
