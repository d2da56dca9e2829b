"""Reads an operator's own models and prices, which override the built-in catalogue."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from worker.errors import ConfigError
from worker.models.catalogue.built_in import BUILT_IN
from worker.models.catalogue.model_info import EFFORTS, Catalogue, Level, ModelInfo, Rate

_SIZES = ("window", "max_output", "min_cached")
_EFFORTS = ("effort", "chat_effort", "default_level")
_SWITCHES = {
    "binds_thinking": "binds_thinking",
    "temperature": "takes_temperature",
    "text_tools": "has_text_tools",
    "forced_decision": "obeys_required",
}
_LEVEL = ("window", "thinking_tokens")
_PRICES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_TIER = (*_PRICES, "above", "since")
_KNOWN = (*_SIZES, *_EFFORTS, *_SWITCHES, *_PRICES, "levels", "tiers")


def extend_catalogue(
    entries: Mapping[str, Mapping[str, Any]], built_in: Catalogue = BUILT_IN
) -> Catalogue:
    """Returns `built_in` with `entries` (model id → fields) added. Raises ConfigError naming the
    field.

    A field replaces that of a listed model with the same id. If `window` is given without
    `max_output`, an answer gets at most a quarter of the window. `levels` are all reasoning levels
    of the model; each may have a `window`, and `thinking_tokens` if the model takes a number
    instead of the name. Prices are dollars per million tokens. An entry with any price must state
    `input` and `output`; a cached token costs as much as an uncached one unless its price is
    stated. `tiers` are further prices above a number of input tokens (`above`), from a day on
    (`since`), or both; without `input` and `output` beside them, they are added to the built-in
    ones.
    """
    added = {model: _read_info(model, fields, built_in) for model, fields in entries.items()}
    return Catalogue({**built_in.models, **added})


def _read_info(model: str, fields: Mapping[str, Any], built_in: Catalogue) -> ModelInfo:
    where = f"models.catalogue.{model}"
    _refuse_unknown(where, fields, _KNOWN)
    changes: dict[str, Any] = {
        name: _read_tokens(where, fields, name) for name in _pick_names(fields, _SIZES)
    }
    changes |= {name: _read_effort(where, fields, name) for name in _pick_names(fields, _EFFORTS)}
    changes |= {_SWITCHES[name]: bool(fields[name]) for name in _pick_names(fields, _SWITCHES)}
    if "levels" in fields:
        changes["levels"] = _read_levels(f"{where}.levels", fields["levels"])
    listed = built_in.get_info(model)
    if own := _read_own_rate(where, fields):
        changes |= {"rates": own, "has_assumed_price": False}
    if tiers := _read_tiers(where, fields):
        changes["rates"] = _add_tiers(where, own or listed.rates, tiers)
    if "window" in changes and "max_output" not in changes:
        changes["max_output"] = min(listed.max_output, changes["window"] // 4)
    found = replace(listed, **changes)
    if "levels" in changes and "default_level" not in changes:
        known = found.find_level(found.default_level)
        found = replace(found, default_level=known.name if known else "")
    if not 0 < found.max_output < found.window:
        raise ConfigError(
            f"{where}.max_output: expected 1 to less than the window of {found.window} tokens; "
            f"found {found.max_output}"
        )
    _check_levels(where, found)
    return found


def _read_levels(where: str, fields: Any) -> tuple[Level, ...]:
    """Reads reasoning levels (name → fields, or nothing) and sorts them from least to most."""
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: expected a mapping")
    _refuse_unknown(where, fields, EFFORTS[1:])
    return tuple(
        _read_level(f"{where}.{name}", name, fields[name] or {})
        for name in sorted(fields, key=EFFORTS.index)
    )


def _read_level(where: str, name: str, fields: Any) -> Level:
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: expected a mapping")
    _refuse_unknown(where, fields, _LEVEL)
    window = _read_tokens(where, fields, "window") if "window" in fields else 0
    stated = "thinking_tokens" in fields
    budget = _read_tokens(where, fields, "thinking_tokens") if stated else None
    return Level(name, window, budget)


def _check_levels(where: str, found: ModelInfo) -> None:
    """Raises ConfigError for levels that contradict the model's other fields."""
    for level in found.levels:
        if level.window and not found.max_output < level.window:
            raise ConfigError(
                f"{where}.levels.{level.name}.window: expected more than max_output, "
                f"{found.max_output} tokens; found {level.window}"
            )
    names = [level.name for level in found.levels]
    for field, name in (("effort", found.effort), ("default_level", found.default_level)):
        if name and names and name not in names:
            raise ConfigError(f"{where}.{field}: unknown level {name!r}; known: {', '.join(names)}")


