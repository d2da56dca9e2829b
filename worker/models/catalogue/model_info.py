"""What the catalogue holds about a model: windows, reasoning levels, prices, abilities.

Prices are dollars per million tokens. An unknown model has no price, which is not a price of 0.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from worker.conversation.messages import Usage
from worker.errors import ConfigError

UNKNOWN_WINDOW = 128_000
UNKNOWN_OUTPUT = 16_000
"""Assumed for an unlisted model; all listed models have more. If the assumed window is too small, a
run ends early; if it is too large, the run loses its last request."""

EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The names of all providers' reasoning levels, from least to most; "" states no level."""

_DATED = re.compile(r"[-@]\d{8}(?:-v\d{1,3}:\d{1,3})?$")
"""A date at the end of a name, on Amazon Bedrock with a version behind it."""
_PARTS_OF_NAMES = "-@:_"
"""Characters after a listed name that make it the name of a variant ("gpt-5.5-mini"). A digit or a
point would make it another model's name ("gpt-5.55")."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Prices, from the day `valid_from` on, of a request with more than `above_tokens` input
    tokens, cached ones included.

    `read` is None if no source states it; the cost of a request that read the cache is then
    unknown.
    """

    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float | None
    above_tokens: int = 0
    valid_from: date = date.min


@dataclass(frozen=True, slots=True)
class Level:
    """One reasoning level. `window` is the context window at this level; 0 for the model's own.

    `budget` is the number of thinking tokens that is sent instead of the name to a model that does
    not accept names; None if it accepts the name.
    """

    name: str
    window: int = 0
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model. `binds_thinking`: its thinking is signed together with everything before it.

    `window` and `max_output` are in tokens. `levels` are its reasoning levels from least to most,
    empty if unknown. `default_level` is the level of a request that states none, "" if unknown.
    `effort` is the level that every request states, "" for none. `chat_effort` is the level that a
    request must state before Chat Completions accepts tools. `thinks_if_asked`: it thinks, at any
    level, only if the request asks for adaptive thinking. `takes_temperature` is None if unknown.
    `has_assumed_price`: the rates are another model's. `has_text_tools`: its server accepts no
    native tools. `obeys_required`: its server obeys `tool_choice: required`, and the model is to
    end its turns with a tool call.
    """

    rates: tuple[Rate, ...] = ()
    window: int = UNKNOWN_WINDOW
    max_output: int = UNKNOWN_OUTPUT
    binds_thinking: bool = False
    default_level: str = ""
    effort: str = ""
    chat_effort: str = ""
    levels: tuple[Level, ...] = ()
    thinks_if_asked: bool = False
    takes_temperature: bool | None = None
    has_assumed_price: bool = False
    has_text_tools: bool = False
    obeys_required: bool = False

    def may_think(self) -> bool:
        """Whether the model may think before it answers, as far as is known. What it thinks counts
        as part of its answer."""
        if self.effort:
            return self.effort != "none"
        thinks = not self.thinks_if_asked and self.default_level != "none"
        return bool(self.chat_effort) or (bool(self.levels) and thinks)

    def find_level(self, name: str) -> Level | None:
        """Return the listed level of this name, or None."""
        return next((level for level in self.levels if level.name == name), None)

    def get_stated_level(self) -> Level | None:
        """Return the level that requests state, or None if they state none."""
        return (self.find_level(self.effort) or Level(self.effort)) if self.effort else None


@dataclass(frozen=True, slots=True)
class Entry:
    """What a model's name resolves to. `name` is the listed name; "" if the model is unknown.

    `is_assumed`: only the beginning of the name is listed, so price, window and levels are those of
    a model that is probably similar.
    """

    name: str
    info: ModelInfo
    is_assumed: bool = False


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Models by id. `assumed_rate` is the price of a model without a known one, None for none."""

    models: Mapping[str, ModelInfo]
    assumed_rate: Rate | None = None

    def get_info(self, model: str, level: str = "") -> ModelInfo:
        """Return what is known about a model id, which may have its provider before it.

        With a `level`, `window` is that of the level, and `effort` is the level.
        """
        info = self.resolve_name(model).info
        if not level:
            return info
        listed = info.find_level(level)
        window = (listed.window if listed else 0) or info.window
        return replace(info, effort=level, window=window)

    def get_levels(self, model: str) -> tuple[str, ...]:
        """Return the names of a model's reasoning levels, from least to most; () if unknown."""
        return tuple(level.name for level in self.get_info(model).levels)

    def check_level(self, model: str, level: str, where: str = "") -> None:
        """Raises ConfigError, with the known levels, if a listed model lacks `level`. `where` is
        the setting that states the level.

        A model that is not listed, or listed without levels, may have any level of `EFFORTS`.
        """
        entry = self.resolve_name(model)
        known = () if entry.is_assumed else self.get_levels(model)
        names = known or EFFORTS[1:]
        if level and level not in names:
            raise ConfigError(
                f"{where}{': ' if where else ''}{model}: unknown reasoning level {level!r}; "
                f"known: {', '.join(names)}"
            )

    def resolve_name(self, model: str) -> Entry:
        """Return the entry of a model's name. The name is looked up with and without its provider,
        each also without the date at its end. Otherwise, returns the entry of the longest listed
        name that it begins with, or an empty entry.
        """
        bare = model.partition("/")[2]
        names = (model, bare, _DATED.sub("", model), _DATED.sub("", bare))
        for name in names:
            if name in self.models:
                return Entry(name, self.models[name])
        prefix = max((self._find_prefix(name) for name in names[:2]), key=len)
        if not prefix:
            return Entry("", ModelInfo())
        info = self.models[prefix]
        return Entry(prefix, replace(info, has_assumed_price=bool(info.rates)), is_assumed=True)

    def _find_prefix(self, name: str) -> str:
        """Return the longest listed name of which `name` is a variant; "" if there is none."""
        ends = [at for at, char in enumerate(name) if char in _PARTS_OF_NAMES]
        return next((name[:end] for end in reversed(ends) if name[:end] in self.models), "")

    def has_price(self, model: str, day: date) -> bool:
        """Whether a model's price on a day is known, if only that of a similar model."""
        return choose_rate(self.get_info(model).rates, 1, day) is not None

    def compute_price(self, model: str, usage: Usage, day: date) -> float | None:
        """Return the cost of one call in dollars, or None if a price it needs is unknown."""
        rate = choose_rate(self.get_info(model).rates, usage.input, day) or self.assumed_rate
        if rate is None or (usage.cache_read and rate.read is None):
            return None
        total = (
            usage.uncached_input * rate.input
            + usage.cache_read * (rate.read or 0.0)
            + usage.cache_write * rate.write_5m
            + usage.output * rate.output
        )
        return total / 1_000_000


def make_flat_rate(dollars: float) -> Rate:
    """Return the rate at which every token costs the same, in dollars per million."""
    return Rate(dollars, dollars, dollars, dollars, dollars)


def list_current_rates(rates: Iterable[Rate], day: date) -> list[Rate]:
    """Return the rates valid on `day`, one for each `above_tokens`, and all future ones."""
    steps: dict[int, list[Rate]] = {}
    for rate in sorted(rates, key=lambda rate: rate.valid_from):
        steps.setdefault(rate.above_tokens, []).append(rate)
    listed: list[Rate] = []
    for _, step in sorted(steps.items()):
        listed += [rate for rate in step if rate.valid_from <= day][-1:]
        listed += [rate for rate in step if rate.valid_from > day]
    return listed


def choose_rate(rates: tuple[Rate, ...], tokens: int, day: date) -> Rate | None:
    """Return the newest valid rate of the highest tier that the request reaches."""
    candidates = [
        rate for rate in rates if rate.valid_from <= day and rate.above_tokens < max(tokens, 1)
    ]
    return max(candidates, key=lambda rate: (rate.above_tokens, rate.valid_from), default=None)
