"""Bodies of the Messages API, bodies of no API, and a model over a transport that is a list."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.fakes import HandClock
from worker.conversation.messages import User
from worker.conversation.model import Request
from worker.models import table
from worker.models.client import HttpModel

KEY = "sk-ant-very-secret-0123456789"
ASK = Request(system="S", tools=(), messages=(User("event"),))
USAGE = {"input_tokens": 10, "output_tokens": 5}
NO_ANSWERS = (b"", b"null", b"[]", b"{}", b"<html></html>", b"\xff\xfe")
"""What no provider answers."""


def message(*blocks: Any, stop: Any = "end_turn", usage: Any = USAGE, **fields: Any) -> bytes:
    """An answer with these content blocks."""
    body = {"type": "message", "content": blocks, "stop_reason": stop, "usage": usage, **fields}
    return json.dumps(body).encode()


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def use(call_id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {"at": "a"}, **fields}


def error(kind: str, words: str, code: str = "") -> bytes:
    """An error body."""
    found: dict[str, Any] = {"type": kind, "message": words}
    if code:
        found["details"] = {"error_code": code}
    return json.dumps({"type": "error", "error": found}).encode()


Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Listed(httpx.BaseTransport):
    """Answers from a list, the last one for ever; keeps every request."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        step = self.steps[min(len(self.requests), len(self.steps) - 1)]
        self.requests.append(request)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, httpx.Response) else step(request)


def fails(status: int, body: bytes = b"", **headers: str) -> Step:
    """An answer that can be given again and again."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(status, headers=names, content=body)


def good(words: str = "done") -> Step:
    """A plain answer."""
    return fails(200, message(text(words)))


def model(*steps: Step, clock: HandClock | None = None, **options: Any) -> tuple[HttpModel, Listed]:
    """A model with jitter 0 whose provider answers `steps`."""
    transport = Listed(steps)
    spec = options.pop("spec", "anthropic/claude-sonnet-5-5")
    made = table.build_model(
        spec,
        options.pop("base_url", ""),
        options.pop("key", KEY),
        clock=clock or HandClock(),
        transport=transport,
        jitter=lambda: 0.0,
        **options,
    )
    return made, transport
