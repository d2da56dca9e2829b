"""Adds an operator's own models and prices to the built-in catalogue, and overrides it by them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from worker.errors import ConfigError
from worker.models.catalogue.built_in import BUILT_IN
from worker.models.catalogue.model_info import EFFORTS, Catalogue, Level, ModelInfo, Rate

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


def extend_catalogue(entries: Mapping[str, Mapping[str, Any]]) -> Catalogue:
    """Return the built-in catalogue with `entries` (model id → fields) added. Raises ConfigError
    naming the field that contradicts another one.

    The fields are those that an entry of `models.catalogue` states; the settings have checked the
    type of each. `like` names a listed model, of which everything is taken that is not stated. A
    field replaces that of a listed model with the same id. If `window` is given without
    `max_output`, an answer gets at most a quarter of the window. `levels` are all reasoning levels
    of the model; each may have a `window`, and `thinking_tokens` if the model takes a number
    instead of the name. Prices are dollars per million tokens. An entry with any price must state
    `input` and `output`; a cached token costs as much as an uncached one unless its price is
    stated. `tiers` are further prices above a number of input tokens (`above`), from a day on
    (`since`), or both; without `input` and `output` beside them, they are added to the built-in
    ones.
    """
    added = {model: _make_info(model, fields) for model, fields in entries.items()}
    return Catalogue({**BUILT_IN.models, **added})


def _make_info(model: str, fields: Mapping[str, Any]) -> ModelInfo:
    where = f"models.catalogue.{model}"
    changes = {field: fields[name] for name, field in _FIELDS.items() if name in fields}
    if "levels" in fields:
        changes["levels"] = _make_levels(fields["levels"])
    listed = _get_listed(where, model, fields.get("like", ""))
    if own_rates := _make_own_rate(where, fields):
        changes |= {"rates": own_rates, "has_assumed_price": False}
    if tiers := _make_tiers(where, fields):
        changes["rates"] = _add_tiers(where, own_rates or listed.rates, tiers)
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


def _get_listed(where: str, model: str, like: str) -> ModelInfo:
    """Return what is known of the model, or of the one that it is `like`. Raises ConfigError."""
    if like and not BUILT_IN.resolve_name(like).name:
        raise ConfigError(
            f"{where}.like: unknown model {like!r}; `sandpiper models list --all` names the known"
        )
    return BUILT_IN.get_info(like or model)


def _make_levels(fields: Mapping[str, Mapping[str, Any]]) -> tuple[Level, ...]:
    """Make reasoning levels of name → fields, from least to most."""
    return tuple(
        Level(name, fields[name].get("window", 0), fields[name].get("thinking_tokens"))
        for name in sorted(fields, key=EFFORTS.index)
    )


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


def _make_own_rate(where: str, fields: Mapping[str, Any]) -> tuple[Rate, ...]:
    """Make the price beside the tiers; () if the entry states none."""
    return (_make_rate(where, fields),) if any(name in fields for name in _PRICES) else ()


def _make_tiers(where: str, fields: Mapping[str, Any]) -> tuple[Rate, ...]:
    tiers = enumerate(fields.get("tiers", ()))
    return tuple(_make_rate(f"{where}.tiers.{at}", tier) for at, tier in tiers)


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
