"""Every departure of the year against the water itself, minute by minute."""

from datetime import date, datetime, time, timedelta

import pytest

from ferrytimes import clock, tides
from ferrytimes.routes import load
from ferrytimes.seasons import is_holiday
from ferrytimes.timetable import departures

YEAR = [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]


def has_water(slip, at, day):
    midnight = datetime.combine(day, time())
    return all(
        tides.height(midnight + timedelta(minutes=minute)) >= slip.needed
        for minute in range(at - slip.before, at + slip.after)
    )


def expected(route, day):
    times = []
    for departure in route.departures:
        if day.weekday() not in departure.days or not departure.season.runs(day):
            continue
        if is_holiday(day) and departure.at < clock.minutes("09:00"):
            continue
        if route.slip is None or has_water(route.slip, departure.at, day):
            times.append(clock.text(departure.at))
    return times


@pytest.mark.parametrize("day", YEAR, ids=str)
@pytest.mark.parametrize("key", ["brannoy", "hestvik", "lindvik", "skarholm"])
def test_a_boat_sails_when_the_water_allows_it(key, day):
    route = load()[key]
    assert departures(route, day) == expected(route, day)
