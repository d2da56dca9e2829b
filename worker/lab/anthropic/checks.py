"""Refuses what the Messages API refuses, with the same messages."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from worker.lab.anthropic.protocol import Json, Refused, list_blocks, make_invalid, merge_messages

VERSIONS = frozenset({"2023-06-01", "2026-10-21"})
MAX_MARKS = 4
_MARKS = ({"type": "ephemeral"}, *({"type": "ephemeral", "ttl": ttl} for ttl in ("5m", "1h")))
MAX_TOKENS = 128_000
PLAIN_LIMIT = 21_333
"""The API requires streaming for more output tokens than this."""

_TOP = {
    *("model", "max_tokens", "system", "messages", "tools", "tool_choice", "thinking"),
    *("output_config", "cache_control", "stop_sequences", "metadata", "service_tier"),
    *("inference_geo", "speed", "stream", "diagnostics"),
}
_TOOL = {
    *("name", "description", "input_schema", "strict", "cache_control", "input_examples"),
    *("defer_loading", "type"),
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BLOCKS: Mapping[str, Mapping[str, Collection[str]]] = {
    "user": {
        "text": ("text", "cache_control", "citations"),
        "tool_result": ("tool_use_id", "content", "is_error", "cache_control"),
    },
    "assistant": {
        "text": ("text", "cache_control", "citations"),
        "thinking": ("thinking", "signature"),
        "redacted_thinking": ("data",),
        "tool_use": ("id", "name", "input", "cache_control", "caller"),
    },
}
_REQUIRED = {
    "text": ("text",),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
}
_SHAPES = {
    "text": str,
    "tool_use_id": str,
    "id": str,
    "name": str,
    "input": dict,
    "is_error": bool,
    "thinking": str,
    "signature": str,
    "data": str,
}
# Models that cannot be forced to call a tool.
_UNFORCED = re.compile(r"(opus-5-5|sonnet-5-5|fable-5-1|mythos-5-1)")


def check_headers(headers: Mapping[str, str], key: str) -> None:
    """Check for exactly one credential, the right key, a known version, and JSON content."""
    check_credential(headers, key)
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise make_invalid("content-type: application/json is required")


def check_credential(headers: Mapping[str, str], key: str) -> None:
    """Check for exactly one credential, the right key, and a known version."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token if scheme.lower() == "bearer" else ""
    given = [value for value in (headers.get("x-api-key"), bearer) if value]
    if len(given) != 1:
        raise Refused(401, "authentication_error", "x-api-key header is required")
    if key and given[0] != key:
        raise Refused(401, "authentication_error", "invalid x-api-key")
    if "anthropic-version" not in headers:
        raise make_invalid("anthropic-version: header is required")
    if headers["anthropic-version"] not in VERSIONS:
        raise make_invalid(
            f'anthropic-version: "{headers["anthropic-version"]}" is not a valid version'
        )


