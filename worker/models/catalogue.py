"""The catalogue of models: windows, reasoning levels, prices, abilities; and an operator's entries.

Prices are dollars per million tokens. An unknown model has no price, which is not a price of 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

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
_ENDS = "-@:_"
"""Characters after a listed name that make it the name of a variant ("gpt-5.5-mini"). A digit or a
point would make it another model's name ("gpt-5.55")."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The prices of a request, in dollars per million tokens."""

    input: float
    output: float
    write_5m: float
    """Of tokens written to the cache for five minutes."""
    write_1h: float
    read: float | None
    """Of tokens read from the cache. None if no source states it: the cost of a request that read
    the cache is then unknown."""
    above_tokens: int = 0
    """The request has more input tokens than that, cached ones included."""
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
    """What is known about one model."""

    rates: tuple[Rate, ...] = ()
    window: int = UNKNOWN_WINDOW
    """In tokens, as is `max_output`."""
    max_output: int = UNKNOWN_OUTPUT
    binds_thinking: bool = False
    """Its thinking is signed together with everything before it."""
    default_level: str = ""
    """The reasoning level of a request that states none, "" if unknown."""
    effort: str = ""
    """The level that every request states, "" for none."""
    chat_effort: str = ""
    """The level that a request must state before Chat Completions accepts tools."""
    levels: tuple[Level, ...] = ()
    """From least to most, () if unknown."""
    thinks_if_asked: bool = False
    """It thinks, at any level, only if the request asks for adaptive thinking."""
    takes_temperature: bool | None = None
    """None if unknown."""
    has_assumed_price: bool = False
    """The rates are another model's."""
    has_text_tools: bool = False
    """Its server accepts no native tools."""
    obeys_required: bool = False
    """Its server obeys `tool_choice: required`, and the model is to end its turns with a call."""

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
class CatalogueEntry:
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

    def resolve_name(self, model: str) -> CatalogueEntry:
        """Return the entry of a model's name. The name is looked up with and without its provider,
        each also without the date at its end. Otherwise, returns the entry of the longest listed
        name that it begins with, or an empty entry.
        """
        bare = model.partition("/")[2]
        names = (model, bare, _DATED.sub("", model), _DATED.sub("", bare))
        for name in names:
            if name in self.models:
                return CatalogueEntry(name, self.models[name])
        ends = (name[:at] for name in names[:2] for at, sign in enumerate(name) if sign in _ENDS)
        prefix = max((each for each in ends if each in self.models), key=len, default="")
        if not prefix:
            return CatalogueEntry("", ModelInfo())
        info = self.models[prefix]
        return CatalogueEntry(
            prefix, replace(info, has_assumed_price=bool(info.rates)), is_assumed=True
        )

    def extend(self, entries: Mapping[str, Mapping[str, Any]]) -> "Catalogue":
        """Return the catalogue with an operator's `entries` (model id → fields) added. Raises
        ConfigError naming the field that contradicts another one.

        The fields are those that an entry of `models.catalogue` states; the settings have checked
        the type of each. `like` names a listed model, of which everything is taken that is not
        stated. A field replaces that of a listed model with the same id. If `window` is given
        without `max_output`, an answer gets at most a quarter of the window. `levels` are all
        reasoning levels of the model; each may have a `window`, and `thinking_tokens` if the model
        takes a number instead of the name. An entry with any price must state `input` and `output`;
        a cached token costs as much as an uncached one unless its price is stated. `tiers` are
        further prices above a number of input tokens (`above`), from a day on (`since`), or both;
        without `input` and `output` beside them, they are added to the listed ones.
        """
        added = {model: _make_info(self, model, fields) for model, fields in entries.items()}
        return replace(self, models={**self.models, **added})

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


# ------------------------------------------------------------------------ entries of an operator

_FIELDS = {
    "window": "window",
    "max_output": "max_output",
    "effort": "effort",
    "chat_effort": "chat_effort",
    "default_level": "default_level",
    "binds_thinking": "binds_thinking",
    "temperature": "takes_temperature",
    "text_tools": "has_text_tools",
    "forced_decision": "obeys_required",
}
"""The names that the settings have for fields of `ModelInfo`."""
_PRICES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


def _make_info(catalogue: Catalogue, model: str, fields: Mapping[str, Any]) -> ModelInfo:
    where = f"models.catalogue.{model}"
    changes = {field: fields[name] for name, field in _FIELDS.items() if name in fields}
    if "levels" in fields:
        levels = fields["levels"]
        changes["levels"] = tuple(
            Level(name, levels[name].get("window", 0), levels[name].get("thinking_tokens"))
            for name in sorted(levels, key=EFFORTS.index)
        )
    like = fields.get("like", "")
    if like and not catalogue.resolve_name(like).name:
        raise ConfigError(
            f"{where}.like: unknown model {like!r}; `sandpiper models list --all` names the known"
        )
    listed = catalogue.get_info(like or model)
    rates = listed.rates
    if any(name in fields for name in _PRICES):
        rates = (_make_rate(where, fields),)
        changes |= {"rates": rates, "has_assumed_price": False}
    if tiers := fields.get("tiers"):
        made = [_make_rate(f"{where}.tiers.{at}", tier) for at, tier in enumerate(tiers)]
        changes["rates"] = _add_tiers(where, rates, made)
    if "window" in changes and "max_output" not in changes:
        changes["max_output"] = min(listed.max_output, changes["window"] // 4)
    info = replace(listed, **changes)
    if "levels" in changes and "default_level" not in changes:
        level = info.find_level(info.default_level)
        info = replace(info, default_level=level.name if level else "")
    if not 0 < info.max_output < info.window:
        raise ConfigError(
            f"{where}.max_output: expected 1 to less than the window of {info.window} tokens; "
            f"found {info.max_output}"
        )
    _check_levels(where, info)
    return info


def _check_levels(where: str, info: ModelInfo) -> None:
    """Raises ConfigError for levels that contradict the model's other fields."""
    for level in info.levels:
        if level.window and not info.max_output < level.window:
            raise ConfigError(
                f"{where}.levels.{level.name}.window: expected more than max_output, "
                f"{info.max_output} tokens; found {level.window}"
            )
    names = [level.name for level in info.levels]
    for field, name in (("effort", info.effort), ("default_level", info.default_level)):
        if name and names and name not in names:
            raise ConfigError(f"{where}.{field}: unknown level {name!r}; known: {', '.join(names)}")


def _add_tiers(where: str, rates: Iterable[Rate], tiers: Sequence[Rate]) -> tuple[Rate, ...]:
    """Return the rates with the tiers, which replace those of the same tokens and day, or of any
    day if they have none. Raises ConfigError if short requests would have no price."""
    stated = {(each.above_tokens, each.valid_from) for each in tiers}
    kept = [
        each
        for each in rates
        if not stated & {(each.above_tokens, day) for day in (each.valid_from, date.min)}
    ]
    rates = (*kept, *tiers)
    if all(each.above_tokens for each in rates):
        raise ConfigError(
            f"{where}.tiers: state input and output beside them, for shorter requests"
        )
    return rates


def _make_rate(where: str, fields: Mapping[str, Any]) -> Rate:
    for name in ("input", "output"):
        if name not in fields:
            raise ConfigError(f"{where}.{name}: missing: state input and output together")
    plain = fields["input"]
    write = fields.get("cache_write", plain)
    return Rate(
        input=plain,
        output=fields["output"],
        write_5m=write,
        write_1h=fields.get("cache_write_1h", write),
        read=fields.get("cache_read", plain),
        above_tokens=fields.get("above", 0),
        valid_from=fields.get("since", date.min),
    )
