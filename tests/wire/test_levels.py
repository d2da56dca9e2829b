"""A reasoning level on every wire, against the bodies in `golden_levels/`.

`SANDPIPER_GOLDEN=write pytest tests/wire/test_levels.py` writes them anew.
"""

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import HandClock
from tests.simulators.anthropic import AnthropicSim, BedrockSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ResponsesSim
from tests.wire.conversations import LOOK, conversations
from tests.wire.simulators import Simulator
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, User, WireForm
from worker.conversation.model import Request
from worker.errors import ConfigError, ModelError
from worker.lab.script import Call, Say, Script, Scripted, Think
from worker.models import table
from worker.models.base import OperatorRow, Target
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import Catalogue

GOLDEN = Path(__file__).parent / "golden_levels"
LOCAL = "http://llm:8000/v1"
CASES = {
    "anthropic-adaptive": ("anthropic/claude-opus-5-5", "xhigh", ""),
    "anthropic-asked": ("anthropic/claude-opus-4-7", "high", ""),
    "anthropic-asked-none": ("anthropic/claude-opus-4-7", "none", ""),
    "anthropic-budget": ("anthropic/claude-haiku-4-5", "medium", ""),
    "anthropic-none": ("anthropic/claude-sonnet-5", "none", ""),
    "anthropic-vertex": ("anthropic-vertex/claude-sonnet-5-5", "low", ""),
    "anthropic-unknown": ("anthropic/claude-novel-1", "high", ""),
    "gemini-level": ("gemini/gemini-4-argon", "high", ""),
    "gemini-minimal": ("gemini/gemini-3.5-flash-lite", "minimal", ""),
    "gemini-budget": ("gemini-vertex/gemini-2.5-pro", "high", ""),
    "gemini-budget-none": ("gemini/gemini-2.5-flash", "none", ""),
    "gemini-unknown": ("gemini/gemini-9-neon", "medium", ""),
    "openai": ("openai/gpt-6.2-sol", "max", ""),
    "openai-none": ("openai/gpt-6-sol", "none", ""),
    "openai-responses": ("openai-responses/gpt-oss-120b", "medium", LOCAL),
    "openai-compatible": ("openai-compatible/qwen3", "minimal", LOCAL),
    "openai-gateway": ("openai-compatible/gpt-5.5", "xhigh", LOCAL),
    "openai-chat": ("openai-compatible/gpt-5.5", "none", "https://api.openai.com/v1"),
}


def encode(spec: str, level: str, url: str, case: str = "thinking_verbatim") -> bytes:
    """The body as the product's own model sends it, by default with its own thinking in it."""
    model = table.build_model(
        spec,
        url,
        "sk-test-0123456789",
        clock=HandClock(),
        row=OperatorRow(project="my-project", region="eu-central-1" if "bedrock" in spec else ""),
        level=level,
    )
    model.close()
    return model._codec.encode(conversations(spec)[case])


