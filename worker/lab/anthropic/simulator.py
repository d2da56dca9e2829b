"""The simulated API on a loopback port."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from worker.lab.anthropic import checks, protocol
from worker.lab.anthropic.protocol import (
    InputTokens,
    Json,
    PrefixCache,
    Refused,
    encode_compact,
    estimate_tokens,
    list_blocks,
    make_invalid,
    read_request,
    remove_mark,
    sign_thinking,
)
from worker.lab.loopback import ModelApi
from worker.lab.script import Answer, Call, Empty, Refuse, Say, Script, Think, Truncated


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
            body = self.read_body(request, raw)
            try:
                self.check_body(body)
            except (AttributeError, KeyError, TypeError) as error:
                raise make_invalid(f"Input has the wrong shape: {error!r}") from error
            if spoiled := await self.spoil():
                return spoiled
            answer = self._answer(body)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url.path}: {refused}")
            return make_response(refused.body(f"req_{len(self.raw):06}"), refused.status)
        self.answers.append(answer)
        return make_response(answer, 200)

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
        protocol.check_thinking(body)

    def _answer(self, body: Json) -> Json:
        asked = read_request(body)
        # What must not change within a session.
        parts = {"tools": body.get("tools", []), "system": list_blocks(body.get("system", []))}
        frame = {
            name: encode_compact([remove_mark(each) for each in part])
            for name, part in parts.items()
        }
        self._watch_frame(asked.first, frame)
        billed = self._cache.account_body(body)
        if billed.total > self._window:
            raise make_invalid(
                f"prompt is too long: {billed.total} tokens > {self._window} maximum"
            )
        try:
            return make_message(self._script(asked), body, billed)
        except LookupError as error:
            raise make_invalid(f"the script has no answer: {error}") from error


def make_response(content: Any, status: int) -> Response:
    """Make a response of JSON."""
    return Response(json.dumps(content), status, media_type="application/json")


def make_message(answer: Answer, body: Mapping[str, Any], billed: InputTokens) -> Json:
    """Make the answer to a valid request."""
    seed = hashlib.sha256(encode_compact(body)).hexdigest()
    content, stop, details = _make_content(answer, body, seed)
    return {
        "id": f"msg_{seed[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": details,
        "usage": _make_usage(content, billed),
    }


def _make_content(
    answer: Answer, body: Mapping[str, Any], seed: str
) -> tuple[list[Json], str, Json | None]:
    match answer:
        case Say(text):
            return _make_text(text), "end_turn", None
        case Call(calls, text):
            return _make_text(text) + _make_calls(calls, seed), "tool_use", None
        case Truncated(text, calls):
            return _make_text(text) + _make_calls(calls, seed), "max_tokens", None
        case Refuse(explanation, category):
            details = {"type": "refusal", "category": category, "explanation": explanation}
            return [], "refusal", details
        case Empty():
            return [], "end_turn", None
        case Think(inner, thinking):
            content, stop, details_ = _make_content(inner, body, seed)
            block = {"type": "thinking", "thinking": thinking, "signature": sign_thinking(body)}
            return [block, *content], stop, details_


def _make_text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []


def _make_calls(calls: Sequence[tuple[str, Mapping[str, Any]]], seed: str) -> list[Json]:
    return [
        {"type": "tool_use", "id": f"toolu_{seed[:20]}{number:02}", "name": name, "input": dict(i)}
        for number, (name, i) in enumerate(calls)
    ]


def _make_usage(content: Sequence[Json], billed: InputTokens) -> Json:
    thinking = sum(len(block.get("thinking", "")) for block in content)
    return {
        "input_tokens": billed.uncached_tokens,
        "cache_read_input_tokens": billed.read_tokens,
        "cache_creation_input_tokens": billed.written_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billed.written_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": estimate_tokens(len(encode_compact(list(content)))),
        "output_tokens_details": {"thinking_tokens": estimate_tokens(thinking)},
        "service_tier": "standard",
    }
