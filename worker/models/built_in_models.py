"""The built-in catalogue of models. Data only."""

from dataclasses import replace
from datetime import date

from worker.models.catalogue import Catalogue, Level, ModelInfo, Rate

_LEVELS = {
    name: Level(name) for name in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
}


def _pick_levels(first: str, last: str, *, without: str = "") -> tuple[Level, ...]:
    """Return the levels from `first` to `last`; no model has both "none" and "minimal"."""
    names = list(_LEVELS)
    chosen = names[names.index(first) : names.index(last) + 1]
    left_out = {without, "minimal"} if first == "none" else {without}
    return tuple(_LEVELS[name] for name in chosen if name not in left_out)


def _make_budgets(**budgets: int) -> tuple[Level, ...]:
    """Return levels as numbers of thinking tokens. The numbers are our choice, within the range
    that the provider documents and the longest answer that is requested."""
    return tuple(Level(name, budget=budget) for name, budget in budgets.items())


# ------------------------------------------------------------------------------------- Anthropic
#
# Windows, prices, default levels and kinds of thinking are from the models' own pages at
# platform.claude.com. Its page on effort names the models up to the 5 line that have xhigh and max.
# The levels of later models are from guides, and the prices of Fable 5.2 from other tools.

_UP_TO_MAX = _pick_levels("low", "max")
_WITH_NONE = (_LEVELS["none"], *_UP_TO_MAX)
_NO_XHIGH = (_LEVELS["none"], *_pick_levels("low", "max", without="xhigh"))


def _make_claude(
    cost: tuple[float, float, float],
    levels: tuple[Level, ...],
    *,
    binds: bool = False,
    default: str = "high",
    thinks_if_asked: bool = False,
) -> ModelInfo:
    """Make an entry. `cost` is the price of input, output and cache reads. Cache writes cost 1.25
    times (5 minutes) or twice (1 hour) the input. `thinks_if_asked`: see `ModelInfo`."""
    per_input, output, read = cost
    return ModelInfo(
        rates=(Rate(per_input, output, per_input * 1.25, per_input * 2, read),),
        window=1_000_000,
        max_output=128_000,
        binds_thinking=binds,
        default_level=default,
        levels=levels,
        thinks_if_asked=thinks_if_asked,
        takes_temperature=levels is _NO_XHIGH,
    )


def _multiply_rate(rate: Rate, factor: float) -> Rate:
    return replace(
        rate,
        input=rate.input * factor,
        output=rate.output * factor,
        write_5m=rate.write_5m * factor,
        write_1h=rate.write_1h * factor,
        read=None if rate.read is None else rate.read * factor,
    )


_BUDGETS = _make_budgets(none=0, low=2048, medium=6144, high=10_240)


def _make_old_claude(cost: tuple[float, float, float]) -> ModelInfo:
    """Make the entry of a model without adaptive thinking, which takes a number of tokens."""
    info = _make_claude(cost, _BUDGETS, default="none")
    return replace(info, window=200_000, max_output=64_000, takes_temperature=True)


_HAIKU_5_5 = ModelInfo(
    rates=(
        Rate(0.10, 0.50, 0.125, 0.20, 0.01),
        Rate(0.50, 2.50, 0.625, 1.00, 0.05, above_tokens=100_000),
    ),
    window=1_000_000,
    max_output=128_000,
    binds_thinking=True,
    default_level="medium",
    levels=_UP_TO_MAX,
    takes_temperature=False,
)

