"""Prices as the providers state them, and how names are resolved."""

from dataclasses import replace
from datetime import date

import pytest

from worker.conversation.messages import Usage
from worker.models.built_in_models import BUILT_IN, MODELS
from worker.models.catalogue import Catalogue, ModelInfo, Rate

MILLION = 1_000_000
DAY = date(2026, 11, 21)


def each(kind: str, model: str, day: date = DAY) -> float | None:
    return BUILT_IN.compute_price(model, Usage(**{kind: MILLION}), day)


@pytest.mark.parametrize(
    ("model", "uncached", "write", "read", "output"),
    [
        ("claude-fable-5-1", 10, 12.5, 0.25, 50),
        ("claude-fable-5", 10, 12.5, 1.0, 50),
        ("claude-opus-5-5", 4, 5, 0.2, 20),
        ("claude-opus-4-5", 5, 6.25, 0.5, 25),
        ("claude-sonnet-5-5", 2, 2.5, 0.1, 10),
        ("claude-sonnet-5", 2, 2.5, 0.2, 10),
        ("claude-sonnet-4-6", 3, 3.75, 0.3, 15),
        ("claude-haiku-4-5", 1, 1.25, 0.1, 5),
        ("claude-haiku-4-5-20251001", 1, 1.25, 0.1, 5),
        ("claude-haiku-4-5@20251001", 1, 1.25, 0.1, 5),
        ("gemini-2.5-flash", 0.3, 0.3, 0.03, 2.5),
        ("gpt-6-sol", 4, 5, 0.4, 10),
    ],
)
def test_a_million_tokens_of_each_kind_cost_what_the_table_says(
    model: str, uncached: float, write: float, read: float, output: float
) -> None:
    assert each("uncached_input", model) == pytest.approx(uncached)
    assert each("cache_write", model) == pytest.approx(write)
    assert each("cache_read", model) == pytest.approx(read)
    assert each("output", model) == pytest.approx(output)


@pytest.mark.parametrize(
    ("model", "tokens", "dollars"),
    [
        ("claude-haiku-5-5", 100_000, 0.01),
        ("claude-haiku-5-5", 100_001, 0.0500005),
        ("gemini-3.1-pro-preview", 200_000, 0.4),
        ("gemini-3.1-pro-preview", 200_001, 0.800004),
        ("gpt-6.1-sol", 272_000, 0.544),
        ("gpt-6.1-sol", 272_001, 1.088004),
    ],
)
def test_a_large_request_is_charged_at_its_tier_as_a_whole(
    model: str, tokens: int, dollars: float
) -> None:
    assert BUILT_IN.compute_price(model, Usage(uncached_input=tokens), DAY) == pytest.approx(
        dollars
    )


def test_cached_tokens_count_for_the_tier() -> None:
    usage = Usage(uncached_input=1, cache_read=100_000)

    assert BUILT_IN.compute_price("claude-haiku-5-5", usage, DAY) == pytest.approx(
        (0.5 + 5000) / MILLION
    )


@pytest.mark.parametrize(
    ("model", "day", "dollars"),
    [
        ("gemini-4-argon", date(2026, 11, 30), 2),
        ("gemini-4-argon", date(2026, 12, 1), 4),
        ("gemini-3.8-flash", date(2026, 12, 31), 0.75),
        ("gemini-3.8-flash", date(2027, 1, 1), 1.5),
    ],
)
def test_a_price_changes_on_its_day(model: str, day: date, dollars: float) -> None:
    assert each("uncached_input", model, day) == pytest.approx(dollars)


def test_an_unknown_model_has_no_price_rather_than_none_to_pay() -> None:
    assert BUILT_IN.compute_price("claude-mythos-5-2", Usage(output=1), DAY) is None


def test_an_unstated_cache_price_makes_a_cached_call_s_cost_unknown() -> None:
    known = Catalogue({"m": ModelInfo((Rate(4, 20, 5, 5, None),))})

    assert known.compute_price("m", Usage(cache_read=1), DAY) is None
    assert known.compute_price("m", Usage(uncached_input=MILLION), DAY) == pytest.approx(4)


def test_every_model_states_its_sizes_and_prices() -> None:
    for name, found in MODELS.items():
        assert found.rates, name
        assert 0 < found.max_output < found.window, name
        assert BUILT_IN.get_info(name) is found


@pytest.mark.parametrize(
    ("model", "entry", "assumed"),
    [
        ("anthropic/claude-opus-5-5", "claude-opus-5-5", False),
        ("claude-opus-5-5-20260922", "claude-opus-5-5", False),
        ("anthropic-vertex/claude-opus-4-5@20251101", "claude-opus-4-5", False),
        ("openai/gpt-5.6-sol-preview", "gpt-5.6-sol", True),
        ("openai-compatible/gpt-6.1-sol:free", "gpt-6.1-sol", True),
        ("gemini/gemini-3.5-flash-lite-preview-09", "gemini-3.5-flash-lite", True),
        ("claude-sonnet-5-5-fast-20270101", "claude-sonnet-5-5", True),
        ("openai/gpt-5.45", "", False),
        ("openai/gpt-5.4.1", "", False),
        ("openai/gpt-6", "", False),
        ("gpt-5.5/mini", "", False),
        ("", "", False),
        ("/", "", False),
    ],
)
def test_a_name_resolves_exactly_then_without_its_provider_then_by_its_beginning(
    model: str, entry: str, assumed: bool
) -> None:
    found = BUILT_IN.resolve_name(model)

    assert (found.name, found.is_assumed) == (entry, assumed)
    listed = MODELS[entry] if entry else ModelInfo()
    assert found.info == replace(listed, has_assumed_price=assumed)


def test_the_longest_listed_beginning_counts() -> None:
    known = Catalogue({"a": ModelInfo(window=1000), "a-b": ModelInfo(window=2000)})

    assert known.get_info("x/a-b-c").window == 2000
    assert known.get_info("x/a-c").window == 1000
    assert known.get_info("a-b-c").window == 2000


def test_an_assumed_price_counts_as_a_price() -> None:
    assert each("output", "openai/gpt-5.6-luna-preview") == each("output", "gpt-5.6-luna")