def _read_own_rate(where: str, fields: Mapping[str, Any]) -> tuple[Rate, ...]:
    """Reads the price beside the tiers; () if the entry states none."""
    return (_read_rate(where, fields),) if _pick_names(fields, _PRICES) else ()


def _read_tiers(where: str, fields: Mapping[str, Any]) -> tuple[Rate, ...]:
    tiers = fields.get("tiers") or ()
    if not isinstance(tiers, list | tuple):
        raise ConfigError(f"{where}.tiers: expected a list")
    return tuple(_read_tier(f"{where}.tiers.{at}", tier) for at, tier in enumerate(tiers))


def _add_tiers(where: str, rates: Iterable[Rate], tiers: Sequence[Rate]) -> tuple[Rate, ...]:
    """Returns the rates with the tiers, which replace those of the same tokens and day, or of any
    day if they have none. Raises ConfigError if short requests would have no price."""
    stated = {(each.above_tokens, each.valid_from) for each in tiers}
    kept = [
        each
        for each in rates
        if not stated & {(each.above_tokens, day) for day in (each.valid_from, date.min)}
    ]
    found = (*kept, *tiers)
    if all(each.above_tokens for each in found):
        raise ConfigError(
            f"{where}.tiers: state input and output beside them, for shorter requests"
        )
    return found


def _read_tier(where: str, fields: Any) -> Rate:
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: expected a mapping")
    _refuse_unknown(where, fields, _TIER)
    return _read_rate(where, fields)


def _read_rate(where: str, fields: Mapping[str, Any]) -> Rate:
    for name in ("input", "output"):
        if name not in fields:
            raise ConfigError(f"{where}.{name}: missing: state input and output together")
    plain = _read_dollars(where, fields, "input")
    write = _read_dollars(where, fields, "cache_write", plain)
    return Rate(
        input=plain,
        output=_read_dollars(where, fields, "output"),
        write_5m=write,
        write_1h=_read_dollars(where, fields, "cache_write_1h", write),
        read=_read_dollars(where, fields, "cache_read", plain),
        above_tokens=_read_tokens(where, fields, "above") if "above" in fields else 0,
        valid_from=_read_day(where, fields["since"]) if "since" in fields else date.min,
    )


def _refuse_unknown(where: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in fields:
        if name not in known:
            raise ConfigError(f"{where}.{name}: unknown field; known: {', '.join(known)}")


def _pick_names(fields: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [name for name in names if name in fields]


def _read_tokens(where: str, fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{where}.{name}: expected a number of tokens; found {value!r}")
    return value


def _read_dollars(
    where: str, fields: Mapping[str, Any], name: str, default: float | None = None
) -> float:
    value = fields.get(name, default)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 <= value < float("inf"):
        raise ConfigError(f"{where}.{name}: expected dollars per million tokens; found {value!r}")
    return float(value)


def _read_effort(where: str, fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if value not in EFFORTS:
        expected = ", ".join(EFFORTS[1:])
        raise ConfigError(f"{where}.{name}: expected one of {expected}; found {value!r}")
    return str(value)


def _read_day(where: str, value: Any) -> date:
    """Reads a day: YAML gives a date, or a text if it is quoted."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise ConfigError(f"{where}.since: expected a day like 2027-01-31") from error
