"""The servers that offer Chat Completions, and how each deviates: one table, with its sources.

Facts are of the releases of 2026 where nothing else is said. Paths are those in the repository that
is named first.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulators.openai.protocol import Json, Refused

Calls = Sequence[Json]


@dataclass(frozen=True, slots=True)
class Like:
    """How one server deviates from OpenAI, set up in one way.

    `make_id` makes the id of an answer's call by a seed and its number. `write_calls` writes calls
    into the text, if the server does not read what the model writes. `shape` changes an answer.
    `check` refuses what this server does not take; `refuses` counts the requests that it refuses of
    a session. `reword` writes the body of an error. `streams` says that it streams unless told not
    to. `limit` is the field by which it takes the answer's limit; without `takes_tools` its `check`
    refuses tools. `gives` are fields that it adds to its calls.
    """

    source: str
    make_id: Callable[[str, int], Any] = lambda seed, number: f"call_{seed[:22]}{number:02}"
    write_calls: Callable[[Calls], str] | None = None
    shape: Callable[[Json], None] = lambda answer: None
    check: Callable[[Json], None] = lambda body: None
    refuses: int = 0
    reword: Callable[[Refused], Json] = Refused.body
    streams: bool = False
    limit: str = "max_tokens"
    takes_tools: bool = True
    gives: tuple[str, ...] = ()

    @property
    def goes_on_by_text(self) -> bool:
        """Whether a session's calls are asked for as text after its first request."""
        return bool(self.write_calls) or not self.takes_tools

    def send(self, answer: Json, body: Json) -> None:
        """Change an answer of OpenAI's to this server's."""
        choice = answer["choices"][0]
        message = choice["message"]
        calls = message.get("tool_calls", [])
        if calls and (self.write_calls or not body.get("tools")):
            write = self.write_calls or write_block
            said = [message["content"] or "", write(message.pop("tool_calls"))]
            message["content"] = "\n".join(filter(None, said))
            choice["finish_reason"] = "stop"
        self.shape(answer)


class Worded(Refused):
    """An error in the server's own form."""

    def __init__(self, refused: Refused, body: Json) -> None:
        super().__init__(refused.status, str(refused))
        self._body = body

    def body(self) -> Json:
        """The error body."""
        return self._body


def _write_each(begin: str, end: str) -> Callable[[Calls], str]:
    def write(calls: Calls) -> str:
        return "\n".join(f"{begin}{json.dumps(_plain(call))}{end}" for call in calls)

    return write


def _plain(call: Json) -> Json:
    function = call["function"]
    return {"name": function["name"], "arguments": json.loads(function["arguments"])}


def write_block(calls: Calls) -> str:
    """Calls as a model without native tools is asked to write them."""
    return f"```tool_call\n{json.dumps([_plain(call) for call in calls])}\n```"


write_hermes = _write_each("<tool_call>\n", "\n</tool_call>")
write_lm_studio = _write_each("[TOOL_REQUEST]", "[END_TOOL_REQUEST]")


def write_mistral(calls: Calls) -> str:
    """Calls as Mistral's models write them since version 11 of their tokenizer."""
    return "".join(
        f"[TOOL_CALLS]{each['name']}{json.dumps(each['arguments'])}" for each in map(_plain, calls)
    )


def write_qwen(calls: Calls) -> str:
    """Calls as Qwen3-Coder and its successors write them."""
    written = []
    for name, arguments in ((each["name"], each["arguments"]) for each in map(_plain, calls)):
        given = "".join(
            f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
        )
        written.append(f"<tool_call>\n<function={name}>\n{given}</function>\n</tool_call>")
    return "\n".join(written)


def _message(answer: Json) -> Json:
    message: Json = answer["choices"][0]["message"]
    return message


def _plain_usage(answer: Json) -> None:
    answer["usage"] = {
        name: answer["usage"][name]
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    }


def _refuse_tools(status: int, says: str, kind: str) -> Callable[[Json], None]:
    def check(body: Json) -> None:
        if "tools" in body:
            raise Refused(status, says.format(model=body["model"]), kind=kind)

    return check


def _shape_vllm(answer: Json) -> None:
    _plain_usage(answer)
    answer["usage"]["prompt_tokens_details"] = None
    answer |= {"prompt_logprobs": None, "kv_transfer_params": None}
    answer["choices"][0] |= {"stop_reason": None, "token_ids": None}
    _message(answer).update(reasoning=None, function_call=None, audio=None)


def _reword_vllm(refused: Refused) -> Json:
    return {"error": refused.body()["error"] | {"type": "BadRequestError", "code": refused.status}}


