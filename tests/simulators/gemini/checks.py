"""What generateContent refuses, in its own words."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.simulators.gemini.protocol import Json, calls, invalid, responses, signs

MAX_OUTPUT = 65_536
PLAIN_LIMIT = 32_768
"""More output tokens than this are only given to a stream on Vertex AI."""

_TOP = {
    *("systemInstruction", "contents", "tools", "toolConfig", "generationConfig"),
    *("safetySettings", "cachedContent", "continuationToken"),
}
_GENERATION = ("maxOutputTokens", "temperature", "topP", "stopSequences", "thinkingConfig")
_THINKING = ("includeThoughts", "thinkingLevel", "thinkingBudget")
# Levels that a model refuses: https://ai.google.dev/gemini-api/docs/thinking.
_ONLY_THREE = frozenset({"MINIMAL", "XHIGH"})
_LACKING = {
    "gemini-4-argon": _ONLY_THREE,
    "gemini-4-hydrogen": frozenset({"MINIMAL"}),
    "gemini-3.8-flash": _ONLY_THREE,
    "gemini-3.7-flash": _ONLY_THREE,
    "gemini-3.1-pro-preview": _ONLY_THREE,
}
_BUDGETS = {"gemini-2.5-pro": (128, 32_768), "gemini-2.5-flash": (0, 24_576)}
_LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
_MODES = frozenset({"AUTO", "ANY", "NONE", "VALIDATED"})
_DATA = ("text", "functionCall", "functionResponse")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_UNDERSCORE = re.compile(r"_([a-z])")
_OPAQUE = frozenset({"args", "response", "parameters", "parametersJsonSchema", "labels"})
"""Fields that hold JSON of the caller's own."""
_PARAMETER = re.compile(r"[a-zA-Z0-9_]{1,64}")


