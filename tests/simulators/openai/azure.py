"""Azure OpenAI: the same two APIs under a resource's paths, with deployments and filters."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.openai.chat import ChatSim
from tests.simulators.openai.protocol import Json, Refused, compact, unknown
from tests.simulators.openai.responses import ResponsesSim
from tests.simulators.openai.simulator import Simulator
from worker.lab.script import Script

VERSIONS = frozenset({"2024-10-21", "2025-04-01-preview"})
FILTERED = {
    name: {"filtered": False, "severity": "safe"}
    for name in ("hate", "self_harm", "sexual", "violence")
}
_TEXTS = {
    401: "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide"
    " a valid key for an active subscription and use a correct regional API endpoint for your "
    "resource.",
    404: "Resource not found",
    429: "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version "
    "2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please "
    "retry after 20 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would like to "
    "further increase the default rate limit.",
}


class AzureError(Refused):
    """An error of Azure's front end, whose code is the status as a text, or a name."""

    def __init__(self, status: int, message: str = "", code: str = "") -> None:
        super().__init__(status, message or _TEXTS[status])
        self._azure = {"code": code or str(status), "message": message or _TEXTS[status]}

    def body(self) -> Json:
        """The error body."""
        return {"error": self._azure}


class _Azure(Simulator):
    """A resource: `deployments` are models by the names of their deployments."""

    base = ""
    operation = ""
    in_deployment = False
    """Whether the dated API names the deployment in its path."""
    deployments: Mapping[str, str]

    def _list_models(self, request: Request, raw: bytes) -> Response:
        """There is none that names deployments."""
        self.unexpected_requests.append(f"{request.method} {request.url}")
        return Response(self.make_error(404), 404, media_type="application/json")

    def _check_door(self, request: Request) -> None:
        path, query = request.url.path, dict(request.query_params)
        if request.method != "POST":
            raise AzureError(404)
        if path == f"/openai/v1/{self.operation}":
            if query not in ({}, {"api-version": "preview"}):
                raise AzureError(404)
        elif query.get("api-version") not in VERSIONS or len(query) > 1 or not self._is_dated(path):
            raise AzureError(404)
        if self._key and request.headers.get("api-key") != self._key:
            raise AzureError(401)
        if "authorization" in request.headers:
            raise AzureError(401)
        if request.headers.get("content-type") != "application/json":
            raise Refused(415, "Unsupported Media Type")

    def _is_dated(self, path: str) -> bool:
        if not self.in_deployment:
            return path == f"/openai/{self.operation}"
        before, _, rest = path.removeprefix("/openai/deployments/").partition("/")
        if rest == self.operation and before not in self.deployments:
            raise self._find_none()
        return path.startswith("/openai/deployments/") and rest == self.operation

    def _read(self, raw: bytes) -> Json:
        body = super()._read(raw)
        name = str(body.get("model"))
        if name not in self.deployments:
            raise self._find_none()
        if "prompt_cache_key" in body:
            raise unknown("prompt_cache_key")
        return {**body, "model": self.deployments[name]}

    @staticmethod
    def _find_none() -> AzureError:
        return AzureError(
            404,
            "The API deployment for this resource does not exist. If you created the deployment "
            "within the last 5 minutes, please wait a moment and try again.",
            "DeploymentNotFound",
        )

    def make_error(self, status: int) -> bytes:
        """The API's error body for a status."""
        text = _TEXTS.get(status, f"It failed ({status}).")
        return compact({"error": {"code": str(status), "message": text}}).encode()


class AzureChatSim(_Azure, ChatSim):
    """A running Azure resource's Chat Completions; answers say what the filters found."""

    operation = "chat/completions"
    in_deployment = True

    def __init__(
        self, script: Script, deployments: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(script, own=True, **options)
        self.deployments = deployments or {"gpt-5.5": "gpt-5.5"}

    def _answer(self, body: Json) -> Json:
        answer = super()._answer(body)
        for choice in answer["choices"]:
            choice["content_filter_results"] = FILTERED
        found = {"prompt_index": 0, "content_filter_results": FILTERED}
        return {**answer, "prompt_filter_results": [found]}


class AzureResponsesSim(_Azure, ResponsesSim):
    """A running Azure resource's Responses API."""

    operation = "responses"

    def __init__(
        self, script: Script, deployments: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(script, **options)
        self.deployments = deployments or {"gpt-6.2-sol": "gpt-6.2-sol"}