def _shape_sglang(answer: Json) -> None:
    message = _message(answer)
    message.setdefault("tool_calls", None)
    message["reasoning_content"] = None
    answer["choices"][0]["matched_stop"] = 151645
    answer["usage"] |= {"reasoning_tokens": 0, "prompt_tokens_details": None}


def _reword_sglang(refused: Refused) -> Json:
    return {"object": "error", **_reword_vllm(refused)["error"]}


def _shape_tgi(answer: Json) -> None:
    choice, message = answer["choices"][0], _message(answer)
    del message["refusal"], message["annotations"]
    choice["finish_reason"] = "length" if choice["finish_reason"] == "length" else "stop"
    if calls := message.get("tool_calls"):
        del message["content"], calls[1:]
        calls[0]["function"]["description"] = None
    _plain_usage(answer)


def _shape_llama_cpp(answer: Json) -> None:
    answer["timings"] = {"prompt_n": 9, "predicted_per_second": 30.25}
    answer["system_fingerprint"] = "b8100-7e4c0a9"
    if _message(answer).get("tool_calls"):
        _message(answer)["content"] = ""


def _shape_llama_cpp_objects(answer: Json) -> None:
    _shape_llama_cpp(answer)
    for call in _message(answer).get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])


def _reword_llama_cpp(refused: Refused) -> Json:
    kind = "server_error" if refused.status >= 500 else "invalid_request_error"
    return {"error": {"code": refused.status, "message": str(refused), "type": kind}}


def _shape_ollama(answer: Json) -> None:
    _plain_usage(answer)
    answer["system_fingerprint"] = "fp_ollama"
    message = _message(answer)
    del message["refusal"], message["annotations"]
    if message.get("tool_calls"):
        message["content"] = " "
        for number, call in enumerate(message["tool_calls"]):
            call["index"] = number


def _check_ollama(body: Json) -> None:
    if any(name in body for name in ("tool_choice", "parallel_tool_calls")):
        return  # not in the struct, so ignored
    for message in body["messages"]:
        if not isinstance(message.get("content"), str):
            raise Refused(400, "invalid message content type: <nil>")


def _shape_lm_studio(answer: Json) -> None:
    answer["stats"] = {}
    answer["system_fingerprint"] = answer["model"]
    answer["choices"][0]["logprobs"] = None
    message = _message(answer)
    message["tool_calls"] = message.get("tool_calls", [])
    message["content"] = message["content"] or "\n\n"


def _shape_lite_llm(answer: Json) -> None:
    _message(answer).update(function_call=None, provider_specific_fields={"refusal": None})
    answer["choices"][0]["provider_specific_fields"] = {}


def _reword_lite_llm(refused: Refused) -> Json:
    says = f"litellm.BadRequestError: OpenAIException - {refused}. Received Model Group=qwen3\n"
    return {
        "error": {
            "message": f"{says}Available Model Group Fallbacks=None",
            "type": None,
            "param": None,
            "code": str(refused.status),
        }
    }


def _check_bedrock(body: Json) -> None:
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        if content and not content.strip():
            raise Refused(
                400, f"messages.{number}: text content blocks must contain non-whitespace text"
            )


def _refuse_fields(*refusals: tuple[str, str]) -> Callable[[Json], None]:
    def check(body: Json) -> None:
        for name, says in refusals:
            if name in body:
                raise Refused(400, says, param=name)

    return check


def _shape_mistral(answer: Json) -> None:
    _message(answer)["tool_calls"] = _message(answer).get("tool_calls")


_BY_NUMBER = "vllm tool_parsers/mistral_tool_parser.py: nine letters and digits"
_REASONING_MODEL = (
    "max_tokens",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
)
_NO_EFFORT = (
    "reasoning_effort",
    "openai does not support parameters: ['reasoning_effort'], for model=qwen3. To drop these, set "
    "`litellm.drop_params=True`",
)

