"""A gateway in front of an S3 server that answers 200 with what the server has not said.

    with S3Gateway(server.endpoint) as gateway:         # clients use gateway.url
        gateway.answer_next(OddS3.PAGE, "GET", r"/journal/", times=2)
        with gateway.answering(OddS3.EMPTY):              # all requests, until the block ends
            ...
        gateway.given                                     # what was answered oddly

Requests that are answered oddly do not reach the server, except those that are cut in half.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import httpx
from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.odd_answers import PAGE, Given, OddS3
from worker.demo.loopback import Loopback

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@dataclass(slots=True)
class _Fault:
    kind: OddS3
    method: str
    path: re.Pattern[str]
    times: int

    def matches(self, request: Request) -> bool:
        is_method = self.method in ("", request.method)
        return self.times > 0 and is_method and bool(self.path.search(_get_target(request)))


class S3Gateway:
    """Passes requests on to `endpoint`, but for the faults that were asked for."""

    def __init__(self, endpoint: str) -> None:
        self.url = ""
        self.given: list[Given] = []
        self._endpoint = endpoint
        self._faults: list[_Fault] = []
        self._all: _Fault | None = None
        self._is_refusing = False
        self._lock = threading.Lock()
        self._server = Loopback("s3-gateway", self._respond)

    def __enter__(self) -> Self:
        self.url = self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    def answer_next(self, kind: OddS3, method: str = "", path: str = "", *, times: int = 1) -> None:
        """Answer the next `times` requests oddly whose method (any if "") and encoded path with
        query (by the regex `path`) match."""
        with self._lock:
            self._faults.append(_Fault(OddS3(kind), method, re.compile(path), times))

    @contextmanager
    def answering(self, kind: OddS3, method: str = "", path: str = "") -> Iterator[None]:
        """Answer all requests oddly that match, as `answer_next` says, until the block ends."""
        fault = _Fault(OddS3(kind), method, re.compile(path), 1)
        with self._lock:
            assert self._all is None, "the gateway answers oddly already"
            self._all = fault
        try:
            yield
        finally:
            with self._lock:
                self._all = None

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Answer 503, as a gateway does whose server is down, until the block ends."""
        self._is_refusing = True
        try:
            yield
        finally:
            self._is_refusing = False

    def _take_fault(self, request: Request) -> OddS3 | None:
        with self._lock:
            found = next((each for each in self._faults if each.matches(request)), None)
            if found:
                found.times -= 1
            elif self._all and self._all.matches(request):
                found = self._all
            if found is None:
                return None
            given = Given(found.kind, request.method, _get_target(request), time.monotonic())
            self.given.append(given)
            return found.kind

    async def _respond(self, request: Request) -> Response:
        await request.body()  # what is left of it would be taken for the next request
        if self._is_refusing:
            return Response(b"no server is available", 503, media_type="text/plain")
        kind = self._take_fault(request)
        if kind is OddS3.PAGE:
            return Response(PAGE, 200, media_type="text/html")
        if kind is OddS3.EMPTY:
            return Response(b"", 200)
        answer = await self._pass_on(request)
        if kind is None or answer.status_code >= httpx.codes.MULTIPLE_CHOICES:
            return answer
        half = answer.body[: len(answer.body) // 2]
        headers = {} if kind is OddS3.HALF_BARE else dict(answer.headers)
        headers.pop("content-length", None)
        return Response(half, answer.status_code, headers)

    async def _pass_on(self, request: Request) -> Response:
        headers = [(name, value) for name, value in request.headers.raw if name != b"connection"]
        async with httpx.AsyncClient(timeout=60.0, trust_env=False, verify=False) as client:
            answer = await client.request(
                request.method,
                self._endpoint + _get_target(request),
                headers=headers,
                content=await request.body(),
            )
        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        if request.method == "HEAD":
            kept["content-length"] = answer.headers.get("content-length", "0")
        return Response(answer.content, answer.status_code, kept)


def _get_target(request: Request) -> str:
    """The path and the query as they were sent."""
    path: str = request.scope["raw_path"].decode("ascii")
    query: str = request.scope["query_string"].decode("ascii")
    return f"{path}?{query}" if query else path
