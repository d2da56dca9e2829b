"""An operator's own models and prices, on top of the built-in catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from worker.errors import ConfigError
from worker.models.catalogue.built_in import BUILT_IN, Catalogue, ModelInfo, Rate

EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh", "max")
_SIZES = ("window", "max_output", "min_cached")
_EFFORTS = ("effort", "chat_effort")
_PRICES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_TIER = (*_PRICES, "above", "since")
_KNOWN = (*_SIZES, *_EFFORTS, *_PRICES, "binds_thinking", "tiers")


def extended(entries: Mapping[str, Mapping[str, Any]], built_in: Catalogue = BUILT_IN) -> Catalogue:
    """`built_in` with `entries` (model id → fields) over it. Raises ConfigError naming the field.

    A field replaces the one of a listed model of that id; with a new `window` alone an answer gets
    at most a quarter of it. Prices are dollars per million tokens
    and go together: whoever states one states `input` and `output`; a cached token costs as much
    as an uncached one unless its own price is stated. `tiers` are further prices that hold above
    a number of input tokens (`above`), from a day on (`since`), or both.
    """
    added = {model: _info(model, fields, built_in) for model, fields in entries.items()}
    return Catalogue({**built_in.models, **added})


def _info(model: str, fields: Mapping[str, Any], built_in: Catalogue) -> ModelInfo:
    where = f"models.catalogue.{model}"
    _refuse_unknown(where, fields, _KNOWN)
    changes: dict[str, Any] = {name: _tokens(where, fields, name) for name in _in(fields, _SIZES)}
    changes |= {name: _effort(where, fields, name) for name in _in(fields, _EFFORTS)}
    if "binds_thinking" in fields:
        changes["binds_thinking"] = bool(fields["binds_thinking"])
    if rates := _rates(where, fields):
        changes["rates"] = rates
    listed = built_in.info(model)
    if "window" in changes and "max_output" not in changes:
        changes["max_output"] = min(listed.max_output, changes["window"] // 4)
    found = replace(listed, **changes)
    if not 0 < found.max_output < found.window:
        raise ConfigError(
            f"{where}.max_output: expected 1 to less than the window of {found.window} tokens; "
            f"found {found.max_output}"
        )
    return found


def _rates(where: str, fields: Mapping[str, Any]) -> tuple[Rate, ...]:
    own = [_rate(where, fields)] if _in(fields, _PRICES) else []
    tiers = fields.get("tiers") or ()
    if not isinstance(tiers, list | tuple):
        raise ConfigError(f"{where}.tiers: expected a list")
    return (*own, *(_tier(f"{where}.tiers.{at}", tier) for at, tier in enumerate(tiers)))


def _tier(where: str, fields: Any) -> Rate:
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: expected a mapping")
    _refuse_unknown(where, fields, _TIER)
    return _rate(where, fields)


def _rate(where: str, fields: Mapping[str, Any]) -> Rate:
    for name in ("input", "output"):
        if name not in fields:
            raise ConfigError(f"{where}.{name}: missing: state input and output together")
    plain = _dollars(where, fields, "input")
    write = _dollars(where, fields, "cache_write", plain)
    return Rate(
        input=plain,
        output=_dollars(where, fields, "output"),
        write_5m=write,
        write_1h=_dollars(where, fields, "cache_write_1h", write),
        read=_dollars(where, fields, "cache_read", plain),
        above=_tokens(where, fields, "above") if "above" in fields else 0,
        since=_day(where, fields["since"]) if "since" in fields else date.min,
    )


def _refuse_unknown(where: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in fields:
        if name not in known:
            raise ConfigError(f"{where}.{name}: unknown field; known: {', '.join(known)}")


def _in(fields: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [name for name in names if name in fields]


def _tokens(where: str, fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{where}.{name}: expected a number of tokens; found {value!r}")
    return value


def _dollars(
    where: str, fields: Mapping[str, Any], name: str, default: float | None = None
) -> float:
    value = fields.get(name, default)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 <= value < float("inf"):
        raise ConfigError(f"{where}.{name}: expected dollars per million tokens; found {value!r}")
    return float(value)


def _effort(where: str, fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if value not in EFFORTS:
        expected = ", ".join(EFFORTS[1:])
        raise ConfigError(f"{where}.{name}: expected one of {expected}; found {value!r}")
    return str(value)


def _day(where: str, value: Any) -> date:
    """YAML gives a day as a date, or as text where it stands in quotes."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise ConfigError(f"{where}.since: expected a day like 2027-01-31") from error
