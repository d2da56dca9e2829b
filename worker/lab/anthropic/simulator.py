"""The simulated API on a loopback port."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from worker.lab.anthropic import binding, checks
from worker.lab.anthropic.answers import make_message
from worker.lab.anthropic.cache import PrefixCache
from worker.lab.anthropic.protocol import (
    Json,
    Refused,
    encode_compact,
    list_blocks,
    make_invalid,
    remove_mark,
)
from worker.lab.anthropic.reading import read_request
from worker.lab.model_api import ModelApi
from worker.lab.script import Script


class AnthropicSim(ModelApi):
    """A running Messages API that answers from a script.

        with AnthropicSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)

    `key` "" accepts any key; `window` is in tokens.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str = "",
        window: int = 1_000_000,
    ) -> None:
        super().__init__(self._endpoint)
        self._script = script
        self._key = key
        self._window = window
        self._cache = PrefixCache()

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = self._check_request(request, raw)
            if spoiled := await self.spoil():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url.path}: {refused}")
            return make_response(refused.body(f"req_{len(self.raw):06}"), refused.status)
        self.answers.append(answer)
        return make_response(answer, 200)

    def _check_request(self, request: Request, raw: bytes) -> Json:
        body = self.read_body(request, raw)
        try:
            self.check_body(body)
        except (AttributeError, KeyError, TypeError) as error:
            raise make_invalid(f"Input has the wrong shape: {error!r}") from error
        return body

    def read_body(self, request: Request, raw: bytes) -> Json:
        """Check path and headers, and parse the body. Raises Refused."""
        if request.method != "POST" or request.url.path != "/v1/messages":
            raise Refused(404, "not_found_error", "Not Found")
        checks.check_headers(request.headers, self._key)
        return self.log_body(raw)

    def log_body(self, raw: bytes) -> Json:
        """Parse a body and keep it in the log. Raises Refused."""
        body = checks.parse_body(raw)
        self.raw.append(raw)
        self.requests.append(body)
        return body

    def check_body(self, body: Json) -> None:
        """Check every rule of the body; raises Refused for the first broken one."""
        checks.check_body(body)
        if not str(body["model"]).startswith("claude-"):
            raise Refused(404, "not_found_error", f"model: {body['model']}")
        binding.check_thinking(body)

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


def make_response(content: Any, status: int) -> Response:
    """Make a response of JSON."""
    return Response(json.dumps(content), status, media_type="application/json")