SERVERS: dict[str, Like] = {
    "vLLM": Like(
        "vllm entrypoints/openai/chat_completion/protocol.py, serving.py",
        make_id=lambda seed, number: f"chatcmpl-tool-{seed[:30]}{number:02}",
        shape=_shape_vllm,
        reword=_reword_vllm,
    ),
    "vLLM, Mistral": Like(
        _BY_NUMBER,
        make_id=lambda seed, number: f"{seed[:8]}{number}",
        shape=_shape_mistral,
        reword=_reword_vllm,
    ),
    "vLLM, Kimi": Like(
        "vllm tool_parsers/kimi_k2_tool_parser.py: the head of a call is its id",
        make_id=lambda seed, number: f"functions.sandbox_exec:{number}",
        shape=_shape_vllm,
        reword=_reword_vllm,
    ),
    "vLLM without a parser": Like(
        "vllm entrypoints/openai/chat_completion/serving.py",
        check=_refuse_tools(
            400,
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be '
            "set",
            "BadRequestError",
        ),
        refuses=1,
        takes_tools=False,
        shape=_shape_vllm,
        reword=_reword_vllm,
    ),
    "SGLang": Like(
        "sglang python/sglang/srt/entrypoints/openai/serving_chat.py, protocol.py",
        make_id=lambda seed, number: f"call_{seed[:22]}{number:02}",
        shape=_shape_sglang,
        reword=_reword_sglang,
    ),
    "SGLang without a parser": Like(
        "sglang python/sglang/srt/entrypoints/openai/serving_chat.py: the call stays in the text",
        write_calls=write_qwen,
        shape=_shape_sglang,
        reword=_reword_sglang,
    ),
    "TGI": Like(
        "text-generation-inference router/src/server.rs, lib.rs; pull request 3111: id 0",
        make_id=lambda seed, number: "0",
        gives=("description",),
        shape=_shape_tgi,
        reword=lambda refused: {"error": str(refused), "error_type": "validation"},
    ),
    "llama.cpp": Like(
        "llama.cpp tools/server/server-common.cpp, common/chat.cpp",
        make_id=lambda seed, number: f"{seed[:31]}{number}",
        shape=_shape_llama_cpp,
        reword=_reword_llama_cpp,
    ),
    "llama.cpp, arguments as objects": Like(
        "llama.cpp issue 20198, pull request 20202: builds of March 2026, --tool-args-object",
        make_id=lambda seed, number: f"{seed[:31]}{number}",
        shape=_shape_llama_cpp_objects,
        reword=_reword_llama_cpp,
    ),
    "llama.cpp without ids": Like(
        "llama.cpp issue 11992: builds of February 2025",
        make_id=lambda seed, number: "",
        shape=_shape_llama_cpp,
        reword=_reword_llama_cpp,
    ),
    "llama.cpp without --jinja": Like(
        "llama.cpp tools/server/server-common.cpp",
        check=_refuse_tools(500, "tools param requires --jinja flag", "server_error"),
        refuses=1,
        takes_tools=False,
        shape=_shape_llama_cpp,
        reword=_reword_llama_cpp,
    ),
    "Ollama": Like(
        'ollama openai/openai.go; ollama-python issue 667: content " "',
        make_id=lambda seed, number: f"call_{seed[:7]}{number}",
        check=_check_ollama,
        gives=("index",),
        shape=_shape_ollama,
    ),
    "Ollama without tools": Like(
        "ollama server/routes.go",
        check=_refuse_tools(
            400, "registry.ollama.ai/library/{model} does not support tools", "api_error"
        ),
        refuses=1,
        takes_tools=False,
        shape=_shape_ollama,
    ),
    "Ollama, a call in the text": Like(
        "ollama issue 13519: qwen2.5-coder",
        write_calls=_write_each("", ""),
        shape=_shape_ollama,
    ),
    "LM Studio": Like(
        "lmstudio-bug-tracker issue 821; lmstudio.ai/docs/developer/openai-compat/tools",
        make_id=lambda seed, number: f"{int(seed[:7], 16):08}{number}",
        shape=_shape_lm_studio,
        reword=lambda refused: {"error": str(refused)},
    ),
    "LM Studio, a call in the text": Like(
        "lmstudio-bug-tracker issue 2115; lmstudio.ai/docs/developer/openai-compat/tools",
        write_calls=write_lm_studio,
        shape=_shape_lm_studio,
        reword=lambda refused: {"error": str(refused)},
    ),
    "LiteLLM": Like(
        "litellm litellm/types/utils.py, proxy/_types.py",
        shape=_shape_lite_llm,
        reword=_reword_lite_llm,
    ),
    "LiteLLM before Bedrock": Like(
        "litellm pull request 15850: a blank text is refused",
        check=_check_bedrock,
        shape=lambda answer: _message(answer).update(content=_message(answer)["content"] or " "),
        reword=_reword_lite_llm,
    ),
    "LiteLLM before a reasoning model": Like(
        "litellm issues 13381, 10108",
        check=_refuse_fields(_REASONING_MODEL, _NO_EFFORT),
        refuses=1,
        limit="max_completion_tokens",
        shape=_shape_lite_llm,
        reword=_reword_lite_llm,
    ),
    "Hermes, in the text": Like(
        "vllm tool_parsers/hermes_tool_parser.py", write_calls=write_hermes, shape=_shape_vllm
    ),
    "Mistral, in the text": Like(
        "vllm tool_parsers/mistral_tool_parser.py", write_calls=write_mistral, shape=_shape_vllm
    ),
    "a gateway that streams": Like(
        "modlens issue 94; open-webui/computer issue 193: streaming is the default", streams=True
    ),
}