def parse(raw: bytes) -> Json:
    """The body as JSON, as strict as a server that isn't written in Python."""
    try:
        body = json.loads(raw.decode(), parse_constant=_no_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    if not isinstance(body, dict):
        raise invalid("Invalid JSON payload received. Root element must be a message.")
    camel: Json = _camel(body)
    return camel


def _camel(value: Any) -> Any:
    """Field names in one form: the API takes them as parameters_json_schema, too."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {_UNDERSCORE.sub(lambda found: found[1].upper(), name): name for name in value}
    return {
        name: value[given] if name in _OPAQUE else _camel(value[given])
        for name, given in named.items()
    }


def _no_constant(name: str) -> None:
    raise ValueError(f"unexpected {name}")


def check_body(body: Json, model: str, *, vertex: bool = False) -> None:
    """Every rule of the body but those of signatures. Raises Refused for the first broken one."""
    _known("", body, _TOP | ({"labels"} if vertex else set()))
    _check_system(body.get("systemInstruction"))
    _check_tools(body.get("tools", []))
    _check_config(body.get("toolConfig"), body.get("tools", []))
    _check_generation(body.get("generationConfig", {}), model, vertex=vertex)
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise invalid("* GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        _check_content(f"contents[{number}]", content)
    _check_turns(contents, ids=signs(model))


def _known(path: str, value: Any, allowed: Collection[str]) -> None:
    where = f" at '{path}'" if path else ""
    if not isinstance(value, dict):
        raise invalid(f"Invalid value{where}: an object was expected")
    for name in value:
        if name not in allowed:
            raise invalid(
                f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
            )


def _text(path: str, value: Any) -> None:
    if not isinstance(value, str):
        raise invalid(f"Invalid value at '{path}' (TYPE_STRING), {json.dumps(value)[:100]}")


def _check_system(system: Any) -> None:
    if system is None:
        return
    _known("system_instruction", system, ("role", "parts"))
    if not system.get("parts"):
        raise invalid("* GenerateContentRequest.system_instruction.parts: must not be empty")
    for part in system["parts"]:
        _known("system_instruction.parts", part, ("text",))
        _text("system_instruction.parts.text", part.get("text"))


# ---------------------------------------------------------------------------------------- tools


def _check_tools(tools: Sequence[Any]) -> None:
    names: list[str] = []
    for number, tool in enumerate(tools):
        _known(f"tools[{number}]", tool, ("functionDeclarations",))
        for at, declared in enumerate(tool["functionDeclarations"]):
            path = f"tools[{number}].function_declarations[{at}]"
            _check_declaration(path, declared)
            names.append(declared["name"])
    if len(set(names)) < len(names):
        raise invalid("Duplicate function declaration found")


def _check_declaration(path: str, declared: Any) -> None:
    _known(path, declared, ("name", "description", "parameters", "parametersJsonSchema"))
    _check_name(f"{path}.name", declared.get("name"))
    _text(f"{path}.description", declared.get("description"))
    if "parameters" in declared and "parametersJsonSchema" in declared:
        raise invalid(f"{path}: parameters and parameters_json_schema are mutually exclusive")
    schema = declared.get("parameters", declared.get("parametersJsonSchema"))
    if schema is None:
        return
    if not isinstance(schema, dict) or str(schema.get("type")).lower() != "object":
        raise invalid(f"* {path}.parameters: the root must be of type OBJECT")
    properties = schema.get("properties")
    if not properties:
        raise invalid(f"* {path}.parameters.properties: should be non-empty for OBJECT type")
    for name in properties:
        if not _PARAMETER.fullmatch(name):
            raise invalid(f"* {path}.parameters.properties: Invalid property name {name!r}")
    if "parameters" in declared and {"$ref", "$defs", "additionalProperties"} & schema.keys():
        raise invalid(f"{path}.parameters: Unknown name: Cannot find field.")


def _check_name(path: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(
            f"* {path}: Invalid function name. Must start with a letter or an underscore. Must be "
            "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), "
            "with a maximum length of 128."
        )


def _check_config(config: Any, tools: Sequence[Any]) -> None:
    if config is None:
        return
    _known("tool_config", config, ("functionCallingConfig",))
    calling = config.get("functionCallingConfig", {})
    _known("tool_config.function_calling_config", calling, ("mode", "allowedFunctionNames"))
    if not tools:
        raise invalid("Function calling config is set without function_declarations.")
    mode = calling.get("mode", "AUTO")
    if mode not in _MODES:
        raise invalid(f"Invalid value at 'tool_config.function_calling_config.mode', \"{mode}\"")
    if calling.get("allowedFunctionNames") and mode not in {"ANY", "VALIDATED"}:
        raise invalid("Please set allowed_function_names only when the mode is ANY or VALIDATED.")


def _check_generation(config: Any, model: str, *, vertex: bool) -> None:
    _known("generation_config", config, _GENERATION)
    limit = config.get("maxOutputTokens", 1)
    top = PLAIN_LIMIT if vertex else MAX_OUTPUT
    if not isinstance(limit, int) or not 1 <= limit <= top:
        raise invalid(
            f"Unable to submit request because it has a maxOutputTokens value of {limit} but the "
            f"supported range is from 1 (inclusive) to {top + 1} (exclusive)."
        )
    thinking = config.get("thinkingConfig", {})
    _known("generation_config.thinking_config", thinking, _THINKING)
    _check_thinking(thinking, model)


def _check_thinking(thinking: Mapping[str, Any], model: str) -> None:
    level = str(thinking.get("thinkingLevel", "LOW")).upper()
    if "thinkingLevel" in thinking and "thinkingBudget" in thinking:
        raise invalid("You can only set only one of thinking budget and thinking level.")
    if level not in _LEVELS:
        raise invalid(f"Invalid value at 'generation_config.thinking_config', \"{level}\"")
    if "thinkingLevel" in thinking and not signs(model):
        raise invalid("Thinking level is not supported for this model.")
    if "argon" in model and "thinkingBudget" in thinking:
        raise invalid("Thinking budget is not supported for this model.")
    if "thinkingLevel" in thinking and level in _LACKING.get(model, {"XHIGH"}):
        raise invalid(f"Thinking level {level} is not supported for this model.")
    if "thinkingBudget" in thinking:
        _check_budget(thinking["thinkingBudget"], model)


def _check_budget(budget: Any, model: str) -> None:
    least, most = _BUDGETS.get(model, (0, MAX_OUTPUT))
    if not isinstance(budget, int) or not (budget == -1 or least <= budget <= most):
        raise invalid(
            f"The thinking budget {budget} is invalid. Please choose a value between {least} and "
            f"{most}."
        )


# ------------------------------------------------------------------------------------- contents


def _check_content(path: str, content: Any) -> None:
    _known(path, content, ("role", "parts"))
    if content.get("role") not in {"user", "model"}:
        raise invalid("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise invalid(f"* GenerateContentRequest.{path}.parts: contents.parts must not be empty.")
    for number, part in enumerate(parts):
        _check_part(f"{path}.parts[{number}]", content["role"], part)


def _check_part(path: str, role: str, part: Any) -> None:
    _known(path, part, (*_DATA, "thought", "thoughtSignature"))
    data = [name for name in _DATA if name in part]
    if len(data) != 1:
        raise invalid(f"* {path}.data: required oneof field 'data' must have one initialized field")
    if role == "user" and len(part) > 1:
        raise invalid(f"{path}: thoughts are only valid in contents of the model")
    value = part[data[0]]
    if data[0] == "text":
        _check_text(path, part)
    elif data[0] == "functionCall":
        _check_call(f"{path}.function_call", role, value)
    else:
        _check_response(f"{path}.function_response", role, value)


def _check_text(path: str, part: Json) -> None:
    _text(f"{path}.text", part["text"])
    if not part["text"] and "thoughtSignature" not in part:
        raise invalid("Unable to submit request because it has an empty text parameter.")


def _check_call(path: str, role: str, call: Any) -> None:
    _known(path, call, ("id", "name", "args"))
    if role != "model":
        raise invalid(
            "Please ensure that function call turn comes immediately after a user turn or after a "
            "function response turn."
        )
    _check_name(f"{path}.name", call.get("name"))
    _known(f"{path}.args", call.get("args", {}), call.get("args", {}))


def _check_response(path: str, role: str, response: Any) -> None:
    _known(path, response, ("id", "name", "response"))
    if role != "user":
        raise invalid("Function response parts are only valid in contents of the user.")
    _check_name(f"{path}.name", response.get("name"))
    if not isinstance(response.get("response"), dict):
        raise invalid(f"Invalid value at '{path}.response' (type.googleapis.com/Struct)")


# ---------------------------------------------------------------------------------------- turns


def _check_turns(contents: Sequence[Json], *, ids: bool) -> None:
    """Roles alternate, calls are answered at once, all in one content, and nothing else is."""
    for number, content in enumerate(contents):
        if content["role"] != ("user", "model")[number % 2]:
            raise invalid("Please ensure that multiturn requests alternate between user and model.")
        _check_answers(contents[number - 1] if number else None, content, ids=ids)
    if contents[-1]["role"] != "user":
        raise invalid(
            "Please ensure that multiturn requests ends with a user role or a function response."
        )


def _check_answers(before: Json | None, content: Json, *, ids: bool) -> None:
    if content["role"] != "user":
        return
    asked, answered = calls(before) if before else [], responses(content)
    if answered and not asked:
        raise invalid(
            "Please ensure that function response turn comes immediately after a function call "
            "turn."
        )
    if len(asked) != len(answered):
        raise invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
    if any("functionResponse" not in part for part in content["parts"][: len(answered)]):
        raise invalid("Please ensure that function response parts come before other parts.")
    for call, response in zip(asked, answered, strict=True):
        if call["name"] != response["name"]:
            raise invalid(f"Function response {response['name']} does not answer {call['name']}.")
        if call.get("id") != response.get("id") and (ids or "id" in response):
            raise invalid(f"Function response id {response.get('id')} matches no function call.")
