"""The server: the simulated API on a loopback port, with a request log and faults."""

import json

from starlette.requests import Request
from starlette.responses import Response

from worker.demo.anthropic import binding, checks, vertex
from worker.demo.anthropic.answers import message
from worker.demo.anthropic.cache import PrefixCache
from worker.demo.anthropic.protocol import Json, Refused, bare, blocks, compact, invalid
from worker.demo.anthropic.reading import read
from worker.demo.model_api import ModelApi
from worker.demo.script import Script


class AnthropicSim(ModelApi):
    """A running Messages API that answers from a script.

        with AnthropicSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)

    `key` "" takes any key; `think` is in seconds; `window` in tokens. Requests may also come by
    Vertex AI's path, where `key` is the access token; none in `revoked` is taken.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str = "",
        think: float = 0.0,
        window: int = 1_000_000,
        cache: PrefixCache | None = None,
    ) -> None:
        super().__init__(self._endpoint, _error, think)
        self.revoked: set[str] = set()
        self._script = script
        self._key = key
        self._window = window
        self._cache = cache or PrefixCache()

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = self._admitted(request, raw)
            if spoiled := await self._thought():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected.append(f"{request.method} {request.url.path}: {refused}")
            return _json(refused.body(f"req_{len(self.raw):06}"), refused.status)
        self.answers.append(answer)
        return _json(answer, 200)

    def _admitted(self, request: Request, raw: bytes) -> Json:
        model = vertex.model_of(request.url.path)
        if request.method != "POST" or not (model or request.url.path == "/v1/messages"):
            raise Refused(404, "not_found_error", "Not Found")
        if model:
            vertex.check_headers(request.headers, self._key, self.revoked)
        else:
            checks.check_headers(request.headers, self._key)
        body = checks.parse(raw)
        self.raw.append(raw)
        self.requests.append(body)
        if model:
            body = vertex.unwrapped(body, model)
        try:
            checks.check_body(body)
        except (AttributeError, KeyError, TypeError) as error:
            raise invalid(f"Input has the wrong shape: {error!r}") from error
        if not str(body["model"]).startswith("claude-"):
            raise Refused(404, "not_found_error", f"model: {body['model']}")
        binding.check(body)
        return body

    def _answer(self, body: Json) -> Json:
        asked = read(body)
        self._watch_frame(asked.first, _frame(body))
        billed = self._cache.bill(body)
        if billed.total > self._window:
            raise invalid(f"prompt is too long: {billed.total} tokens > {self._window} maximum")
        try:
            return message(self._script(asked), body, billed)
        except LookupError as error:
            raise invalid(f"the script has no answer: {error}") from error


def _frame(body: Json) -> dict[str, bytes]:
    """What must not change within a session."""
    return {
        "tools": compact([bare(tool) for tool in body.get("tools", [])]),
        "system": compact([bare(block) for block in blocks(body.get("system", []))]),
    }


def _json(content: Json, status: int) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _error(status: int) -> bytes:
    kind = _KINDS.get(status, "api_error")
    return compact(Refused(status, kind, kind.replace("_", " ").capitalize()).body("req_fault"))
