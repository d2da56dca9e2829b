"""Reasoning levels: which a model has, its window at each, and what is refused."""

from dataclasses import replace

import pytest

from tests.fakes import HandClock
from worker.conversation.messages import User
from worker.conversation.model import Request
from worker.errors import ConfigError
from worker.models.base import Target
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import EFFORTS, Catalogue, Level, ModelInfo
from worker.models.client import HttpModel
from worker.models.table import build_model

SEED = Catalogue(
    {
        "gpt-5.1": ModelInfo(
            window=1_000_000,
            levels=(Level("low"), Level("high", 500_000), Level("xhigh", 250_000)),
            default_level="low",
        )
    }
)


def build(spec: str, level: str, known: Catalogue = BUILT_IN, url: str = "") -> HttpModel:
    """Builds a model and closes it."""
    key = "sk-test-0123456789"
    made = build_model(spec, url, key, clock=HandClock(), catalogue=known, level=level)
    made.close()
    return made


@pytest.mark.parametrize(
    ("level", "window"),
    [("", 1_000_000), ("low", 1_000_000), ("high", 500_000), ("xhigh", 250_000)],
)
def test_the_window_that_counts_is_that_of_the_level(level: str, window: int) -> None:
    made = build("openai/gpt-5.1", level, SEED)

    assert SEED.get_info("openai/gpt-5.1", level).window == window
    assert made.context_tokens == window - 16_000
    assert made.level == level


def test_levels_are_listed_in_order() -> None:
    assert SEED.get_levels("openai/gpt-5.1") == ("low", "high", "xhigh")
    assert BUILT_IN.get_levels("anthropic/claude-haiku-4-5-20251001") == (
        "none",
        "low",
        "medium",
        "high",
    )
    assert BUILT_IN.get_levels("openai-compatible/unheard-of") == ()


def test_a_level_that_a_listed_model_lacks_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError) as raised:
        build("anthropic/claude-opus-4-6", "xhigh")

    assert str(raised.value) == (
        "anthropic/claude-opus-4-6: unknown reasoning level 'xhigh'; "
        "known: none, low, medium, high, max"
    )


@pytest.mark.parametrize("level", EFFORTS)
def test_an_unknown_model_may_have_any_level_of_any_provider(level: str) -> None:
    assert build("openai-compatible/unheard-of", level, url="http://llm:8000/v1").level == level


def test_an_unknown_model_has_no_level_that_no_provider_has() -> None:
    with pytest.raises(ConfigError, match="unknown reasoning level 'huge'; known: none, minimal"):
        build("openai-compatible/unheard-of", "huge", url="http://llm:8000/v1")


def test_a_variant_of_a_listed_model_may_have_levels_that_it_lacks() -> None:
    assert build("openai/gpt-5.5-mini", "max").level == "max"


def test_openai_s_own_chat_completions_take_no_level_with_tools() -> None:
    url = "https://api.openai.com/v1"

    assert build("openai-compatible/gpt-5.5", "none", url=url).level == "none"
    with pytest.raises(ConfigError, match="found 'high': name the model openai/gpt-5") as raised:
        build("openai-compatible/gpt-5.5", "high", url=url)
    assert "takes no reasoning level but 'none'" in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "level", "most"),
    [
        ("anthropic/claude-haiku-5-5", "", 4200),
        ("anthropic/claude-haiku-5-5", "low", 4200),
        ("anthropic/claude-opus-4-7", "", 200),
        ("anthropic/claude-opus-4-7", "low", 4200),
        ("anthropic/claude-haiku-4-5", "", 200),
        ("anthropic/claude-haiku-4-5", "none", 200),
        ("anthropic/claude-haiku-4-5", "low", 4200),
        ("gemini/gemini-2.5-pro", "", 4200),
        ("gemini/gemini-2.5-flash", "none", 200),
        ("openai/gpt-6.2-sol", "", 4200),
        ("openai/gpt-6-sol", "none", 200),
        ("openai-compatible/unheard-of", "", 200),
        ("openai-compatible/unheard-of", "high", 4200),
    ],
)
def test_a_short_answer_has_room_for_what_the_model_thinks_first(
    spec: str, level: str, most: int
) -> None:
    target = Target(spec, 21_000, info=BUILT_IN.get_info(spec, level))
    request = Request(system="", tools=(), messages=(User("event"),), max_output=200)

    assert target.choose_max_tokens(request) == most
    assert target.choose_max_tokens(replace(request, max_output=0)) == 21_000


@pytest.mark.parametrize(("model", "info"), BUILT_IN.models.items())
def test_every_listed_model_has_levels_of_known_names_in_order(model: str, info: ModelInfo) -> None:
    places = [EFFORTS.index(level.name) for level in info.levels]

    assert places == sorted(set(places))
    assert len(places) >= 3
    assert info.default_level in ("", *BUILT_IN.get_levels(model))
    assert all(level.window <= info.window for level in info.levels)
