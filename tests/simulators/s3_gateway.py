"""A gateway in front of an S3 server that answers 200 with what the server has not said.

    with S3Gateway(server.endpoint) as gateway:         # clients use gateway.url
        gateway.answer_next(OddS3.PAGE, "GET", r"/journal/", times=2)
        with gateway.answering(OddS3.EMPTY):              # all requests, until the block ends
            ...
        gateway.given                                     # what was answered oddly

Requests that are answered oddly do not reach the server, except those that are cut in half.

    with S3Gateway(server.endpoint, Naming("virtual")) as gateway:

is a server that is reached through the proxy `gateway.url`, at `http://s3.test`, and that expects a
bucket's name in one place only.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Self

import httpx
from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.odd_answers import PAGE, Given, OddS3
from worker.lab.loopback import Loopback

HOST = "s3.test"
"""The host of a server that cares where a bucket's name stands."""

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


@dataclass(frozen=True, slots=True)
class Naming:
    """Where a server expects the bucket's name, and how it refuses it elsewhere: a code of S3's
    errors, or "list" for the list of all buckets."""

    form: Literal["path", "virtual"]
    refusal: str = "NoSuchBucket"

    def find_target(self, host: str, target: str) -> str | None:
        """Return the path and query by which the server behind it knows what is asked for; None if
        the name stands in the wrong place."""
        bucket = host.partition(":")[0].removesuffix(HOST).rstrip(".")
        if self.form == "path":
            return None if bucket else target
        return f"/{bucket}{target}" if bucket else None

    def refuse(self) -> Response:
        """The answer to a name in the wrong place."""
        if self.refusal == "list":
            text = "<ListAllMyBucketsResult><Owner/><Buckets/></ListAllMyBucketsResult>"
            return Response(text, 200, media_type="application/xml")
        text = f"<Error><Code>{self.refusal}</Code><Message>See elsewhere.</Message></Error>"
        status = 404 if self.refusal == "NoSuchBucket" else 403
        return Response(text, status, media_type="application/xml")


class S3Gateway:
    """Passes requests on to `endpoint`, but for the faults that were asked for."""

    def __init__(self, endpoint: str, naming: Naming | None = None) -> None:
        self.url = ""
        self._naming = naming
        self.given: list[Given] = []
        self._endpoint = endpoint
        self._faults: list[_Fault] = []
        self._all: _Fault | None = None
        self._is_refusing = False
        self._lock = threading.Lock()
        self._server = Loopback("s3-gateway", self._respond, proxies=naming is not None)

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
        target = _get_target(request)
        if self._naming:
            found = self._naming.find_target(request.headers.get("host", ""), target)
            if found is None:
                return self._naming.refuse()
            target = found
        kind = self._take_fault(request)
        if kind is OddS3.PAGE:
            return Response(PAGE, 200, media_type="text/html")
        if kind is OddS3.EMPTY:
            return Response(b"", 200)
        answer = await self._pass_on(request, target)
        if kind is None or answer.status_code >= httpx.codes.MULTIPLE_CHOICES:
            return answer
        half = answer.body[: len(answer.body) // 2]
        headers = {} if kind is OddS3.HALF_BARE else dict(answer.headers)
        headers.pop("content-length", None)
        return Response(half, answer.status_code, headers)

    async def _pass_on(self, request: Request, target: str) -> Response:
        dropped = {b"connection", b"host"} if self._naming else {b"connection"}
        headers = [(name, value) for name, value in request.headers.raw if name not in dropped]
        async with httpx.AsyncClient(timeout=60.0, trust_env=False, verify=False) as client:
            answer = await client.request(
                request.method,
                self._endpoint + target,
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
