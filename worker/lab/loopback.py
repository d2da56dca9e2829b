"""A server on a loopback port, in a thread: the base of every simulator, and of model APIs."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_START = 10.0
_STOP = 10.0
_GRACE = 1.0


class _Server(uvicorn.Server):
    """Uvicorn that ends at once: by itself it polls ten times a second whether it should end."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 0.1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close each connection once its request is answered, and all within a second."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        state, deadline = self.server_state, time.monotonic() + _GRACE
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        for task in state.tasks:
            task.cancel()

    def end(self) -> None:
        """End the server. May be called from another thread."""
        self.should_exit = True
        if self._loop:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ending.set)


class Loopback:
    """Serves one endpoint for all paths, and possibly one for WebSockets. `start` sets `url`.

    With `proxies` it understands what is sent to a proxy: a whole URL in place of the path.
    """

    def __init__(
        self,
        name: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        websocket: Callable[[WebSocket], Awaitable[None]] | None = None,
        *,
        proxies: bool = False,
    ) -> None:
        self._proxies = proxies
        self.url = ""
        self._name = name
        self._endpoint, self._websocket = endpoint, websocket
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Serve until `stop`; returns the URL once connections are accepted."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = server = _Server(self._make_config())

        def serve() -> None:
            with listener:
                server.run(sockets=[listener])

        self._thread = threading.Thread(target=serve, name=self._name, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _START
        while not server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError(f"{self._name} did not start")
            time.sleep(0.005)
        return self.url

    def stop(self) -> None:
        """Stop accepting connections, and wait for the thread."""
        if self._server and self._thread:
            self._server.end()
            self._thread.join(timeout=_STOP)

    def _make_config(self) -> uvicorn.Config:
        routes: list[BaseRoute] = [Route("/{path:path}", self._endpoint, methods=_METHODS)]
        if self._websocket is not None:
            routes.append(WebSocketRoute("/{path:path}", self._websocket))
        return uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            http="httptools" if self._proxies else "h11",
            ws="websockets-sansio" if self._websocket else "none",
            timeout_keep_alive=60,
        )


Json = dict[str, Any]


class ModelApi:
    """An API that runs during its `with` block, where `url` is its base URL.

    `requests` are the parsed bodies of all attempts, `raw` the same as bytes, `answers` the answers
    sent. `unexpected_requests` describes what the API refuses and what broke the cached prefix.
    """

    base = ""
    """The path at the end of the base URL."""

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        self.url = ""
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.answers: list[Json] = []
        self.unexpected_requests: list[str] = []
        self._frames: dict[str, Mapping[str, str | bytes]] = {}
        self._server = Loopback(type(self).__name__, endpoint)

    def __enter__(self) -> Self:
        self.url = self._server.start() + self.base
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    async def spoil(self) -> Response | None:
        """Return what is sent to a valid request instead of the script's answer; here, None."""
        return None

    def _watch_frame(self, conversation: str, frame: Mapping[str, str | bytes]) -> None:
        """Record changes of tools or instructions: in a session they break the cached prefix."""
        before = self._frames.get(conversation, frame)
        changed = [name for name in frame if frame[name] != before.get(name)]
        self.unexpected_requests += [f"{name} changed within the conversation" for name in changed]
        self._frames[conversation] = frame
