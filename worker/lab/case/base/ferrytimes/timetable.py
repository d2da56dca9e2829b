"""Which departures a day has."""

from __future__ import annotations

from datetime import date, timedelta

from ferrytimes import clock, tides
from ferrytimes.routes import Departure, Route, Slip
from ferrytimes.seasons import is_holiday
from ferrytimes.windows import Window, merge

FIRST_ON_HOLIDAYS = clock.minutes("09:00")


def departures(route: Route, day: date) -> list[str]:
    """The times of `route` on the service day `day`, in order."""
    found = [
        departure.at
        for departure in route.departures
        if _runs(departure, day) and _afloat(route.slip, departure, day)
    ]
    return [clock.text(at) for at in sorted(found)]


def _runs(departure: Departure, day: date) -> bool:
    if is_holiday(day) and departure.at < FIRST_ON_HOLIDAYS:
        return False
    return day.weekday() in departure.days and departure.season.runs(day)


def _afloat(slip: Slip | None, departure: Departure, day: date) -> bool:
    """Whether the slip has water from the start of loading until the boat is clear of the sill."""
    if slip is None:
        return True
    berth = Window(departure.at - slip.before, departure.at + slip.after)
    tomorrow = tides.high_water(day + timedelta(days=1), slip.needed)
    windows = merge(
        [
            *tides.high_water(day, slip.needed),
            *(window.shifted(clock.DAY) for window in tomorrow),
        ]
    )
    return any(window.covers(berth) for window in windows)