def parse_body(raw: bytes) -> Json:
    """Parse the body as JSON, without Python's extensions."""

    def refuse_constant(name: str) -> None:
        raise ValueError(f"unexpected {name}")

    try:
        body = json.loads(raw.decode(), parse_constant=refuse_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise make_invalid(f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise make_invalid("Input should be a valid dictionary")
    return body


def check_body(body: Json) -> None:
    """Check every rule of the body. Raises Refused for the first broken one."""
    _check_keys("", body, _TOP)
    _check_head(body)
    _check_tools(body)
    _check_messages(body["messages"])
    _check_pairs(body["messages"])
    _check_marks(body)


def _check_keys(path: str, value: Mapping[str, Any], allowed: Collection[str]) -> None:
    for name in value:
        if name not in allowed:
            raise make_invalid(f"{path}{name}: Extra inputs are not permitted")


def _check_head(body: Json) -> None:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise make_invalid(f"{name}: Field required")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or not 1 <= limit <= MAX_TOKENS:
        raise make_invalid(f"max_tokens: {limit} is not from 1 to {MAX_TOKENS}")
    if body.get("stream") or limit > PLAIN_LIMIT:
        raise make_invalid(f"stream: only plain answers up to {PLAIN_LIMIT} tokens are simulated")
    for number, block in enumerate(list_blocks(body.get("system", []))):
        _check_keys(f"system.{number}.", block, ("type", "text", "cache_control"))
        if block.get("type") != "text" or not block.get("text"):
            raise make_invalid("system: text content blocks must be non-empty")


def _check_tools(body: Json) -> None:
    tools = body.get("tools", [])
    for number, tool in enumerate(tools):
        path = f"tools.{number}.custom."
        _check_keys(path, tool, _TOOL)
        if not _TOOL_NAME.fullmatch(str(tool.get("name"))):
            raise make_invalid(f"{path}name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise make_invalid(f"{path}input_schema.type: Input should be 'object'")
        if {"oneOf", "anyOf", "allOf"} & schema.keys():
            raise make_invalid(
                f"{path}input_schema: oneOf, anyOf, allOf are not supported at the root"
            )
    if len({tool["name"] for tool in tools}) < len(tools):
        raise make_invalid("tools: Tool names must be unique.")
    if "tool_choice" in body:
        _check_choice(body["tool_choice"], tools, str(body["model"]))


def _check_choice(choice: Any, tools: Sequence[Json], model: str) -> None:
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind not in {"auto", "any", "tool", "none"}:
        raise make_invalid(
            f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the "
            "expected tags: 'auto', 'any', 'tool', 'none'"
        )
    if not tools:
        raise make_invalid("tool_choice: tool_choice may only be specified while providing tools")
    if kind in {"any", "tool"} and _UNFORCED.search(model):
        raise make_invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    allowed = {"none": ("type",), "tool": ("type", "name", "disable_parallel_tool_use")}
    _check_keys("tool_choice.", choice, allowed.get(kind, ("type", "disable_parallel_tool_use")))


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise make_invalid("messages: at least one message is required")
    for number, message in enumerate(messages):
        _check_keys(f"messages.{number}.", message, ("role", "content"))
        if message.get("role") not in _BLOCKS:
            raise make_invalid(
                f"messages.{number}.role: role {message.get('role')!r} is not supported"
            )
        path, content = f"messages.{number}", message.get("content")
        if not isinstance(content, str | list) or not content:
            raise make_invalid(f"{path}: messages must have non-empty content")
        for at, block in enumerate(list_blocks(content)):
            _check_block(f"{path}.content.{at}", message["role"], block)
        last = list_blocks(content)[-1]["type"]
        if message["role"] == "assistant" and last in {"thinking", "redacted_thinking"}:
            raise make_invalid(
                f"{path}: The final block in an assistant message cannot be `{last}`."
            )
    if messages[0]["role"] != "user":
        raise make_invalid('messages: first message must use the "user" role')
    if messages[-1]["role"] != "user":
        raise make_invalid(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )


def _check_block(path: str, role: str, block: Any) -> None:
    kind = str(block.get("type")) if isinstance(block, dict) else ""
    if kind not in _BLOCKS[role]:
        raise make_invalid(f"{path}: Input tag '{kind}' is not expected in a {role} message")
    _check_keys(f"{path}.{kind}.", block, ("type", *_BLOCKS[role][kind]))
    for name in _REQUIRED[kind]:
        if name not in block:
            raise make_invalid(f"{path}.{kind}.{name}: Field required")
    for name, shape in _SHAPES.items():
        if name in block and not isinstance(block[name], shape):
            raise make_invalid(f"{path}.{kind}.{name}: Input should be a valid {shape.__name__}")
    _check_values(path, kind, block)


def _check_values(path: str, kind: str, block: Json) -> None:
    if kind == "text" and not block["text"].strip():
        raise make_invalid("messages: text content blocks must be non-empty")
    for name in ("id", "tool_use_id"):
        if name in block and not _ID.fullmatch(block[name]):
            raise make_invalid(
                f"{path}.{kind}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'"
            )
    if kind == "tool_use" and not _TOOL_NAME.fullmatch(block["name"]):
        raise make_invalid(
            f"{path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        )
    if kind == "tool_result":
        for number, inner in enumerate(list_blocks(block.get("content", []))):
            if inner.get("type") != "text":
                raise make_invalid(f"{path}.tool_result.content.{number}: only text is simulated")


def _check_pairs(messages: Sequence[Json]) -> None:
    """Check that each call is answered in the next message, before any text, exactly once."""
    open_ids: list[str] = []
    seen_ids: set[str] = set()
    for number, (role, content) in enumerate(merge_messages(messages)):
        if role == "user":
            _check_results(f"messages.{number}", content, open_ids, number - 1)
        open_ids = [block["id"] for block in content if block["type"] == "tool_use"]
        if len(seen_ids.union(open_ids)) < len(seen_ids) + len(open_ids):
            raise make_invalid(f"messages.{number}: `tool_use` ids must be unique")
        seen_ids.update(open_ids)


def _check_results(path: str, content: Sequence[Json], open_ids: list[str], asked: int) -> None:
    answered: list[str] = []
    leading = True
    for block in content:
        leading = leading and block["type"] == "tool_result"
        if block["type"] == "tool_result" and (leading or not open_ids):
            answered.append(block["tool_use_id"])
    missing = [call_id for call_id in open_ids if call_id not in answered]
    if missing:
        raise make_invalid(
            f"messages.{asked}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message."
        )
    for call_id in answered:
        if call_id not in open_ids:
            raise make_invalid(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous "
                "message."
            )
    total = sum(block["type"] == "tool_result" for block in content)
    if total > len(open_ids):
        raise make_invalid(f"{path}: each tool_use must have a single result")


def _check_marks(body: Json) -> None:
    blocks = [*body.get("tools", []), *list_blocks(body.get("system", []))]
    for message in body["messages"]:
        blocks += list_blocks(message["content"])
    marked = [block["cache_control"] for block in blocks if "cache_control" in block]
    for mark in marked:
        if mark not in _MARKS:
            raise make_invalid(f"cache_control: {json.dumps(mark)} is not a valid cache control")
    if len(marked) > MAX_MARKS:
        raise make_invalid(
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marked)}."
        )
