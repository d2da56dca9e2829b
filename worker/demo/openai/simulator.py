"""The server under both simulators: one path, a request log, a cache, faults."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from worker.demo.loopback import Fault, Faults, Loopback
from worker.demo.openai.cache import Counted, PrefixCache
from worker.demo.openai.protocol import Json, Refused, compact, invalid, parse
from worker.demo.script import Answer, Asked, Script

Self = TypeVar("Self", bound="Simulator")


class Wire(Protocol):
    """One of the two APIs."""

    path: str

    def check(self, body: Json) -> None:
        """Refuse what the API would. Raises Refused."""
        ...

    def frame(self, body: Json) -> Mapping[str, str]:
        """What must not change within a session, by name."""
        ...

    def parts(self, body: Json) -> tuple[str, Sequence[str]]:
        """What the cache goes by, and the texts of the prefix in order."""
        ...

    def read(self, body: Json) -> Asked:
        """The request as the script sees it."""
        ...

    def answer(self, answer: Answer, body: Json, counted: Counted) -> Json:
        """The body of the answer."""
        ...


class Simulator:
    """A running API that answers from a script. `url` is the base URL, version included.

    `requests`, `raw` and `answers` log what went over the wire; `unexpected` what was refused, or
    changed that must not. `key` is the only key taken; with "" any will do, also none.
    """

    def __init__(
        self,
        wire: Wire,
        script: Script,
        *,
        key: str = "",
        think: float = 0.0,
        window: int = 1_000_000,
        cache: PrefixCache | None = None,
    ) -> None:
        self.url = ""
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.answers: list[Json] = []
        self.unexpected: list[str] = []
        self._wire = wire
        self._script = script
        self._key = key
        self._think = think
        self._window = window
        self._cache = cache or PrefixCache()
        self._frames: dict[str, Mapping[str, str]] = {}
        self._faults = Faults()
        self._loopback = Loopback(type(self).__name__, self._endpoint)

    def fail_next(
        self,
        status: int,
        body: bytes | Json = b"",
        headers: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next `times` valid requests so; the script is not asked for them.

        Without a body an error body that fits the status is sent.
        """
        given = compact(body).encode() if isinstance(body, dict) else body
        self._faults.add(Fault(status, given or _error(status), headers or {}), times)

    def cut_next(self, times: int = 1) -> None:
        """Close the connection in the middle of the next `times` answers."""
        self._faults.add(Fault(0), times)

    def __enter__(self: Self) -> Self:
        self.url = f"{self._loopback.start()}/v1"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loopback.stop()

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = self._admitted(request, raw)
            if self._think:
                await asyncio.sleep(self._think)
            if spoiled := self._faults.next():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected.append(f"{request.method} {request.url.path}: {refused}")
            return self._json(refused.body(), refused.status)
        self.answers.append(answer)
        return self._json(answer, 200)

    def _admitted(self, request: Request, raw: bytes) -> Json:
        where = f"{request.method} {request.url.path}"
        if where != f"POST {self._wire.path}":
            raise Refused(404, f"Invalid URL ({where})")
        self._check_headers(request.headers)
        body = parse(raw)
        self.raw.append(raw)
        self.requests.append(body)
        try:
            self._wire.check(body)
        except (AttributeError, KeyError, TypeError) as error:
            raise invalid(f"The request has the wrong shape: {error!r}") from error
        return body

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if self._key and scheme.lower() != "bearer":
            raise Refused(401, "You didn't provide an API key.")
        if self._key and key != self._key:
            raise Refused(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "Unsupported Media Type: expected application/json")

    def _answer(self, body: Json) -> Json:
        asked = self._wire.read(body)
        self._watch_frame(asked.first, self._wire.frame(body))
        counted = self._cache.count(*self._wire.parts(body))
        if counted.total > self._window:
            raise Refused(
                400,
                f"This model's maximum context length is {self._window} tokens. However, your "
                f"messages resulted in {counted.total} tokens. Please reduce the length of the "
                "messages.",
                code="context_length_exceeded",
                param="messages",
            )
        try:
            return self._wire.answer(self._script(asked), body, counted)
        except LookupError as error:
            raise invalid(f"the script has no answer: {error}") from error

    def _watch_frame(self, conversation: str, frame: Mapping[str, str]) -> None:
        """Changed tools or instructions throw the cached prefix away: never within a session."""
        before = self._frames.get(conversation, frame)
        changed = [name for name in frame if frame[name] != before.get(name)]
        self.unexpected += [f"{name} changed within the conversation" for name in changed]
        self._frames[conversation] = frame

    def _json(self, content: Json, status: int) -> Response:
        headers = {"x-request-id": f"req_{len(self.raw):06}"}
        return Response(compact(content), status, headers, media_type="application/json")


_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def _error(status: int) -> bytes:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    refused = Refused(status, kind.replace("_", " ").capitalize(), kind=kind)
    return compact(refused.body()).encode()
