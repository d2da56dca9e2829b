"""A strict simulator for each provider of the table. A new codec, and another way to sign, is a row
here; a provider that differs in its address alone is played by its wire's simulator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.fakes import HandClock
from tests.simulators.anthropic import AnthropicSim, BedrockSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import AzureChatSim, AzureResponsesSim, ChatSim, ResponsesSim
from worker.lab.script import Script
from worker.models import table
from worker.models.base import OperatorRow
from worker.models.client import HttpModel

KEY = "sk-test-0123456789"


class Simulator(Protocol):
    """What every simulator has."""

    requests: list[dict[str, Any]]
    raw: list[bytes]
    answers: list[dict[str, Any]]
    unexpected_requests: list[str]

    @property
    def url(self) -> str: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Wire:
    """A model and the simulator that plays it; `options` are those of `table.build_model`."""

    spec: str
    start: Callable[[Script], Simulator]
    options: Mapping[str, Any] = field(default_factory=dict)

    def model(self, sim: Simulator) -> HttpModel:
        """The model over HTTP. On Vertex AI it needs Google's default credentials."""
        clock = HandClock()
        return table.build_model(
            self.spec, sim.url, KEY, clock=clock, max_attempts=1, **self.options
        )


_BEDROCK = {"row": OperatorRow(region="eu-central-1")}
_AZURE = {
    "row": OperatorRow(
        api="openai-chat", auth="azure", key_env="MY_AZURE_KEY", api_version="2024-10-21"
    )
}
_VLLM = {"row": OperatorRow(api="openai-chat", key_env="MY_VLLM_KEY")}
_VERTEX = {"row": OperatorRow(project="my-project", location="eu")}
_OWN = {"dialect": {"limit": "max_completion_tokens"}}
_THINKS = {"dialect": {"reasoning": "reasoning_content", "call_id": "[a-zA-Z0-9]{9}"}}

WIRES: dict[str, Wire] = {
    "anthropic": Wire("anthropic/claude-sonnet-5-5", AnthropicSim),
    "anthropic-vertex": Wire("anthropic-vertex/claude-sonnet-5-5", AnthropicSim, _VERTEX),
    "gemini": Wire("gemini/gemini-3.8-flash", GeminiSim),
    "gemini-vertex": Wire("gemini-vertex/gemini-2.5-flash", GeminiSim, _VERTEX),
    "openai": Wire("openai/gpt-6.2-sol", ResponsesSim),
    "openai-responses": Wire("openai-responses/gpt-oss-120b", ResponsesSim),
    "openai-compatible": Wire("openai-compatible/qwen3", ChatSim),
    "openai-chat": Wire(
        "openai-compatible/gpt-5.5", lambda script: ChatSim(script, own=True), _OWN
    ),
    "anthropic-bedrock": Wire(
        "anthropic-bedrock/global.anthropic.claude-sonnet-5-5",
        lambda script: BedrockSim(script, key=KEY),
        _BEDROCK,
    ),
    "openai-azure": Wire(
        "openai-azure/gpt-6.2-sol", lambda script: AzureResponsesSim(script, key=KEY)
    ),
    "azure-chat": Wire("my-azure/gpt-5.5", lambda script: AzureChatSim(script, key=KEY), _AZURE),
    "my-vllm": Wire("my-vllm/qwen3", lambda script: ChatSim(script, key=KEY), _VLLM),
    "openai-chat-thinking": Wire(
        "openai-compatible/deepseek",
        lambda script: ChatSim(script, reasoning="reasoning_content"),
        _THINKS,
    ),
}

_PLAYERS: Mapping[str, Callable[[Script], Simulator]] = {
    "anthropic": AnthropicSim,
    "gemini": GeminiSim,
    "openai-responses": ResponsesSim,
    "openai-chat": ChatSim,
}
_NAMED = {wire.spec.partition("/")[0] for wire in WIRES.values()}
WIRES |= {
    name: Wire(f"{name}/model-1", _PLAYERS[provider.api])
    for name, provider in table.PROVIDERS.items()
    if name not in _NAMED and provider.scheme == "key" and provider.api in _PLAYERS
}
