"""The demo's Messages API with faults, a list of models, Vertex AI's path and rules of thinking."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.anthropic import model_list, thinking, vertex
from tests.simulators.model_api import ModelApi
from worker.lab import anthropic
from worker.lab.anthropic import checks
from worker.lab.anthropic.protocol import Json, Refused, encode_compact
from worker.lab.anthropic.simulator import make_response
from worker.lab.script import Script


class AnthropicSim(ModelApi, anthropic.AnthropicSim):
    """A running Messages API that answers from a script.

        with AnthropicSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)

    Requests may also use Vertex AI's path, where `key` is the access token; tokens in
    `revoked_keys` are refused.
    """

    def __init__(self, script: Script, **options: Any) -> None:
        """`options` are those of the demo's simulator, and `think`: the delay in seconds."""
        super().__init__(script, **options)
        self.revoked_keys: set[str] = set()
        self.model_list = list(model_list.SERVED)

    async def _endpoint(self, request: Request) -> Response:
        if request.url.path == "/v1/models":
            return self._list_models(request, await request.body())
        return await super()._endpoint(request)

    def _list_models(self, request: Request, raw: bytes) -> Response:
        try:
            if request.method != "GET" or raw:
                raise Refused(404, "not_found_error", "Not Found")
            checks.check_credential(request.headers, self._key)
            if spoiled := self._fail_list():
                return spoiled
            part = model_list.list_part(
                self.model_list, dict(request.query_params), self.max_listed
            )
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url}: {refused}")
            return make_response(refused.body("req_list"), refused.status)
        return make_response(part, 200)

    def read_body(self, request: Request, raw: bytes) -> Json:
        """Read the request on either path; on Vertex AI's, the model is in the path."""
        model = vertex.parse_model(request.url.path)
        if request.method != "POST" or not model:
            return super().read_body(request, raw)
        vertex.check_headers(request.headers, self._key, self.revoked_keys)
        return vertex.convert_body(self.log_body(raw), model)

    def check_body(self, body: Json) -> None:
        """Check every rule of the body; raises Refused for the first broken one."""
        super().check_body(body)
        thinking.check_thinking_fields(body)

    def make_error(self, status: int) -> bytes:
        """Make the API's error body for a status."""
        kind = _KINDS.get(status, "api_error")
        refused = Refused(status, kind, kind.replace("_", " ").capitalize())
        return encode_compact(refused.body("req_fault"))


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
