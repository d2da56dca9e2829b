"""Chat Completions: reading a body, and a script's answer as the API would send it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from tests.simulators.openai.cache import Counted, PrefixCache, tokens_of
from tests.simulators.openai.chat_checks import Server
from tests.simulators.openai.protocol import Json, Refused, compact
from tests.simulators.openai.reading import Sides, read
from tests.simulators.openai.servers import Like, Worded
from tests.simulators.openai.simulator import Simulator
from worker.lab.script import Answer, Asked, Call, Empty, Refuse, Say, Script, Think, Truncated

CREATED = 1_795_000_000
STREAM = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":'
    b'{"content":"Done."},"finish_reason":null}]}\n\ndata: [DONE]\n\n'
)
"""An answer as a stream of events."""


class ChatSim(Simulator):
    """A running Chat Completions API that answers from a script.

        with ChatSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("openai-compatible/qwen3", sim.url, "", clock=clock)

    It is a strict compatible server, or OpenAI's own with `own`; `like` says which server, and how
    that deviates. `reasoning` names the field in which thinking is sent and wanted back; without it
    thinking is sent as `reasoning_content` and refused in requests.
    """

    def __init__(
        self,
        script: Script,
        *,
        own: bool = False,
        reasoning: str = "",
        takes_tools: bool = True,
        like: Like | None = None,
        key: str = "",
        think: float = 0.0,
        window: int = 1_000_000,
        cache: PrefixCache | None = None,
    ) -> None:
        self._like = like
        server = Server(own, reasoning, takes_tools)
        if like:
            server = replace(server, limit=like.limit, gives=like.gives, longest_id=64)
        wire = _Chat(server, like)
        super().__init__(wire, script, key=key, think=think, window=window, cache=cache)

    async def spoil(self) -> Response | None:
        """Answer with a stream where the server does so unless told not to."""
        if self._like and self._like.streams and self.requests[-1].get("stream") is not False:
            return Response(STREAM, media_type="text/event-stream")
        return await super().spoil()


class _Chat:
    """Satisfies `simulator.Wire`."""

    path = "/v1/chat/completions"

    def __init__(self, server: Server, like: Like | None) -> None:
        self._server, self._like = server, like

    def check(self, body: Json) -> None:
        try:
            if self._like:
                self._like.check(body)
            self._server.check(body)
        except Refused as refused:
            if self._like is None:
                raise
            raise Worded(refused, self._like.reword(refused)) from refused

    def frame(self, body: Json) -> Mapping[str, str]:
        system = [each for each in body["messages"] if each["role"] == "system"]
        return {"tools": compact(body.get("tools", [])), "system": compact(system)}

    def parts(self, body: Json) -> tuple[str, Sequence[str]]:
        prefix = [*body.get("tools", ()), *body["messages"]]
        route = f"{body['model']} {body.get('prompt_cache_key')}"
        return route, [compact(part) for part in prefix]

    def read(self, body: Json) -> Asked:
        sides = Sides()
        for message in body["messages"]:
            if message["role"] == "tool":
                sides.answered(message["tool_call_id"], message["content"])
            elif message["role"] != "system":
                sides.said(message.get("content") or "", ours=message["role"] == "user")
            for call in message.get("tool_calls", ()):
                sides.called(call["id"], call["function"]["name"])
        allowed = body.get("tool_choice") != "none"
        return read(sides.found, tools_allowed=allowed, body=body)

    def answer(self, answer: Answer, body: Json, counted: Counted) -> Json:
        seed = hashlib.sha256(compact(body).encode()).hexdigest()
        if body.get("tool_choice") == "required" and isinstance(answer, Say):
            raise ValueError("a server that obeys `tool_choice: required` answers by a call")
        message, reason = self._message(answer, seed)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        made = {
            "id": f"chatcmpl-{seed[:24]}",
            "object": "chat.completion",
            "created": CREATED,
            "model": body["model"],
            "choices": [choice],
            "usage": self._usage(message, counted),
            "service_tier": "default",
            "system_fingerprint": None,
        }
        if self._like:
            self._like.send(made, body)
        return made

    def _message(self, answer: Answer, seed: str) -> tuple[Json, str]:
        message: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
        match answer:
            case Say(text):
                return message | {"content": text}, "stop"
            case Call(calls, text):
                made = _calls(calls, seed, self._like.make_id if self._like else _make_id)
                return message | {"content": text or None, "tool_calls": made}, "tool_calls"
            case Truncated(text, calls):
                cut = {"tool_calls": _cut(_calls(calls, seed))} if calls else {}
                return message | {"content": text or None} | cut, "length"
            case Refuse(explanation):
                return message | {"refusal": explanation}, "stop"
            case Empty():
                return message | {"content": ""}, "stop"
            case Think(inner, thinking):
                message, reason = self._message(inner, seed)
                field = self._server.reasoning or "reasoning_content"
                thought = {} if self._server.own else {field: thinking or "Let me see."}
                return message | thought, reason

    def _usage(self, message: Json, counted: Counted) -> Json:
        thinking = str(message.get(self._server.reasoning or "reasoning_content", ""))
        output = tokens_of(compact(message))
        return {
            "prompt_tokens": counted.total,
            "completion_tokens": output,
            "total_tokens": counted.total + output,
            "prompt_tokens_details": {"cached_tokens": counted.read},
            "completion_tokens_details": {"reasoning_tokens": tokens_of(thinking)},
        }


def _make_id(seed: str, number: int) -> str:
    return f"call_{seed[:22]}{number:02}"


def _calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    seed: str,
    make_id: Callable[[str, int], Any] = _make_id,
) -> list[Json]:
    return [
        {
            "id": make_id(seed, number),
            "type": "function",
            "function": {"name": name, "arguments": compact(dict(arguments))},
        }
        for number, (name, arguments) in enumerate(calls)
    ]


def _cut(calls: list[Json]) -> list[Json]:
    function = calls[-1]["function"]
    function["arguments"] = function["arguments"][:-1]
    return calls