_ANTHROPIC = {
    "claude-fable-5-2": _make_claude((8, 40, 0.20), _UP_TO_MAX, binds=True),
    "claude-fable-5-1": _make_claude((10, 50, 0.25), _UP_TO_MAX, binds=True),
    "claude-fable-5": _make_claude((10, 50, 1.00), _UP_TO_MAX),
    "claude-opus-5-5": _make_claude((4, 20, 0.20), _UP_TO_MAX, binds=True, default="medium"),
    "claude-opus-5": _make_claude((5, 25, 0.50), _WITH_NONE),
    "claude-opus-4-8": _make_claude((5, 25, 0.50), _WITH_NONE, thinks_if_asked=True),
    "claude-opus-4-7": _make_claude((5, 25, 0.50), _WITH_NONE, thinks_if_asked=True),
    "claude-opus-4-6": _make_claude((5, 25, 0.50), _NO_XHIGH, thinks_if_asked=True),
    "claude-opus-4-5": _make_old_claude((5, 25, 0.50)),
    "claude-sonnet-5-5": _make_claude((2, 10, 0.10), _UP_TO_MAX, binds=True),
    "claude-sonnet-5": _make_claude((2, 10, 0.20), _WITH_NONE),
    "claude-sonnet-4-6": _make_claude((3, 15, 0.30), _NO_XHIGH, thinks_if_asked=True),
    "claude-sonnet-4-5": _make_old_claude((3, 15, 0.30)),
    "claude-haiku-5-5": _HAIKU_5_5,
    "claude-haiku-4-5": _make_old_claude((1, 5, 0.10)),
}

# Amazon Bedrock's inference profiles: what their names begin with, and their price as a multiple of
# Anthropic's own, from other tools.
_BEDROCK_PROFILES = {
    "": 1.0,
    "global.": 1.0,
    "us-gov.": 1.2,
    **dict.fromkeys(("us.", "eu.", "apac.", "jp.", "au."), 1.1),
}
_BEDROCK_NAMES = {"claude-opus-4-6": "claude-opus-4-6-v1"}
"""Models that have another name there, apart from a date and a version at its end."""

_BEDROCK = {
    f"{profile}anthropic.{_BEDROCK_NAMES.get(name, name)}": replace(
        info, rates=tuple(_multiply_rate(rate, factor) for rate in info.rates)
    )
    for name, info in _ANTHROPIC.items()
    for profile, factor in _BEDROCK_PROFILES.items()
}


# ---------------------------------------------------------------------------------------- Google
#
# Up to 3.7, windows, levels and default levels are from Google's pages. Those of 3.8 Flash and
# Gemini 4, and the prices of Gemini 4, are from other tools.


def _make_gemini_rate(
    per_input: float, output: float, read: float, above: int = 0, since: date = date.min
) -> Rate:
    """Make a rate. Caching is implicit: writing to the cache costs as much as uncached input."""
    return Rate(per_input, output, per_input, per_input, read, above, since)


def _make_gemini(*rates: Rate, levels: tuple[Level, ...], default: str = "") -> ModelInfo:
    return ModelInfo(
        rates,
        window=1_048_576,
        max_output=65_536,
        default_level=default,
        levels=levels,
        takes_temperature=True,
    )


_FLASH = (
    _make_gemini_rate(0.75, 3.75, 0.075),
    _make_gemini_rate(1.50, 7.50, 0.15, since=date(2027, 1, 1)),
)
_FROM_LOW = _pick_levels("low", "high")
_FROM_LOW_TO_XHIGH = _pick_levels("low", "xhigh")
_FROM_MINIMAL = _pick_levels("minimal", "high")
_PRO_BUDGETS = _make_budgets(low=2048, medium=6144, high=10_240)

