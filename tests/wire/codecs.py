"""The codecs under test. A new one is one row, and its golden bodies."""

from collections.abc import Callable
from functools import partial

from worker.models.base import Codec, OperatorRow, WireTarget
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import ModelInfo
from worker.models.table import make_provider

Factory = Callable[[], tuple[Codec, str]]


_NO_ROW, _UNKNOWN = OperatorRow(), ModelInfo()
_VERTEX = OperatorRow(project="my-project", location="global")
_BEDROCK = OperatorRow(region="eu-central-1")
_AZURE_CHAT = OperatorRow(api="openai-chat", auth="azure", api_version="2024-10-21")
_AZURE = "https://mine.openai.azure.com"
_GPT = BUILT_IN.get_info("gpt-5.5")
_CLAUDE = "claude-sonnet-5-5"


def _make(
    origin: str,
    base_url: str = "",
    max_tokens: int = 21_000,
    row: OperatorRow = _NO_ROW,
    info: ModelInfo = _UNKNOWN,
) -> tuple[Codec, str]:
    who, _, model = origin.partition("/")
    provider = make_provider(who, row)
    base_url = base_url or provider.base_url
    if provider.locate:
        base_url = provider.locate(base_url, row.project, row.region or row.location)
    endpoint = provider.endpoint(base_url, model)
    target = WireTarget(origin, max_tokens, endpoint.head, endpoint.dialect, info)
    return provider.codec(target), origin


CODECS: dict[str, Factory] = {
    "anthropic": partial(_make, f"anthropic/{_CLAUDE}"),
    "anthropic-vertex": partial(_make, f"anthropic-vertex/{_CLAUDE}", row=_VERTEX),
    "anthropic-bedrock": partial(
        _make, f"anthropic-bedrock/global.anthropic.{_CLAUDE}", row=_BEDROCK
    ),
    "gemini": partial(_make, "gemini/gemini-3.8-flash"),
    "gemini-vertex": partial(_make, "gemini-vertex/gemini-2.5-flash", row=_VERTEX),
    "openai": partial(_make, "openai/gpt-6.2-sol"),
    "openai-responses": partial(
        _make, "openai-responses/gpt-oss-120b", "http://llm:8000/v1", 16_000
    ),
    "openai-compatible": partial(_make, "openai-compatible/qwen3", "http://llm:8000/v1", 16_000),
    "openai-chat": partial(
        _make, "openai-compatible/gpt-5.5", "https://api.openai.com/v1", info=_GPT
    ),
    "openai-azure": partial(_make, "openai-azure/gpt-6.2-sol", _AZURE),
    "azure-chat": partial(_make, "my-azure/gpt-5.5", _AZURE, row=_AZURE_CHAT, info=_GPT),
}
