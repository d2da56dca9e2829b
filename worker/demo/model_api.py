"""What the simulated model APIs have in common: a server, a log of its requests, and faults."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import Response

from worker.demo.loopback import Fault, Faults, Loopback

Json = dict[str, Any]


class ModelApi:
    """An API that runs during its `with` block, where `url` is its base URL.

    `requests` are the parsed bodies of all attempts, `raw` the same as bytes, `answers` the answers
    sent. `unexpected_requests` says what the API would have refused and what broke the cached
    prefix. `model_list` is its list of models, `max_listed` the most models in one page; `lists`
    counts the requests for pages of it.
    """

    base = ""
    """The path at the end of the base URL."""

    def __init__(
        self,
        endpoint: Callable[[Request], Awaitable[Response]],
        error: Callable[[int], bytes],
        think: float,
    ) -> None:
        """`error` makes the error body for a status; `think` is the delay of answers in seconds."""
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
        """Answer the next `times` valid requests with this error, without asking the script.

        Without a body, the error body for the status is sent.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._faults.add(Fault(status, raw or self._error(status), headers or {}), times)

    def fail_list(self, status: int, body: bytes = b"") -> None:
        """Answer the next valid request for the list of models with this error."""
        self._list_faults.add(Fault(status, body or self._error(status), {}), 1)

    def cut_next(self, times: int = 1) -> None:
        """Close the connection in the middle of the next `times` answers."""
        self._faults.add(Fault(0), times)

    def __enter__(self) -> Self:
        self.url = self._server.start() + self.base
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    async def _think_and_fail(self) -> Response | None:
        """Wait for the thinking time, then return the faulty answer if this request gets one."""
        if self._think:
            await asyncio.sleep(self._think)
        return self._faults.take_next()

    def _fail_list(self) -> Response | None:
        """Count a request for the list; return the faulty answer if it gets one."""
        self.lists += 1
        return self._list_faults.take_next()

    def _watch_frame(self, conversation: str, frame: Mapping[str, str | bytes]) -> None:
        """Record changes of tools or instructions: in a session they break the cached prefix."""
        before = self._frames.get(conversation, frame)
        changed = [name for name in frame if frame[name] != before.get(name)]
        self.unexpected_requests += [f"{name} changed within the conversation" for name in changed]
        self._frames[conversation] = frame
