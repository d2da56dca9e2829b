"""A strict simulator for each codec of the table. A new codec is one row here, too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.fakes import HandClock
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim, ResponsesSim
from worker.demo.script import Script
from worker.models import table
from worker.models.http.client import HttpModel


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
        key = "sk-test-0123456789"
        clock = HandClock()
        return table.build_model(
            self.spec, sim.url, key, clock=clock, max_attempts=1, **self.options
        )


_VERTEX = {"project": "my-project", "location": "eu"}
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
    "openai-chat-thinking": Wire(
        "openai-compatible/deepseek",
        lambda script: ChatSim(script, reasoning="reasoning_content"),
        _THINKS,
    ),
}
