"""An operator's own models and prices."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import yaml

from worker.conversation.messages import Usage
from worker.errors import ConfigError
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import Catalogue, Level, ModelInfo, make_flat_rate

MILLION = 1_000_000
DAY = date(2026, 11, 21)


def loaded(text: str) -> Mapping[str, Mapping[str, Any]]:
    """What a YAML file says under `models.catalogue`."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return found


def test_a_model_is_added_with_its_sizes_prices_and_effort() -> None:
    known = BUILT_IN.extend(
        loaded("""
qwen3:
  window: 131072
  max_output: 32768
  input: 0.5
  output: 1.5
  cache_read: 0.05
  cache_write: 0.6
  cache_write_1h: 0.7
  effort: low
  binds_thinking: true
""")
    )
    info = known.get_info("qwen3")

    assert (info.window, info.max_output) == (131_072, 32_768)
    assert (info.effort, info.binds_thinking, info.rates[0].write_1h) == ("low", True, 0.7)
    usage = Usage(uncached_input=MILLION, cache_read=MILLION, cache_write=MILLION, output=MILLION)
    assert known.compute_price("qwen3", usage, DAY) == pytest.approx(0.5 + 0.05 + 0.6 + 1.5)


def test_fields_not_stated_stay_those_of_the_listed_model() -> None:
    known = BUILT_IN.extend({"claude-sonnet-5-5": {"window": 600_000, "effort": "max"}})
    before, after = BUILT_IN.get_info("claude-sonnet-5-5"), known.get_info("claude-sonnet-5-5")

    assert (after.window, after.effort) == (600_000, "max")
    assert (after.rates, after.max_output) == (before.rates, before.max_output)
    assert BUILT_IN.get_info("claude-sonnet-5-5") is before


def test_with_a_small_window_alone_an_answer_gets_a_quarter_of_it() -> None:
    known = BUILT_IN.extend({"small": {"window": 8192}, "large": {"window": 1_000_000}})

    assert known.get_info("small").max_output == 2048
    assert known.get_info("large").max_output == ModelInfo().max_output


def test_stated_prices_replace_all_tiers_of_a_listed_model() -> None:
    known = BUILT_IN.extend({"claude-haiku-5-5": {"input": 1, "output": 2}})

    assert known.compute_price(
        "claude-haiku-5-5", Usage(uncached_input=MILLION), DAY
    ) == pytest.approx(1)


def test_an_unpriced_model_stays_unpriced_and_a_price_of_zero_is_one() -> None:
    known = BUILT_IN.extend({"free": {"input": 0, "output": 0}, "unknown": {"window": 64_000}})

    assert (
        known.compute_price("free", Usage(uncached_input=MILLION, cache_read=5, output=7), DAY)
        == 0.0
    )
    assert known.compute_price("unknown", Usage(uncached_input=1), DAY) is None


def test_a_cached_token_costs_no_less_than_stated() -> None:
    known = BUILT_IN.extend({"m": {"input": 2, "output": 4}})
    usage = Usage(cache_read=MILLION, cache_write=MILLION)

    assert known.compute_price("m", usage, DAY) == pytest.approx(4)


def test_tiers_hold_above_their_tokens_and_from_their_day_on() -> None:
    known = BUILT_IN.extend(
        loaded("""
m:
  input: 1
  output: 10
  tiers:
    - {above: 1000, input: 2, output: 20}
    - {since: 2027-01-01, input: 3, output: 30}
    - {since: 2027-01-01, above: 1000, input: 4, output: 40}
    - {since: 2027-06-01, input: 5, output: 50}
""")
    )

    def price(tokens: int, day: date) -> float | None:
        found = known.compute_price("m", Usage(uncached_input=tokens), day)
        return None if found is None else round(found / tokens * MILLION, 6)

    assert [price(1000, DAY), price(1001, DAY)] == [1, 2]
    assert [price(1000, date(2027, 1, 1)), price(1001, date(2027, 1, 1))] == [3, 4]
    # A new price of short requests leaves that of long ones as it was.
    assert [price(1000, date(2027, 6, 1)), price(1001, date(2027, 6, 1))] == [5, 4]


