"""What the Responses API refuses, in its own words."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.simulators.openai import protocol, sealed
from tests.simulators.openai.protocol import Json, Refused, invalid, known

MAX_TOKENS = 128_000
REASONED = "r"
"""How the ids of items begin, after their kind, that were written together with reasoning."""

_TOP = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
    *("max_output_tokens", "max_tool_calls", "reasoning", "store", "include", "truncation"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "metadata", "text"),
    *("previous_response_id", "safety_identifier", "service_tier", "stream", "temperature"),
    *("top_p", "top_logprobs", "user", "background", "conversation", "prompt"),
}
_INCLUDABLE = {"reasoning.encrypted_content", "message.output_text.logprobs"}
# What a generation refuses: https://developers.openai.com/api/docs/models.
_REFUSED = (
    (re.compile(r"gpt-(?:6-astra|6\.1-sol|6\.2-)"), {"none", "minimal"}),
    (re.compile(r"gpt-(?:6|5\.6)"), {"minimal"}),
    (re.compile(r"gpt-5\.[45]"), {"minimal", "max"}),
)
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
_TOOL = ("type", "name", "description", "parameters", "strict")
_STATUS = {"in_progress", "completed", "incomplete"}
_ROLES = {"user", "assistant", "system", "developer"}


def check_body(body: Json) -> None:
    """Every rule of the body. Raises Refused for the first that is broken."""
    known("", body, _TOP, ("model", "input"))
    _check_head(body)
    _check_tools(body)
    given = body["input"]
    if isinstance(given, str):
        return
    for number, item in enumerate(protocol.items("input", given)):
        _check_item(f"input[{number}]", item)
    _check_pairs(given)
    _check_reasoning(given)


def _check_head(body: Json) -> None:
    model = protocol.text("model", body["model"])
    if not model.startswith("gpt-"):
        told = f"The requested model '{model}' does not exist."
        raise Refused(400, told, code="model_not_found", param="model")
    if body.get("stream") or body.get("background") or body.get("store") is not False:
        raise invalid("only plain answers that are not stored are simulated", "store")
    if "max_output_tokens" in body:
        protocol.limit("max_output_tokens", body["max_output_tokens"], MAX_TOKENS)
    if "instructions" in body:
        protocol.text("instructions", body["instructions"])
    if len(protocol.text("prompt_cache_key", body.get("prompt_cache_key", ""))) > 64:
        raise invalid("Invalid 'prompt_cache_key': string too long.", "prompt_cache_key")
    for number, name in enumerate(body.get("include", ())):
        if name not in _INCLUDABLE:
            raise protocol.wrong_value(f"include[{number}]", name, _INCLUDABLE)
    reasoning = known("reasoning", body.get("reasoning", {}), ("effort", "summary"), ())
    if reasoning.get("effort", "low") not in _EFFORTS:
        raise protocol.wrong_value("reasoning.effort", reasoning["effort"], _EFFORTS)
    refused = next((efforts for models, efforts in _REFUSED if models.match(model)), set[str]())
    if reasoning.get("effort") in refused:
        raise protocol.wrong_value("reasoning.effort", reasoning["effort"], _EFFORTS - refused)


def _check_tools(body: Json) -> None:
    tools = body.get("tools", [])
    for number, tool in enumerate(tools):
        path = f"tools[{number}]"
        known(path, tool, _TOOL, ("type", "name", "parameters"))
        if tool["type"] != "function":
            raise protocol.wrong_value(f"{path}.type", tool["type"], {"function"})
        name = protocol.tool_name(f"{path}.name", tool["name"])
        _check_schema(f"{path}.parameters", name, tool)
    if "tool_choice" in body:
        protocol.choice(body["tool_choice"], tools)


def _check_schema(path: str, name: str, tool: Json) -> None:
    """Strict unless said otherwise: then every property is required, and no other taken."""
    schema = tool["parameters"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        told = "schema must be a JSON Schema of 'type: \"object\"'."
    elif tool.get("strict", True) and schema.get("additionalProperties") is not False:
        told = "In context=(), 'additionalProperties' is required to be supplied and to be false."
    elif tool.get("strict", True) and {*schema.get("properties", ())} - {
        *schema.get("required", ())
    }:
        told = "In context=(), 'required' is required to include every key in properties."
    else:
        return
    told = f"Invalid schema for function '{name}': {told}"
    raise invalid(told, path, "invalid_function_parameters")


def _check_item(path: str, item: Any) -> None:
    kind = item.get("type", "message") if isinstance(item, dict) else item
    check = _ITEMS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise protocol.wrong_value(f"{path}.type", kind, _ITEMS)
    check(path, item)
    if item.get("status", "completed") not in _STATUS:
        raise protocol.wrong_value(f"{path}.status", item["status"], _STATUS)


def _check_message(path: str, item: Json) -> None:
    ours = ("type", "role", "content", "status", "id")
    known(path, item, (*ours, "phase"), ("role", "content"))
    if item["role"] not in _ROLES:
        raise protocol.wrong_value(f"{path}.role", item["role"], _ROLES)
    _check_id(path, item, "msg")
    if isinstance(item["content"], str):
        return
    by_model = item["role"] == "assistant"
    kinds = {"output_text", "refusal"} if by_model else {"input_text"}
    for number, part in enumerate(protocol.items(f"{path}.content", item["content"])):
        if part.get("type") not in kinds:
            raise protocol.wrong_value(f"{path}.content[{number}].type", part.get("type"), kinds)
        field = "refusal" if part["type"] == "refusal" else "text"
        allowed = ("type", field, "annotations", "logprobs")
        known(f"{path}.content[{number}]", part, allowed, (field,))


def _check_call(path: str, item: Json) -> None:
    required = ("type", "call_id", "name", "arguments")
    known(path, item, (*required, "id", "status"), required)
    protocol.call_id(f"{path}.call_id", item["call_id"], 64)
    protocol.tool_name(f"{path}.name", item["name"])
    protocol.text(f"{path}.arguments", item["arguments"])
    _check_id(path, item, "fc")


def _check_output(path: str, item: Json) -> None:
    required = ("type", "call_id", "output")
    known(path, item, (*required, "id", "status"), required)
    protocol.call_id(f"{path}.call_id", item["call_id"], 64)
    protocol.text(f"{path}.output", item["output"])


def _check_reasoning_item(path: str, item: Json) -> None:
    required = ("type", "id", "summary")
    known(path, item, (*required, "encrypted_content", "content", "status"), required)
    _check_id(path, item, "rs")
    sealed.check(item)


def _check_id(path: str, item: Json, begins: str) -> None:
    if not str(item.get("id", begins)).startswith(begins):
        raise invalid(
            f"Invalid '{path}.id': '{item['id']}'. Expected an ID that begins with '{begins}'.",
            f"{path}.id",
            "invalid_value",
        )


_ITEMS: Mapping[str, Callable[[str, Json], None]] = {
    "message": _check_message,
    "function_call": _check_call,
    "function_call_output": _check_output,
    "reasoning": _check_reasoning_item,
}


def _check_pairs(items: Sequence[Json]) -> None:
    """Each call is answered exactly once, before anybody says or thinks anything else."""
    open_ids: list[str] = []
    answering = False
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            answering = True
            if item["call_id"] not in open_ids:
                raise invalid(
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                    "input",
                )
            open_ids.remove(item["call_id"])
            continue
        if answering or item.get("role") == "user":
            _all_answered(open_ids)
            answering = False
        if kind == "function_call":
            if item["call_id"] in open_ids:
                raise invalid(f"Duplicate function call with call_id {item['call_id']}.", "input")
            open_ids.append(item["call_id"])
    _all_answered(open_ids)


def _all_answered(open_ids: Sequence[str]) -> None:
    if open_ids:
        raise invalid(f"No tool output found for function call {open_ids[0]}.", "input")


def _check_reasoning(items: Sequence[Json]) -> None:
    """Reasoning and what was written right after it belong together."""
    seen: set[str] = set()
    for item, after in zip(items, [*items[1:], {}], strict=True):
        kind, item_id = item.get("type", "message"), str(item.get("id", ""))
        if kind == "reasoning":
            seen.add(item_id.partition("_")[2])
            follows = after.get("type", "message") in {"message", "function_call", "reasoning"}
            if not after or not follows or after.get("role") == "user":
                raise invalid(
                    f"Item '{item_id}' of type 'reasoning' was provided without its required "
                    "following item.",
                    "input",
                )
            continue
        made = item_id.partition("_")[2][:33]
        if made.startswith(REASONED) and made not in seen:
            raise invalid(
                f"Item '{item_id}' of type '{kind}' was provided without its required "
                f"'reasoning' item: 'rs_{made}'.",
                "input",
            )
