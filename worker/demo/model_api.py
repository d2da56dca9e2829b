"""What the simulated model APIs have in common: a server, a log of what it was asked, faults."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import Response

from worker.demo.loopback import Fault, Faults, Loopback

Json = dict[str, Any]


class ModelApi:
    """An API that runs as long as its `with` block; `url` is its base URL, set by then.

    `requests` are the parsed bodies of all attempts, `raw` the same as bytes, `answers` what was
    answered, `unexpected` what the API would have refused and what broke the cached prefix.
    `model_list` is what it says of its models when it is asked for them, `max_listed` the most of
    them in one part; `lists` counts the parts that were asked for.
    """

    base = ""
    """The path that belongs to the base URL."""

    def __init__(
        self,
        endpoint: Callable[[Request], Awaitable[Response]],
        error: Callable[[int], bytes],
        think: float,
    ) -> None:
        """`error` gives the body that fits a status; `think` is in seconds."""
        self.url = ""
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.answers: list[Json] = []
        self.unexpected_requests: list[str] = []
        self.model_list: list[Json] = []
        self.max_listed = 1000
        self.lists = 0
        self._error = error
        self._think = think
        self._faults, self._list_faults = Faults(), Faults()
        self._frames: dict[str, Mapping[str, str | bytes]] = {}
        self._server = Loopback(type(self).__name__, endpoint)

    def fail_next(
        self,
        status: int,
        body: bytes | Json | list[Json] = b"",
        headers: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next `times` valid requests so; the script is not asked for them.

        Without a body an error body that fits the status is sent.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._faults.add(Fault(status, raw or self._error(status), headers or {}), times)

    def fail_list(self, status: int, body: bytes = b"", times: int = 1) -> None:
        """Answer the next `times` valid requests for the list of models so."""
        self._list_faults.add(Fault(status, body or self._error(status), {}), times)

    def cut_next(self, times: int = 1) -> None:
        """Close the connection in the middle of the next `times` answers."""
        self._faults.add(Fault(0), times)

    def __enter__(self) -> Self:
        self.url = self._server.start() + self.base
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()

    async def _think_and_fail(self) -> Response | None:
        """Think; then the spoiled answer if the request at hand gets one."""
        if self._think:
            await asyncio.sleep(self._think)
        return self._faults.take_next()

    def _fail_list(self) -> Response | None:
        """Return the spoiled answer if the request for the list at hand gets one."""
        self.lists += 1
        return self._list_faults.take_next()

    def _watch_frame(self, conversation: str, frame: Mapping[str, str | bytes]) -> None:
        """Changed tools or instructions throw the cached prefix away: never within a session."""
        before = self._frames.get(conversation, frame)
        changed = [name for name in frame if frame[name] != before.get(name)]
        self.unexpected_requests += [f"{name} changed within the conversation" for name in changed]
        self._frames[conversation] = frame
