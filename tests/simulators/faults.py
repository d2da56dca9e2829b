"""Errors, and answers that break off, in place of what a simulator would answer."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Fault:
    """An error sent instead of an answer. Status 0 cuts the connection in the middle of it."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Faults:
    """The faults that are still to come, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Fault] = deque()

    def add(self, fault: Fault, times: int) -> None:
        """Queue `fault` for `times` answers, after the faults that are already waiting."""
        self._waiting.extend([fault] * times)

    def take_next(self) -> Response | None:
        """Return the faulty answer to the present request, or None."""
        if not self._waiting:
            return None
        fault = self._waiting.popleft()
        if not fault.status:
            return Cut()
        headers = dict(fault.headers)
        return Response(fault.body, fault.status, headers, media_type="application/json")


class Cut(Response):
    """An answer that breaks off in its body: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        start = {"type": "http.response.start", "status": self.status_code, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": b'{"id":"cut', "more_body": True})
