"""Connections to the door: uvicorn's HTTP protocol, bounded where it waits or reads without end.

uvicorn waits for a head, for the rest of a body that was answered already and for the reader of an
answer as long as they please, and takes heads and pipelined requests of any size and number.
"""

import asyncio
import logging
from operator import attrgetter
from typing import ClassVar, cast

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HANG_UP = 10
"""Seconds that requests on their way are waited for at the end."""

LOG_INTERVAL = 60.0
"""Seconds between two lines of the log about connections that were dropped."""

_log = logging.getLogger("sandpiper.webhook")


class Connection(HttpToolsProtocol):
    """One connection, which is closed when its peer takes too long or sends too much.

    Of more than `most` connections the one whose peer has been waited for the longest is dropped:
    whoever opens many and says little loses them, and a delivery or a health check gets through.
    """

    most = 512
    """Half of the files that a process may usually have open; a file's number over 1,023 would be
    too large for those who wait by `select`."""
    head_seconds = 10.0
    """From the connection, or the last answer, to the end of a request's head."""
    write_seconds = 30.0
    """For a reader to take the next part of an answer, some 48 KB."""
    max_head = 32 * 1024
    """Bytes of a request that are not its body; an id token may have 16 KB."""
    max_pipelined = 8

    _last_log: ClassVar[float] = 0.0

    order = (False, 0.0)
    """Whether it is our turn, and since when it is that or the peer's."""

    _timer: asyncio.TimerHandle | None = None
    _extra = 0  # bytes of the present request that were not its body
    _flushing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._start_waiting(self.head_seconds)
        if len(self.connections) > self.most:
            self._drop_another()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, and refuse more than `max_head` bytes around a body."""
        self._extra += len(data)
        super().data_received(data)
        if self._extra > self.max_head and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.send_400_response("The request's head is too large.")
            else:
                self.transport.abort()

    def on_headers_complete(self) -> None:
        """The head is whole: the app has time-outs of its own for the body and its work."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.max_head or len(self.pipeline) >= self.max_pipelined:
            raise ValueError("too large a head, or too many requests at once")
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Bodies are the app's to count."""
        self._extra -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole: it is our turn."""
        self._extra = 0
        if not self.cycle.response_complete:
            self.order = (True, self.loop.time())
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next head, and for the rest of a body that was answered before its end."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._start_waiting(self.write_seconds if self.flow.write_paused else self.head_seconds)

    def pause_writing(self) -> None:
        """Wait for the reader."""
        super().pause_writing()
        self._start_waiting(self.write_seconds)

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        if self.cycle.response_complete:
            self._start_waiting(self.head_seconds)
        else:
            self._stop_waiting()
            self.order = (True, self.loop.time())

    def _drop_another(self) -> None:
        others = cast(set[Connection], self.connections - {self})
        oldest = min(others, key=attrgetter("order"))
        self.connections.discard(oldest)
        oldest.transport.abort()
        now = self.loop.time()
        if now - Connection._last_log > LOG_INTERVAL:
            Connection._last_log = now
            _log.warning("over %d connections: those that say nothing are dropped", self.most)

    def _start_waiting(self, seconds: float) -> None:
        self._stop_waiting()
        self.order = (False, self.loop.time())
        self._timer = self.loop.call_later(seconds, self._expire)

    def _stop_waiting(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Close; what is still to be written gets `write_seconds` once more."""
        if self.transport.get_write_buffer_size() and not self._flushing:
            self._flushing = True
            self.transport.close()
            self._start_waiting(self.write_seconds)
        else:
            self.transport.abort()


def build_server(
    door: Starlette, host: str, port: int, kind: type[Connection] = Connection
) -> uvicorn.Server:
    """The HTTP server of the receiver, ready to run."""
    return uvicorn.Server(
        uvicorn.Config(
            door,
            host=host,
            port=port,
            http=kind,
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=HANG_UP,
        )
    )
