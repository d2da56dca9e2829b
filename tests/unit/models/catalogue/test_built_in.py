"""Prices as the reference states them (wire-models 5)."""

from datetime import date

import pytest

from worker.core.conversation.messages import Usage
from worker.models.catalogue.built_in import MODELS, info, price

MILLION = 1_000_000
DAY = date(2026, 11, 21)


def each(kind: str, model: str, day: date = DAY) -> float | None:
    return price(model, Usage(**{kind: MILLION}), day)


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
    assert price(model, Usage(uncached_input=tokens), DAY) == pytest.approx(dollars)


def test_cached_tokens_count_for_the_tier() -> None:
    usage = Usage(uncached_input=1, cache_read=100_000)

    assert price("claude-haiku-5-5", usage, DAY) == pytest.approx((0.5 + 5000) / MILLION)


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
    assert price("claude-mythos-5-2", Usage(output=1), DAY) is None


def test_an_unstated_cache_price_makes_a_cached_call_s_cost_unknown() -> None:
    assert each("cache_read", "gpt-5.6-sol") is None
    assert price("gpt-5.6-sol", Usage(uncached_input=MILLION // 10), DAY) == pytest.approx(0.4)


def test_every_model_states_its_sizes_and_prices() -> None:
    for name, found in MODELS.items():
        assert found.rates, name
        assert 0 < found.max_output < found.window, name
        assert info(name) is found
