"""The server: the simulated API on a loopback port, with a request log and faults."""

import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from worker.demo.anthropic import binding, checks, vertex
from worker.demo.anthropic.answers import message
from worker.demo.anthropic.cache import PrefixCache
from worker.demo.anthropic.protocol import Json, Refused, bare, blocks, compact, invalid
from worker.demo.anthropic.reading import read
from worker.demo.script import Script

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(frozen=True, slots=True)
class _Fault:
    """What spoils an answer. Status 0 cuts the connection in the middle of it."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class AnthropicSim:
    """A running Messages API that answers from a script.

        with AnthropicSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)

    `requests` are the parsed bodies of all attempts, `raw` the same as bytes, `answers` what was
    answered, `unexpected` what the API would have refused and what broke the cached prefix.
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
        self.url = ""
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.answers: list[Json] = []
        self.unexpected: list[str] = []
        self.revoked: set[str] = set()
        self._script = script
        self._key = key
        self._think = think
        self._window = window
        self._cache = cache or PrefixCache()
        self._prefixes: dict[str, tuple[bytes, bytes]] = {}
        self._faults: deque[_Fault] = deque()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

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
        raw = compact(body) if isinstance(body, dict) else body
        self._faults.extend([_Fault(status, raw or _error(status), headers or {})] * times)

    def cut_next(self, times: int = 1) -> None:
        """Close the connection in the middle of the next `times` answers."""
        self._faults.extend([_Fault(0)] * times)

    # ------------------------------------------------------------------------------------ serving

    def __enter__(self) -> "AnthropicSim":
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        routes = [Route("/{path:path}", self._endpoint, methods=_METHODS)]
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=_serve, args=(server, listener), name="anthropic-sim", daemon=True
        )
        self._thread.start()
        self._await_start(server, self._thread, time.monotonic() + 10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join(timeout=10)

    @staticmethod
    def _await_start(server: uvicorn.Server, thread: threading.Thread, deadline: float) -> None:
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise RuntimeError("the Anthropic simulator did not start")
            time.sleep(0.005)

    # ----------------------------------------------------------------------------------- answering

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = self._admitted(request, raw)
            if self._think:
                await asyncio.sleep(self._think)
            if self._faults:
                return _spoiled(self._faults.popleft())
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
        self._watch_prefix(asked.first, body)
        billed = self._cache.bill(body)
        if billed.total > self._window:
            raise invalid(f"prompt is too long: {billed.total} tokens > {self._window} maximum")
        try:
            return message(self._script(asked), body, billed)
        except LookupError as error:
            raise invalid(f"the script has no answer: {error}") from error

    def _watch_prefix(self, conversation: str, body: Json) -> None:
        """A changed tool or system text throws the cached prefix away: never within a session."""
        tools = compact([bare(tool) for tool in body.get("tools", [])])
        system = compact([bare(block) for block in blocks(body.get("system", []))])
        before = self._prefixes.setdefault(conversation, (tools, system))
        for name, old, new in zip(("tools", "system"), before, (tools, system), strict=True):
            if old != new:
                self.unexpected.append(f"{name} changed within the conversation")
        self._prefixes[conversation] = (tools, system)


def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    with listener:
        server.run(sockets=[listener])


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


def _spoiled(fault: _Fault) -> Response:
    if not fault.status:
        return _Cut()
    return Response(fault.body, fault.status, dict(fault.headers), media_type="application/json")


class _Cut(Response):
    """An answer that breaks off in its body: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        part = b'{"id":"msg_1","type":"message","content":['
        await send({"type": "http.response.body", "body": part, "more_body": True})
