"""What Chat Completions refuse, in their own words.

Two servers in one: OpenAI's own, and a compatible one whose chat template is as strict as they
come and that parses every call of the history.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulators.openai import protocol
from tests.simulators.openai.protocol import Json, Refused, invalid, known

MAX_TOKENS = 128_000
_EVERYBODY = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p"),
    *("stop", "seed", "stream", "stream_options", "n", "user", "response_format", "logprobs"),
    *("presence_penalty", "frequency_penalty", "reasoning_effort"),
}
_OWN = {
    *("max_completion_tokens", "store", "metadata", "prompt_cache_key", "prompt_cache_options"),
    *("safety_identifier", "service_tier", "verbosity", "prompt_cache_retention"),
}
_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "system": ("role", "content", "name"),
    "user": ("role", "content", "name"),
    "assistant": ("role", "content", "name", "tool_calls", "refusal"),
    "tool": ("role", "content", "tool_call_id"),
}
# Since gpt-5.4, with tools; then from 6.1 on and for astra not even with effort "none".
_REASONING = re.compile(r"gpt-(5\.[4-9]|[6-9])")
_RESPONSES_ONLY = re.compile(r"gpt-6(\.\d+)?-astra|gpt-6\.[12]-")


@dataclass(frozen=True, slots=True)
class Server:
    """Which server is played. `reasoning` is the field in which it wants reasoning back. Without
    `takes_tools` it serves a model as Ollama does one whose template knows no tools. `limit` is the
    field by which a compatible server takes the answer's limit. `gives` are fields that it adds to
    its calls, and so takes back; `longest_id` is the length of the longest id of a call."""

    own: bool = False
    reasoning: str = ""
    takes_tools: bool = True
    limit: str = "max_tokens"
    gives: tuple[str, ...] = ()
    longest_id: int = 40

    def check(self, body: Json) -> None:
        """Every rule of the body. Raises Refused for the first that is broken."""
        fields = _EVERYBODY | (_OWN if self.own else {self.limit})
        if self.own and "max_tokens" in body:
            raise invalid(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                "max_tokens",
                "unsupported_parameter",
            )
        known("", body, fields, ("model", "messages"))
        for name in ("max_tokens", "max_completion_tokens"):
            if name in body:
                protocol.limit(name, body[name], MAX_TOKENS)
        if body.get("stream") or body.get("n", 1) != 1:
            raise invalid("only one plain answer is simulated", "stream")
        self._check_model(body)
        if not self.takes_tools and ("tools" in body or "tool_choice" in body):
            raise Refused(400, f"{body['model']} does not support tools", kind="api_error")
        _check_tools(body)
        messages = protocol.items("messages", body["messages"])
        for number, message in enumerate(messages):
            self._check_message(f"messages[{number}]", message)
        _check_order(messages)
        if not self.own:
            _check_template(messages)

    def _check_model(self, body: Json) -> None:
        model = protocol.text("model", body["model"])
        if not self.own:
            return
        if not model.startswith("gpt-"):
            told = f"The model `{model}` does not exist or you do not have access to it."
            raise Refused(404, told, code="model_not_found")
        effort = body.get("reasoning_effort")
        if effort == "none" and _RESPONSES_ONLY.match(model):
            raise invalid(
                "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
                "reasoning_effort",
                "unsupported_value",
            )
        if body.get("tools") and effort != "none" and _REASONING.match(model):
            raise invalid(
                f"Function tools with reasoning_effort are not supported for {model} in "
                "/v1/chat/completions. To use function tools, use /v1/responses or set "
                "reasoning_effort to 'none'."
            )

    def _check_message(self, path: str, message: Any) -> None:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _MESSAGES:
            raise protocol.wrong_value(f"{path}.role", role, _MESSAGES)
        extra = (self.reasoning,) if self.reasoning and role == "assistant" else ()
        known(path, message, (*_MESSAGES[role], *extra), ("role",))
        if role == "assistant":
            self._check_assistant(path, message)
            return
        known(path, message, message, ("content",))
        content = protocol.text(f"{path}.content", message["content"])
        if role == "tool":
            known(path, message, message, ("tool_call_id",))
        elif not content.strip() and not self.own:
            raise invalid("Input should be a non-empty string", f"{path}.content")

    def _check_assistant(self, path: str, message: Json) -> None:
        content, calls = message.get("content"), message.get("tool_calls")
        if content is not None:
            protocol.text(f"{path}.content", content)
        elif not self.own or not calls:
            raise invalid(
                f"Invalid value for '{path}.content': expected a string, got null.",
                f"{path}.content",
            )
        if "tool_calls" not in message:
            return
        for number, call in enumerate(protocol.items(f"{path}.tool_calls", calls)):
            self._check_call(f"{path}.tool_calls[{number}]", call)
        if self.reasoning and not message.get(self.reasoning):
            raise invalid(
                f"The `{self.reasoning}` in the thinking mode must be passed back to the API.",
                f"{path}.{self.reasoning}",
            )

    def _check_call(self, path: str, call: Any) -> None:
        fields, inner = ("id", "type", "function"), ("name", "arguments")
        function = known(path, call, (*fields, *self.gives), fields)["function"]
        known(f"{path}.function", function, (*inner, *self.gives), inner)
        if call["type"] != "function":
            raise protocol.wrong_value(f"{path}.type", call["type"], {"function"})
        protocol.call_id(f"{path}.id", call["id"], self.longest_id)
        protocol.tool_name(f"{path}.function.name", function["name"])
        arguments = protocol.text(f"{path}.function.arguments", function["arguments"])
        if not self.own:
            _parse_arguments(arguments)


def _parse_arguments(arguments: str) -> None:
    try:
        parsed = json.loads(arguments or "{}")
    except ValueError as error:
        raise Refused(400, str(error), kind="BadRequestError") from error
    if not isinstance(parsed, dict):
        raise Refused(400, "Can only get item pairs from a mapping.", kind="BadRequestError")


def _check_tools(body: Json) -> None:
    tools = body.get("tools", [])
    if "tools" in body:
        protocol.items("tools", tools)
    for number, tool in enumerate(tools):
        path = f"tools[{number}]"
        function = known(path, tool, ("type", "function"), ("type", "function"))["function"]
        known(
            f"{path}.function",
            function,
            ("name", "description", "parameters", "strict"),
            ("name",),
        )
        protocol.tool_name(f"{path}.function.name", function["name"])
        schema = function.get("parameters", {"type": "object"})
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise invalid(
                f"Invalid schema for function '{function['name']}': schema must be a JSON Schema "
                "of 'type: \"object\"'.",
                f"{path}.function.parameters",
                "invalid_function_parameters",
            )
    if "tool_choice" in body:
        protocol.choice(body["tool_choice"], tools)


def _check_order(messages: Sequence[Json]) -> None:
    """Each call is answered exactly once, right after the message that made it."""
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{number}].role",
                )
            open_ids.remove(message["tool_call_id"])
            continue
        _all_answered(open_ids)
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(open_ids)) < len(open_ids):
            raise invalid("Duplicate value for 'tool_call_id'", f"messages[{number}].tool_calls")
    _all_answered(open_ids)


def _all_answered(open_ids: Sequence[str]) -> None:
    if open_ids:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_ids)}",
            "messages",
        )


def _check_template(messages: Sequence[Json]) -> None:
    """One system text, first; then the sides take turns, and ours is the last."""
    roles = [message["role"] for message in messages]
    if "system" in roles[1:]:
        raise Refused(400, "System message must be at the beginning.", kind="BadRequestError")
    talk = roles[1:] if roles[0] == "system" else roles
    apart = [role for before, role in zip(["", *talk], talk, strict=False) if role == before]
    if talk[:1] != ["user"] or talk[-1] == "assistant" or {"user", "assistant"} & {*apart}:
        raise Refused(
            400,
            "After the optional system message, conversation roles must alternate "
            "user/assistant/user/assistant/...",
            kind="BadRequestError",
        )