def test_tiers_alone_are_added_to_the_prices_of_a_listed_model() -> None:
    tiers = [
        {"above": 500, "input": 7, "output": 8},
        {"since": date(2027, 1, 1), "input": 3, "output": 15},
    ]
    known = BUILT_IN.extend({"claude-haiku-5-5": {"tiers": tiers}})

    def cost(models: Catalogue, tokens: int, day: date = DAY) -> float | None:
        return models.compute_price("claude-haiku-5-5", Usage(uncached_input=tokens), day)

    assert cost(known, 500) == cost(BUILT_IN, 500) is not None
    assert cost(known, 501) == pytest.approx(501 * 7 / MILLION)
    assert cost(known, 500, date(2027, 1, 1)) == pytest.approx(500 * 3 / MILLION)
    always = BUILT_IN.extend({"claude-haiku-5-5": {"tiers": [{"input": 7, "output": 8}]}})
    assert cost(always, 500, date(2027, 1, 1)) == pytest.approx(500 * 7 / MILLION)


def test_levels_are_read_with_their_windows_and_kept_in_order() -> None:
    known = BUILT_IN.extend(
        loaded("""
qwen3:
  window: 131072
  levels: {high: {window: 65536}, low: {}, medium: {thinking_tokens: 4096}}
  default_level: low
  temperature: true
""")
    )
    info = known.get_info("openai-compatible/qwen3")

    assert info.levels == (Level("low"), Level("medium", 0, 4096), Level("high", 65_536))
    assert (info.default_level, info.takes_temperature) == ("low", True)
    assert known.get_info("openai-compatible/qwen3", "high").window == 65_536


def test_an_entry_for_a_variant_has_the_assumed_price_until_it_states_one() -> None:
    known = BUILT_IN.extend(
        {"gpt-5.5-mini": {"window": 400_000}, "gpt-5.5-nano": {"input": 1, "output": 2}}
    )
    mini, nano = known.get_info("openai/gpt-5.5-mini"), known.get_info("openai/gpt-5.5-nano")

    assert not known.resolve_name("openai/gpt-5.5-mini").is_assumed
    assert (mini.window, mini.has_assumed_price, bool(mini.rates)) == (400_000, True, True)
    assert not nano.has_assumed_price


def test_an_entry_serves_the_variants_of_its_model_too() -> None:
    known = BUILT_IN.extend({"qwen3": {"window": 40_000, "input": 1, "output": 2}})
    info = known.get_info("openai-compatible/qwen3-32b")

    assert (info.window, info.has_assumed_price) == (40_000, True)


def test_a_model_may_be_listed_under_its_provider() -> None:
    known = BUILT_IN.extend(
        {"openai-compatible/org/qwen3": {"window": 50_000}, "qwen3": {"window": 60_000}}
    )

    assert known.get_info("openai-compatible/org/qwen3").window == 50_000
    assert known.get_info("openai-compatible/qwen3").window == 60_000
    assert known.get_info("anthropic/claude-haiku-4-5@20251001") is BUILT_IN.get_info(
        "claude-haiku-4-5"
    )
    assert known.get_info("openai-compatible/unheard-of") == ModelInfo()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"window": 8000, "max_output": 8000}, "m.max_output: expected 1 to less than the window"),
        ({"window": 3}, "m.max_output: expected 1 to less than the window of 3 tokens; found 0"),
        ({"levels": {"low": {"window": 9}}}, "m.levels.low.window: expected more than max_output"),
        ({"levels": {"low": {}}, "effort": "high"}, "m.effort: unknown level 'high'; known: low"),
        ({"levels": {"low": {}}, "default_level": "max"}, "m.default_level: unknown level 'max'"),
        ({"input": 1}, "m.output: missing: state input and output together"),
        ({"cache_read": 1}, "m.input: missing"),
        (
            {"tiers": [{"above": 5, "input": 1, "output": 1}]},
            "m.tiers: state input and output beside them",
        ),
    ],
)
def test_a_field_that_contradicts_another_is_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BUILT_IN.extend({"m": fields})


@pytest.mark.attack("costs")
def test_at_an_assumed_price_nothing_that_is_unknown_is_free() -> None:
    known = replace(BUILT_IN, assumed_rate=make_flat_rate(3.0))
    used = Usage(uncached_input=100_000, cache_read=200_000, cache_write=100_000, output=100_000)
    for name in ("openai-compatible/novel", "novel", "anthropic/claude-novel-1"):
        assert known.compute_price(name, used, DAY) == pytest.approx(1.5)
        assert not known.has_price(name, DAY)
    listed = "anthropic/claude-opus-5-5"
    assert known.compute_price(listed, used, DAY) == BUILT_IN.compute_price(listed, used, DAY)
