"""The built-in catalogue of models: windows, prices, abilities. Data only.

Prices are dollars per million tokens. An unknown model has no price, which is not a price of 0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from worker.core.conversation.messages import Usage

UNKNOWN_WINDOW = 128_000
UNKNOWN_OUTPUT = 16_000
"""Assumed for a model that is not listed: less than any listed one has. Too small a window ends a
run early; too large a one loses its last request."""

_DATED = re.compile(r"[-@]\d{8}$")


@dataclass(frozen=True, slots=True)
class Rate:
    """Prices from the day `valid_from` on of a request with more than `above_tokens` input tokens,
    cached ones included.

    `read` is None where no source states it: a request that read the cache then has no known cost.
    """

    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float | None
    above_tokens: int = 0
    valid_from: date = date.min


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model. `binds_thinking`: its thinking is signed together with all that precedes it.

    `window` and `max_output` are in tokens; `min_cached` is the shortest prefix that is cached.
    `default_effort` is the reasoning effort of a request that states none, "" if unknown. `effort`
    is stated in every request unless it is ""; `chat_effort` must be stated before Chat Completions
    accepts tools.
    """

    rates: tuple[Rate, ...] = ()
    window: int = UNKNOWN_WINDOW
    max_output: int = UNKNOWN_OUTPUT
    min_cached: int = 0
    binds_thinking: bool = False
    default_effort: str = ""
    effort: str = ""
    chat_effort: str = ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Models by id."""

    models: Mapping[str, ModelInfo]

    def get_info(self, model: str) -> ModelInfo:
        """Returns what is known of a model id, with or without a date at its end.

        An entry with the provider ("openai-compatible/qwen3") goes before one without.
        """
        return self._find_listed(model) or ModelInfo()

    def is_known(self, model: str) -> bool:
        """Whether the model is listed."""
        return self._find_listed(model) is not None

    def _find_listed(self, model: str) -> ModelInfo | None:
        bare = model.partition("/")[2]
        names = (model, bare, _DATED.sub("", model), _DATED.sub("", bare))
        return next((self.models[name] for name in names if name in self.models), None)

    def compute_price(self, model: str, usage: Usage, day: date) -> float | None:
        """Returns the cost of one call in dollars, or None if a price it needs is unknown."""
        rate = _choose_rate(self.get_info(model).rates, usage.input, day)
        if rate is None or (usage.cache_read and rate.read is None):
            return None
        total = (
            usage.uncached_input * rate.input
            + usage.cache_read * (rate.read or 0.0)
            + usage.cache_write * rate.write_5m
            + usage.output * rate.output
        )
        return total / 1_000_000


def _choose_rate(rates: tuple[Rate, ...], tokens: int, day: date) -> Rate | None:
    """Returns the newest valid rate of the highest tier that the request reaches."""
    fitting = [
        rate for rate in rates if rate.valid_from <= day and rate.above_tokens < max(tokens, 1)
    ]
    return max(fitting, key=lambda rate: (rate.valid_from, rate.above_tokens), default=None)


def _make_claude(
    cost: tuple[float, float, float],
    *,
    min_cached: int,
    binds: bool = False,
    small: bool = False,
    effort: str = "high",
) -> ModelInfo:
    """Makes an entry. `cost` is input, output, cache read; cache writes cost 1.25 and 2 times the
    input.

    `small` is for models before adaptive thinking: they reason only when told to.
    """
    per_input, output, read = cost
    rate = Rate(per_input, output, per_input * 1.25, per_input * 2, read)
    if small:
        return ModelInfo((rate,), 200_000, 64_000, min_cached, binds)
    return ModelInfo((rate,), 1_000_000, 128_000, min_cached, binds, effort)


_HAIKU_5_5 = ModelInfo(
    (
        Rate(0.10, 0.50, 0.125, 0.20, 0.01),
        Rate(0.50, 2.50, 0.625, 1.00, 0.05, above_tokens=100_000),
    ),
    1_000_000,
    128_000,
    512,
    True,
    "medium",
)

_ANTHROPIC = {
    "claude-fable-5-1": _make_claude((10, 50, 0.25), min_cached=512, binds=True),
    "claude-fable-5": _make_claude((10, 50, 1.00), min_cached=512),
    "claude-opus-5-5": _make_claude((4, 20, 0.20), min_cached=512, binds=True, effort="medium"),
    "claude-opus-5": _make_claude((5, 25, 0.50), min_cached=512),
    "claude-opus-4-8": _make_claude((5, 25, 0.50), min_cached=1024),
    "claude-opus-4-7": _make_claude((5, 25, 0.50), min_cached=2048),
    "claude-opus-4-6": _make_claude((5, 25, 0.50), min_cached=4096),
    "claude-opus-4-5": _make_claude((5, 25, 0.50), min_cached=4096, small=True),
    "claude-sonnet-5-5": _make_claude((2, 10, 0.10), min_cached=512, binds=True),
    "claude-sonnet-5": _make_claude((2, 10, 0.20), min_cached=1024),
    "claude-sonnet-4-6": _make_claude((3, 15, 0.30), min_cached=1024),
    "claude-sonnet-4-5": _make_claude((3, 15, 0.30), min_cached=1024, small=True),
    "claude-haiku-5-5": _HAIKU_5_5,
    "claude-haiku-4-5": _make_claude((1, 5, 0.10), min_cached=4096, small=True),
}


def _make_gemini_rate(
    per_input: float, output: float, read: float, above: int = 0, since: date = date.min
) -> Rate:
    """Makes a rate. Caching is implicit: writing to the cache costs as much as uncached input."""
    return Rate(per_input, output, per_input, per_input, read, above, since)


def _make_gemini(*rates: Rate, min_cached: int = 4096, effort: str = "") -> ModelInfo:
    return ModelInfo(rates, 1_048_576, 65_536, min_cached, default_effort=effort)


_FLASH = (
    _make_gemini_rate(0.75, 3.75, 0.075),
    _make_gemini_rate(1.50, 7.50, 0.15, since=date(2027, 1, 1)),
)

_GEMINI = {
    "gemini-4-argon": _make_gemini(
        _make_gemini_rate(2, 10, 0.10),
        _make_gemini_rate(4, 20, 0.20, since=date(2026, 12, 1)),
        effort="medium",
    ),
    "gemini-3.8-flash": _make_gemini(*_FLASH),
    "gemini-3.7-flash": _make_gemini(*_FLASH),
    "gemini-3.6-flash": _make_gemini(*_FLASH),
    # Where no cached price is stated, the documented discount of 90 % applies.
    "gemini-3.5-flash": _make_gemini(_make_gemini_rate(1.5, 9, 0.15)),
    "gemini-3.5-flash-lite": _make_gemini(_make_gemini_rate(0.3, 2.5, 0.03)),
    "gemini-3.1-pro-preview": _make_gemini(
        _make_gemini_rate(2, 12, 0.2), _make_gemini_rate(4, 18, 0.4, above=200_000)
    ),
    "gemini-3.1-flash-lite": _make_gemini(_make_gemini_rate(0.25, 1.5, 0.025)),
    "gemini-2.5-pro": _make_gemini(
        _make_gemini_rate(1.25, 10, 0.125),
        _make_gemini_rate(2.5, 15, 0.25, above=200_000),
        min_cached=2048,
    ),
    "gemini-2.5-flash": _make_gemini(_make_gemini_rate(0.3, 2.5, 0.03), min_cached=2048),
}


def _make_gpt(
    per_input: float,
    output: float,
    read: float | None = None,
    *,
    write: float = 1.25,
    window: int = 200_000,
    chat_effort: str = "",
) -> ModelInfo:
    """Makes an entry. Above 272K input tokens the whole request costs 2x input and cache, 1.5x
    output.

    A window that is not stated is assumed to end below that step.
    """
    tiers = []
    for above, factor, output_factor in ((0, 1.0, 1.0), (272_000, 2.0, 1.5)):
        cost = per_input * factor
        cached = None if read is None else read * factor
        tiers.append(Rate(cost, output * output_factor, cost * write, cost * write, cached, above))
    return ModelInfo(tuple(tiers), window, 128_000, 1024, chat_effort=chat_effort)


_OPENAI = {
    "gpt-6.2-astra": _make_gpt(8, 40, 0.40, window=1_050_000),
    "gpt-6.2-sol": _make_gpt(2, 10, window=1_050_000),
    "gpt-6.1-sol": _make_gpt(2, 10, 0.10),
    "gpt-6-astra": _make_gpt(10, 50, 1.00),
    "gpt-6-sol": _make_gpt(2, 10, 0.20, chat_effort="none"),
    "gpt-6-luna": _make_gpt(0.10, 0.50, 0.01, chat_effort="none"),
    "gpt-5.6-sol": _make_gpt(4, 20, chat_effort="none"),
    "gpt-5.6-terra": _make_gpt(2, 12, chat_effort="none"),
    "gpt-5.6-luna": _make_gpt(0.2, 1.2, chat_effort="none"),
    "gpt-5.5": _make_gpt(5, 30, write=1.0, chat_effort="none"),
    "gpt-5.4": _make_gpt(2.5, 15, write=1.0, chat_effort="none"),
}

MODELS: dict[str, ModelInfo] = {**_ANTHROPIC, **_GEMINI, **_OPENAI}

BUILT_IN = Catalogue(MODELS)
info = BUILT_IN.get_info
price = BUILT_IN.compute_price