def readable(raw: bytes) -> str:
    return json.dumps(json.loads(raw), ensure_ascii=False, indent=1) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_body_with_a_level_is_the_golden_one(name: str) -> None:
    path = GOLDEN / f"{name}.json"
    found = readable(encode(*CASES[name]))
    if os.environ.get("SANDPIPER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_no_golden_body_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_level_changes_only_the_fields_that_state_it(name: str) -> None:
    spec, level, url = CASES[name]
    stated, plain = (json.loads(encode(spec, each, url)) for each in (level, ""))
    states = {"thinking", "output_config", "reasoning", "reasoning_effort"}
    for body in (stated, plain):
        body.get("generationConfig", {}).pop("thinkingConfig", None)

    def without(body: dict[str, Any]) -> dict[str, Any]:
        return {field: value for field, value in body.items() if field not in states}

    assert without(stated) == without(plain)
    assert list(without(stated)) == list(without(plain))


@pytest.mark.parametrize("model", sorted(BUILT_IN.models))
def test_every_level_of_every_listed_model_can_be_stated(model: str) -> None:
    begins = ("claude", "gemini", "gpt", "")
    providers = ("anthropic", "gemini", "openai", "anthropic-bedrock")
    who = next(p for name, p in zip(begins, providers, strict=True) if model.startswith(name))
    levels = BUILT_IN.get_levels(model)

    assert len({encode(f"{who}/{model}", level, "") for level in ("", *levels)}) == len(levels) + 1


SIMS: dict[str, Callable[[Script], Simulator]] = {
    "anthropic": AnthropicSim,
    "anthropic-bedrock": lambda script: BedrockSim(script, key="sk-test-0123456789"),
    "gemini": GeminiSim,
    "openai": ResponsesSim,
}


@pytest.mark.parametrize("who", SIMS)
def test_the_strict_simulator_takes_every_level_of_every_listed_model(who: str) -> None:
    prefixes = {"anthropic": "claude", "anthropic-bedrock": "global", "openai": "gpt"}
    models = [name for name in BUILT_IN.models if name.startswith(prefixes.get(who, who))]
    with SIMS[who](lambda asked: Say("done")) as sim:
        for name in models:
            for level in BUILT_IN.get_levels(name):
                key, clock = "sk-test-0123456789", HandClock()
                model = table.build_model(
                    *(f"{who}/{name}", sim.url, key),
                    clock=clock,
                    level=level,
                    max_attempts=1,
                    row=OperatorRow(region="eu-central-1" if "bedrock" in who else ""),
                )
                with closing(model):
                    for most in (0, 200):
                        asked = replace(conversations("")["plain"], max_output=most)
                        assert model.reply(asked).text == "done", (name, level)

    assert sim.unexpected_requests == []


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        ("anthropic/claude-opus-4-6", "xhigh"),
        ("anthropic/claude-haiku-4-5", "max"),
        ("anthropic/claude-opus-5-5", "none"),
        ("anthropic/claude-sonnet-5-5", "minimal"),
        ("gemini/gemini-4-argon", "minimal"),
        ("gemini/gemini-3.5-flash", "xhigh"),
        ("openai/gpt-6.2-sol", "none"),
        ("openai/gpt-6-sol", "minimal"),
        ("openai/gpt-5.5", "max"),
    ],
)
def test_what_is_refused_at_start_the_provider_would_refuse(spec: str, level: str) -> None:
    """The model is asked as one that the catalogue does not know."""
    with pytest.raises(ConfigError, match="unknown reasoning level"):
        encode(spec, level, "")
    who = spec.partition("/")[0]
    with SIMS[who](lambda asked: Say("done")) as sim:
        key, clock = "sk-test-0123456789", HandClock()
        model = table.build_model(
            *(spec, sim.url, key), clock=clock, level=level, catalogue=Catalogue({}), max_attempts=1
        )
        with closing(model), pytest.raises(ModelError, match="400"):
            model.reply(conversations("")["plain"])


def test_thinking_for_a_budget_begins_where_the_api_takes_it() -> None:
    """Not after another model's calls; again with the next question."""
    script = Scripted(
        [Say("never asked"), Think(Call([("look", {"at": "b"})]), "hm"), Say("a flake")]
    )
    foreign = (User("event"), Assistant("", (ToolCall("a", "look", "{}"),)))
    with AnthropicSim(script) as sim:
        model = table.build_model(
            "anthropic/claude-haiku-4-5", sim.url, "key", clock=HandClock(), level="high"
        )
        with closing(model):
            messages: list[Message] = [*foreign, ToolResult("a", "look", "{}")]
            for _ in range(2):
                reply = model.reply(Request("S", (LOOK,), tuple(messages)))
                wire = WireForm(model.name, reply.wire)
                messages.append(Assistant(reply.text, reply.calls, wire))
                messages += [ToolResult(call.id, call.name, "{}") for call in reply.calls]
            body = json.loads(model._codec.encode(Request("S", (LOOK,), (*messages, User("Why?")))))

    assert sim.unexpected_requests == []
    assert ["thinking" in sent for sent in sim.requests] == [False, True]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 10_240}


@pytest.mark.parametrize("spec", ["anthropic/claude-haiku-4-5", "gemini/gemini-2.5-pro"])
@pytest.mark.parametrize("most", [0, 1, 500, 5000])
def test_a_budget_leaves_room_for_a_short_answer(spec: str, most: int) -> None:
    info = BUILT_IN.get_info(spec, "high")
    target = Target(spec, 21_000, info=info)
    codec = table.PROVIDERS[spec.partition("/")[0]].codec(target)
    body = json.loads(codec.encode(replace(conversations(spec)["plain"], max_output=most)))
    if "generationConfig" in body:
        allowed = body["generationConfig"]["maxOutputTokens"]
        budget = body["generationConfig"]["thinkingConfig"]["thinkingBudget"]
    else:
        allowed = body["max_tokens"]
        budget = body["thinking"]["budget_tokens"]

    assert 1024 <= budget <= allowed // 2