_GEMINI = {
    "gemini-4-argon": _make_gemini(
        _make_gemini_rate(2, 10, 0.10),
        _make_gemini_rate(4, 20, 0.20, since=date(2026, 12, 1)),
        levels=_FROM_LOW,
        default="medium",
    ),
    # Where no cached price is stated, the documented discount of 90 % applies.
    "gemini-4-hydrogen": _make_gemini(
        _make_gemini_rate(1.5, 7.5, 0.15), levels=_FROM_LOW_TO_XHIGH, default="high"
    ),
    "gemini-3.8-flash": _make_gemini(*_FLASH, levels=_FROM_LOW, default="medium"),
    "gemini-3.7-flash": _make_gemini(*_FLASH, levels=_FROM_LOW, default="medium"),
    "gemini-3.6-flash": _make_gemini(*_FLASH, levels=_FROM_MINIMAL, default="medium"),
    "gemini-3.5-flash": _make_gemini(
        _make_gemini_rate(1.5, 9, 0.15), levels=_FROM_MINIMAL, default="medium"
    ),
    "gemini-3.5-flash-lite": _make_gemini(
        _make_gemini_rate(0.3, 2.5, 0.03), levels=_FROM_MINIMAL, default="minimal"
    ),
    "gemini-3.1-pro-preview": _make_gemini(
        _make_gemini_rate(2, 12, 0.2),
        _make_gemini_rate(4, 18, 0.4, above=200_000),
        levels=_FROM_LOW,
        default="high",
    ),
    "gemini-3.1-flash-lite": _make_gemini(
        _make_gemini_rate(0.25, 1.5, 0.025), levels=_FROM_MINIMAL, default="minimal"
    ),
    "gemini-2.5-pro": _make_gemini(
        _make_gemini_rate(1.25, 10, 0.125),
        _make_gemini_rate(2.5, 15, 0.25, above=200_000),
        levels=_PRO_BUDGETS,
    ),
    "gemini-2.5-flash": _make_gemini(_make_gemini_rate(0.3, 2.5, 0.03), levels=_BUDGETS),
}


# ---------------------------------------------------------------------------------------- OpenAI
#
# Prices, levels and windows of GPT-5.6, GPT-6 Sol and GPT-6.2 Sol are from developers.openai.com;
# those of the other models are from gateways. All have a window of 1,050,000 tokens: 128,000 for
# the answer, and the rest for the question.

_QUESTION = 922_000
_GPT_5 = _pick_levels("none", "xhigh")
_GPT_6 = _pick_levels("none", "max")
_ALWAYS = _pick_levels("low", "max")


def _make_gpt(
    per_input: float,
    output: float,
    read: float,
    *,
    levels: tuple[Level, ...],
    default: str = "",
    write: float = 1.25,
) -> ModelInfo:
    """Make an entry. Above 272K input tokens the whole request costs 2x for input and cache, and
    1.5x for output.

    A model with the level "none" accepts tools over Chat Completions only at that level.
    """
    tiers = []
    for above, factor, output_factor in ((0, 1.0, 1.0), (272_000, 2.0, 1.5)):
        cost, written = per_input * factor, per_input * factor * write
        tiers.append(Rate(cost, output * output_factor, written, written, read * factor, above))
    return ModelInfo(
        tuple(tiers),
        window=_QUESTION,
        max_output=128_000,
        default_level=default,
        chat_effort="none" if _LEVELS["none"] in levels else "",
        levels=levels,
        takes_temperature=False,
    )


_OPENAI = {
    "gpt-6.2-astra": _make_gpt(8, 40, 0.40, levels=_ALWAYS),
    "gpt-6.2-sol": _make_gpt(2, 10, 0.10, levels=_ALWAYS),
    "gpt-6.1-sol": _make_gpt(2, 10, 0.10, levels=_ALWAYS),
    "gpt-6.1-terra": _make_gpt(1, 5, 0.05, levels=_GPT_6, default="medium"),
    "gpt-6-astra": _make_gpt(10, 50, 1.00, levels=_ALWAYS),
    "gpt-6-sol": _make_gpt(2, 10, 0.20, levels=_GPT_6, default="medium"),
    "gpt-6-luna": _make_gpt(0.10, 0.50, 0.01, levels=_GPT_6, default="medium"),
    # The page calls these prices promotional, "at least until 21 November 2026".
    "gpt-5.6-sol": _make_gpt(4, 20, 0.40, levels=_GPT_6, default="medium"),
    "gpt-5.6-terra": _make_gpt(2, 12, 0.20, levels=_GPT_6, default="medium"),
    "gpt-5.6-luna": _make_gpt(0.2, 1.2, 0.02, levels=_GPT_6, default="medium"),
    "gpt-5.5": _make_gpt(5, 30, 0.50, write=1.0, levels=_GPT_5),
    "gpt-5.4": _make_gpt(2.5, 15, 0.25, write=1.0, levels=_GPT_5),
}

MODELS: dict[str, ModelInfo] = {**_ANTHROPIC, **_GEMINI, **_OPENAI, **_BEDROCK}

BUILT_IN = Catalogue(MODELS)
