"""The simulated API on a loopback port, with a request log and faults."""

import json

from starlette.requests import Request
from starlette.responses import Response

from worker.demo.anthropic import binding, checks, model_list, vertex
from worker.demo.anthropic.answers import make_message
from worker.demo.anthropic.cache import PrefixCache
from worker.demo.anthropic.protocol import (
    Json,
    Refused,
    encode_compact,
    list_blocks,
    make_invalid,
    remove_mark,
)
from worker.demo.anthropic.reading import read_request
from worker.demo.model_api import ModelApi
from worker.demo.script import Script


class AnthropicSim(ModelApi):
    """A running Messages API that answers from a script.

        with AnthropicSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)

    `key` "" accepts any key; `think` is in seconds, `window` in tokens. Requests may also use
    Vertex AI's path, where `key` is the access token; tokens in `revoked_keys` are refused.
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
        super().__init__(self._endpoint, _make_error, think)
        self.revoked_keys: set[str] = set()
        self.model_list = list(model_list.SERVED)
        self._script = script
        self._key = key
        self._window = window
        self._cache = cache or PrefixCache()

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        if request.url.path == "/v1/models":
            return self._list_models(request, raw)
        try:
            body = self._check_request(request, raw)
            if spoiled := await self._think_and_fail():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url.path}: {refused}")
            return _make_response(refused.body(f"req_{len(self.raw):06}"), refused.status)
        self.answers.append(answer)
        return _make_response(answer, 200)

    def _list_models(self, request: Request, raw: bytes) -> Response:
        try:
            if request.method != "GET" or raw:
                raise Refused(404, "not_found_error", "Not Found")
            checks.check_list_headers(request.headers, self._key)
            if spoiled := self._fail_list():
                return spoiled
            part = model_list.list_part(
                self.model_list, dict(request.query_params), self.max_listed
            )
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url}: {refused}")
            return _make_response(refused.body("req_list"), refused.status)
        return _make_response(part, 200)

    def _check_request(self, request: Request, raw: bytes) -> Json:
        model = vertex.parse_model(request.url.path)
        if request.method != "POST" or not (model or request.url.path == "/v1/messages"):
            raise Refused(404, "not_found_error", "Not Found")
        if model:
            vertex.check_headers(request.headers, self._key, self.revoked_keys)
        else:
            checks.check_headers(request.headers, self._key)
        body = checks.parse_body(raw)
        self.raw.append(raw)
        self.requests.append(body)
        if model:
            body = vertex.convert_body(body, model)
        try:
            checks.check_body(body)
        except (AttributeError, KeyError, TypeError) as error:
            raise make_invalid(f"Input has the wrong shape: {error!r}") from error
        if not str(body["model"]).startswith("claude-"):
            raise Refused(404, "not_found_error", f"model: {body['model']}")
        binding.check_thinking(body)
        return body

    def _answer(self, body: Json) -> Json:
        asked = read_request(body)
        self._watch_frame(asked.first, _get_frame(body))
        billed = self._cache.account_body(body)
        if billed.total > self._window:
            raise make_invalid(
                f"prompt is too long: {billed.total} tokens > {self._window} maximum"
            )
        try:
            return make_message(self._script(asked), body, billed)
        except LookupError as error:
            raise make_invalid(f"the script has no answer: {error}") from error


def _get_frame(body: Json) -> dict[str, bytes]:
    """Return the parts of a body that must not change within a session."""
    return {
        "tools": encode_compact([remove_mark(tool) for tool in body.get("tools", [])]),
        "system": encode_compact(
            [remove_mark(block) for block in list_blocks(body.get("system", []))]
        ),
    }


def _make_response(content: Json, status: int) -> Response:
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


def _make_error(status: int) -> bytes:
    kind = _KINDS.get(status, "api_error")
    return encode_compact(
        Refused(status, kind, kind.replace("_", " ").capitalize()).body("req_fault")
    )
