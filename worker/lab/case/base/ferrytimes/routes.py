"""The routes of `data/routes.toml`."""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from ferrytimes.clock import minutes
from ferrytimes.seasons import SEASONS, Season

WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Slip:
    """A tidal landing: metres of water needed, and for how many minutes around a departure."""

    needed: float
    before: int
    after: int


@dataclass(frozen=True)
class Departure:
    """One departure: minutes of the service day, its days of the week, its season."""

    at: int
    days: frozenset[int]
    season: Season


@dataclass(frozen=True)
class Route:
    """A route from the main quay to one landing."""

    key: str
    name: str
    slip: Slip | None
    departures: tuple[Departure, ...]


@lru_cache(maxsize=1)
def load() -> dict[str, Route]:
    """All routes by key."""
    table = tomllib.loads(files("ferrytimes").joinpath("data/routes.toml").read_text("utf-8"))
    return {key: _route(key, entry) for key, entry in table.items()}


def _route(key: str, entry: dict) -> Route:
    if "fare" in entry:
        warnings.warn(
            f"route {key!r}: 'fare' is deprecated and ignored, fares moved to fares.toml in 2.2",
            DeprecationWarning,
            stacklevel=2,
        )
    slip = Slip(**entry["slip"]) if "slip" in entry else None
    return Route(key, entry["name"], slip, tuple(map(_departure, entry["departures"])))


def _departure(entry: dict) -> Departure:
    days = entry.get("days", WEEK)
    return Departure(
        minutes(entry["at"]),
        frozenset(WEEK.index(day) for day in days),
        SEASONS[entry.get("season", "all year")],
    )
