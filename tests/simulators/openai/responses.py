"""The Responses API: reading a body, and a script's answer as the API would send it."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.openai import sealed
from tests.simulators.openai.cache import Counted, PrefixCache, tokens_of
from tests.simulators.openai.protocol import Json, compact
from tests.simulators.openai.reading import Sides, read
from tests.simulators.openai.responses_checks import REASONED, check_body
from tests.simulators.openai.simulator import Simulator
from worker.lab.script import Answer, Asked, Call, Refuse, Say, Script, Think, Truncated

CREATED = 1_795_000_000.0
_WRITES_COST = re.compile(r"gpt-(5\.[6-9]|[6-9])")


class ResponsesSim(Simulator):
    """A running Responses API that answers from a script.

    with ResponsesSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
        model = table.build("openai/gpt-6-sol", sim.url, "any", clock=clock)
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
        wire = _Responses()
        super().__init__(wire, script, key=key, think=think, window=window, cache=cache)


class _Responses:
    """Satisfies `simulator.Wire`."""

    path = "/v1/responses"

    def check(self, body: Json) -> None:
        check_body(body)

    def frame(self, body: Json) -> Mapping[str, str]:
        names = ("tools", "instructions", "prompt_cache_key")
        return {name: compact(body.get(name, "")) for name in names}

    def parts(self, body: Json) -> tuple[str, Sequence[str]]:
        prefix = [body.get("instructions", ""), *body.get("tools", ()), *_items(body)]
        route = f"{body['model']} {body.get('prompt_cache_key')}"
        return route, [compact(part) for part in prefix]

    def read(self, body: Json) -> Asked:
        sides = Sides()
        for item in _items(body):
            match item.get("type", "message"):
                case "message":
                    sides.said(_text(item["content"]), ours=item["role"] == "user")
                case "function_call":
                    sides.called(item["call_id"], item["name"])
                case "function_call_output":
                    sides.answered(item["call_id"], item["output"])
        allowed = body.get("tool_choice") != "none"
        return read(sides.found, tools_allowed=allowed, body=body)

    def answer(self, answer: Answer, body: Json, counted: Counted) -> Json:
        seed = hashlib.sha256(compact(body).encode()).hexdigest()[:32]
        status, details = "completed", None
        if isinstance(answer.answer if isinstance(answer, Think) else answer, Truncated):
            status, details = "incomplete", {"reason": "max_output_tokens"}
        output = _output(answer, body, seed)
        return {
            **_echo(body),
            "id": f"resp_{seed}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": details,
            "output": output,
            "input_transformations": sealed.withheld(str(body["model"]), _items(body)),
            "usage": _usage(output, body, counted),
        }


def _items(body: Json) -> list[Json]:
    given = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", part.get("refusal", ""))) for part in content)


def _output(answer: Answer, body: Json, seed: str) -> list[Json]:
    match answer:
        case Think(inner, thinking):
            made = f"{REASONED}{seed}"
            return [_reasoning(thinking, body, made), *_said(inner, made)]
        case _:
            return _said(answer, seed)


def _reasoning(thinking: str, body: Json, made: str) -> Json:
    item_id = f"rs_{made}"
    asked = "reasoning.encrypted_content" in body.get("include", ())
    summary = [{"type": "summary_text", "text": thinking}] if thinking else []
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": summary,
        "encrypted_content": sealed.seal(str(body["model"]), item_id) if asked else None,
    }


def _said(answer: Answer, made: str) -> list[Json]:
    match answer:
        case Say(text):
            return [_message(_part(text), made, "final_answer")]
        case Call(calls, text):
            spoken = [_message(_part(text), made, "commentary")] if text else []
            return spoken + _calls(calls, made)
        case Truncated(text, calls):
            return _cut(([_message(_part(text), made, None)] if text else []) + _calls(calls, made))
        case Refuse(explanation):
            refusal = {"type": "refusal", "refusal": explanation}
            return [_message(refusal, made, "final_answer")]
        case _:
            return []


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(part: Json, made: str, phase: str | None) -> Json:
    return {
        "id": f"msg_{made}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "phase": phase,
        "content": [part],
    }


def _calls(calls: Sequence[tuple[str, Mapping[str, Any]]], made: str) -> list[Json]:
    return [
        {
            "id": f"fc_{made}{number:02}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{made[-22:]}{number:02}",
            "name": name,
            "arguments": compact(dict(arguments)),
        }
        for number, (name, arguments) in enumerate(calls)
    ]


def _cut(items: list[Json]) -> list[Json]:
    if items:
        items[-1]["status"] = "incomplete"
        if "arguments" in items[-1]:
            items[-1]["arguments"] = items[-1]["arguments"][:-1]
    return items


def _echo(body: Json) -> Json:
    """The fields of the request that an answer repeats."""
    return {
        "model": body["model"],
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": {},
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": body.get("reasoning", {}).get("effort", "medium"), "summary": None},
        "service_tier": "default",
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
    }


def _usage(output: Sequence[Json], body: Json, counted: Counted) -> Json:
    thinking = [item for item in output if item["type"] == "reasoning"]
    answered = tokens_of(compact(list(output))) if output else 0
    written = counted.written if _WRITES_COST.match(str(body["model"])) else 0
    return {
        "input_tokens": counted.total,
        "input_tokens_details": {"cached_tokens": counted.read, "cache_write_tokens": written},
        "output_tokens": answered,
        "output_tokens_details": {
            "reasoning_tokens": tokens_of(compact(thinking)) * bool(thinking)
        },
        "total_tokens": counted.total + answered,
    }
