"""Claude on Amazon Bedrock: the Messages API by InvokeModel, behind Amazon's front end."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.anthropic.signatures import Account, SignatureRefused, check_signature
from tests.simulators.anthropic.simulator import AnthropicSim
from worker.lab.anthropic.protocol import Json, Refused, list_blocks, make_invalid
from worker.lab.script import Script

VERSIONS = frozenset({"bedrock-2023-05-31", "2026-10-21"})
_PATH = re.compile(r"/model/([^/]+)/invoke")
_ID = re.compile(
    r"(?P<profile>(?:us|eu|apac|jp|au|us-gov|global)\.)?anthropic\."
    r"(?P<model>claude-[a-z]+-[0-9-]+?)(?:-\d{8})?(?:-v\d+(?::\d+)?)?"
)
_TOP = {
    *("anthropic_version", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking"),
    *("output_config", "metadata", "stop_sequences", "anthropic_beta", "temperature", "top_p"),
    *("top_k", "safeguards", "context_management", "compaction"),
}
_WITHOUT_TTL = re.compile(r"claude-(?:3|[a-z]+-4-[01])\b")
_KINDS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_TEXTS = {
    408: "Model has timed out in processing the request. Try your request again.",
    424: "The model returned an error while processing the request.",
    429: "Too many tokens, please wait before trying again.",
    503: "Bedrock is unable to process your request.",
}


class BedrockSim(AnthropicSim):
    """A running Bedrock in one region that answers from a script.

    Requests are signed by one of `accounts`, or have `key` as a bearer token; with neither given,
    nobody is let in. `arns` are models by the ARNs of inference profiles.
    """

    def __init__(
        self, script: Script, *, region: str = "eu-central-1", key: str = "", **options: Any
    ) -> None:
        super().__init__(script, **options)
        self.region = region
        self.accounts: list[Account] = [Account()]
        self.expired_tokens: set[str] = set()
        self.arns: dict[str, str] = {}
        self._bearer = key

    async def _endpoint(self, request: Request) -> Response:
        answer = await super()._endpoint(request)
        answer.headers["x-amzn-requestid"] = f"c0ffee00-0000-4000-8000-{len(self.raw):012}"
        if answer.status_code == 200:
            return answer
        body = json.loads(bytes(answer.body))
        kind = body.get("kind") or _KINDS.get(answer.status_code, "InternalServerException")
        said = body["message"] if "message" in body else body["error"]["message"]
        headers = {
            **answer.headers,
            "x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/",
        }
        headers.pop("content-length", None)
        return Response(json.dumps({"message": said}), answer.status_code, headers)

    def read_body(self, request: Request, raw: bytes) -> Json:
        """Check path, signature and headers, and parse the body. Raises Refused."""
        path = request.scope["raw_path"].decode("ascii")
        found = _PATH.fullmatch(path)
        if request.method != "POST" or not found or request.query_params:
            raise Refused(404, "UnknownOperationException", f"no such operation: {path}")
        self._check_who(request, path, raw)
        if request.headers.get("content-type") != "application/json":
            raise make_invalid("Content-Type has to be application/json")
        model = self._find_model(unquote(found[1]))
        return _convert_body(self.log_body(raw), model)

    def _check_who(self, request: Request, path: str, raw: bytes) -> None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme == "Bearer":
            if not self._bearer or key != self._bearer:
                told = "Authentication failed: Please make sure your API Key is valid."
                raise _FrontEnd(403, "AccessDeniedException", told)
            return
        try:
            token = request.headers.get("x-amz-security-token", "")
            if token in self.expired_tokens:
                told = "The security token included in the request is expired"
                raise SignatureRefused("ExpiredTokenException", told)
            check_signature(
                *(self.accounts, self.region, request.method, path),
                dict(request.headers),
                raw,
            )
        except SignatureRefused as refused:
            raise _FrontEnd(403, refused.kind, str(refused)) from refused

    def _find_model(self, name: str) -> str:
        if name in self.arns:
            return self.arns[name]
        found = _ID.fullmatch(name)
        if not found:
            raise _FrontEnd(400, "ValidationException", "The provided model identifier is invalid.")
        if not found["profile"]:
            raise _FrontEnd(
                400,
                "ValidationException",
                f"Invocation of model ID {name} with on-demand throughput isn’t supported. Retry "
                "your request with the ID or ARN of an inference profile that contains this model.",
            )
        return found["model"]

    def make_error(self, status: int) -> bytes:
        """Make Bedrock's error body for a status."""
        return json.dumps({"message": _TEXTS.get(status, f"It failed ({status}).")}).encode()


class _FrontEnd(Refused):
    """An error of Amazon's front end."""

    def body(self, request_id: str) -> Json:
        """Return the error's kind, which goes into a header, and its message."""
        return {"kind": self.kind, "message": str(self)}


def _convert_body(body: Json, model: str) -> Json:
    """Convert the body to the direct API's: add the path's model, remove the version."""
    for name in body:
        if name not in _TOP:
            raise make_invalid(f"{name}: Extra inputs are not permitted")
    if body.get("anthropic_version") not in VERSIONS:
        raise make_invalid("anthropic_version: Field required")
    for mark in _list_marks(body):
        if set(mark) - {"type", "ttl"}:
            raise make_invalid("cache_control: Extra inputs are not permitted")
        if "ttl" in mark and _WITHOUT_TTL.match(model):
            raise make_invalid("cache_control.ttl: Extra inputs are not permitted")
    plain = {name: value for name, value in body.items() if name != "anthropic_version"}
    return {"model": model, **plain}


def _list_marks(body: Json) -> list[Mapping[str, Any]]:
    blocks = [*body.get("tools", []), *list_blocks(body.get("system", []))]
    for message in body.get("messages", []):
        blocks += list_blocks(message.get("content", []))
    return [block["cache_control"] for block in blocks if "cache_control" in block]
