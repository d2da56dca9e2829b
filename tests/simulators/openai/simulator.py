"""The server under both simulators: one path, a request log, a cache, faults."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.model_api import ModelApi
from tests.simulators.openai.cache import Counted, PrefixCache
from tests.simulators.openai.protocol import Json, Refused, compact, invalid, parse
from worker.lab.script import Answer, Asked, Script


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


def describe(model: str, **fields: Any) -> Json:
    """A model as the list has it; `fields` are those that a compatible server adds."""
    return {"id": model, "object": "model", "created": 1_790_000_000, "owned_by": "us", **fields}


class Simulator(ModelApi):
    """A running API that answers from a script.

    `key` is the only key taken; with "" any will do, also none.
    """

    base = "/v1"

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
        super().__init__(self._endpoint, think=think)
        self._wire = wire
        self._script = script
        self._key = key
        self._window = window
        self._cache = cache or PrefixCache()
        self.model_list = [describe(model) for model in ("gpt-6.2-sol", "gpt-5.5", "qwen3")]

    def make_error(self, status: int) -> bytes:
        """The API's error body for a status."""
        kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
        refused = Refused(status, kind.replace("_", " ").capitalize(), kind=kind)
        return compact(refused.body()).encode()

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        if request.url.path == "/v1/models":
            return self._list_models(request, raw)
        try:
            body = self._admitted(request, raw)
            if spoiled := await self.spoil():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url.path}: {refused}")
            return self._json(refused.body(), refused.status)
        self.answers.append(answer)
        return self._json(answer, 200)

    def _list_models(self, request: Request, raw: bytes) -> Response:
        """The whole list, in one part: https://platform.openai.com/docs/api-reference/models."""
        try:
            if request.method != "GET" or raw or request.query_params:
                raise Refused(404, f"Invalid URL ({request.method} {request.url.path})")
            self._check_key(request.headers)
            if spoiled := self._fail_list():
                return spoiled
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url}: {refused}")
            return self._json(refused.body(), refused.status)
        return self._json({"object": "list", "data": self.model_list}, 200)

    def _admitted(self, request: Request, raw: bytes) -> Json:
        self._check_door(request)
        body = self._read(raw)
        try:
            self._wire.check(body)
        except (AttributeError, KeyError, TypeError) as error:
            raise invalid(f"The request has the wrong shape: {error!r}") from error
        return body

    def _check_door(self, request: Request) -> None:
        """Path and headers. Raises Refused."""
        where = f"{request.method} {request.url.path}"
        if where != f"POST {self._wire.path}" or request.query_params:
            raise Refused(404, f"Invalid URL ({where})")
        self._check_headers(request.headers)

    def _read(self, raw: bytes) -> Json:
        """The body, which is kept in the log. Raises Refused."""
        body = parse(raw)
        self.raw.append(raw)
        self.requests.append(body)
        return body

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        self._check_key(headers)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "Unsupported Media Type: expected application/json")

    def _check_key(self, headers: Mapping[str, str]) -> None:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if self._key and scheme.lower() != "bearer":
            raise Refused(401, "You didn't provide an API key.")
        if self._key and key != self._key:
            raise Refused(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")

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

    def _json(self, content: Json, status: int) -> Response:
        headers = {"x-request-id": f"req_{len(self.raw):06}"}
        return Response(compact(content), status, headers, media_type="application/json")


_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
