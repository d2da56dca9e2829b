"""The codecs under test. A new one is one row, and its golden bodies."""

from collections.abc import Callable

from worker.models import built_in_models, endpoints
from worker.models.anthropic_messages import AnthropicMessages
from worker.models.base import Codec, Target
from worker.models.gemini import GenerateContent
from worker.models.openai_chat import OpenAIChat
from worker.models.openai_responses import OpenAIResponses

Factory = Callable[[], tuple[Codec, str]]


def _anthropic() -> tuple[Codec, str]:
    origin = "anthropic/claude-sonnet-5-5"
    endpoint = endpoints.anthropic("https://api.anthropic.com", "claude-sonnet-5-5")
    return AnthropicMessages(Target(origin, 21_000, endpoint.head)), origin


def _anthropic_vertex() -> tuple[Codec, str]:
    origin = "anthropic-vertex/claude-sonnet-5-5"
    base = endpoints.vertex("v1")("", "my-project", "global")
    endpoint = endpoints.anthropic_vertex(base, "claude-sonnet-5-5")
    return AnthropicMessages(Target(origin, 21_000, endpoint.head)), origin


def _anthropic_bedrock() -> tuple[Codec, str]:
    origin = "anthropic-bedrock/global.anthropic.claude-sonnet-5-5"
    base = endpoints.locate_bedrock("", "", "eu-central-1")
    endpoint = endpoints.anthropic_bedrock(base, "global.anthropic.claude-sonnet-5-5")
    return AnthropicMessages(Target(origin, 21_000, endpoint.head)), origin


def _gemini() -> tuple[Codec, str]:
    origin = "gemini/gemini-3.8-flash"
    return GenerateContent(Target(origin, 21_000)), origin


def _gemini_2() -> tuple[Codec, str]:
    origin = "gemini-vertex/gemini-2.5-flash"
    return GenerateContent(Target(origin, 21_000)), origin


def _openai() -> tuple[Codec, str]:
    origin = "openai/gpt-6.2-sol"
    endpoint = endpoints.openai_responses("https://api.openai.com/v1", "gpt-6.2-sol")
    return OpenAIResponses(Target(origin, 21_000, endpoint.head)), origin


def _openai_responses() -> tuple[Codec, str]:
    origin = "openai-responses/gpt-oss-120b"
    endpoint = endpoints.openai_responses("http://llm:8000/v1", "gpt-oss-120b")
    return OpenAIResponses(Target(origin, 16_000, endpoint.head), keyed=False), origin


def _openai_compatible() -> tuple[Codec, str]:
    origin = "openai-compatible/qwen3"
    endpoint = endpoints.openai_chat("http://llm:8000/v1", "qwen3")
    return OpenAIChat(Target(origin, 16_000, endpoint.head, endpoint.dialect)), origin


def _openai_chat() -> tuple[Codec, str]:
    origin = "openai-compatible/gpt-5.5"
    endpoint = endpoints.openai_chat("https://api.openai.com/v1", "gpt-5.5")
    info = built_in_models.BUILT_IN.get_info("gpt-5.5")
    target = Target(origin, 21_000, endpoint.head, endpoint.dialect, info)
    return OpenAIChat(target), origin


def _openai_azure() -> tuple[Codec, str]:
    origin = "openai-azure/gpt-6.2-sol"
    endpoint = endpoints.azure_responses("https://mine.openai.azure.com", "gpt-6.2-sol")
    return OpenAIResponses(Target(origin, 21_000, endpoint.head), keyed=False), origin


def _azure_chat() -> tuple[Codec, str]:
    origin = "my-azure/gpt-5.5"
    endpoint = endpoints.azure_chat("https://mine.openai.azure.com", "gpt-5.5", "2024-10-21")
    info = built_in_models.BUILT_IN.get_info("gpt-5.5")
    target = Target(origin, 21_000, endpoint.head, endpoint.dialect, info)
    return OpenAIChat(target), origin


CODECS: dict[str, Factory] = {
    "anthropic": _anthropic,
    "anthropic-vertex": _anthropic_vertex,
    "anthropic-bedrock": _anthropic_bedrock,
    "gemini": _gemini,
    "gemini-vertex": _gemini_2,
    "openai": _openai,
    "openai-responses": _openai_responses,
    "openai-compatible": _openai_compatible,
    "openai-chat": _openai_chat,
    "openai-azure": _openai_azure,
    "azure-chat": _azure_chat,
}
