"""A reasoning level on every wire, against the bodies in `golden_levels/`.

`SANDPIPER_GOLDEN=write pytest tests/wire/test_levels.py` writes them anew.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import HandClock
from tests.wire.conversations import conversations
from worker.models import table
from worker.models.base import Target
from worker.models.catalogue.built_in import BUILT_IN

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


def encode(spec: str, level: str, url: str, case: str = "parallel_calls") -> bytes:
    """The body as the product's own model sends it."""
    model = table.build_model(
        spec, url, "sk-test-0123456789", clock=HandClock(), project="my-project", level=level
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
    who = {"c": "anthropic", "g": "gemini" if model.startswith("gemini") else "openai"}[model[0]]
    levels = BUILT_IN.get_levels(model)

    assert len({encode(f"{who}/{model}", level, "") for level in ("", *levels)}) == len(levels) + 1


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
