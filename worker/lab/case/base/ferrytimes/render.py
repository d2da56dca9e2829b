"""The page of a day as text."""

from collections.abc import Iterable
from datetime import date

from ferrytimes.routes import Route
from ferrytimes.timetable import departures


def line(route: Route, day: date) -> str:
    """One line: day, landing, times."""
    times = "  ".join(departures(route, day)) or "no boat"
    return f"{day:%a %Y-%m-%d}  {route.name:<9}  {times}"


def page(routes: Iterable[Route], day: date) -> str:
    """All routes of a day, one line each."""
    return "\n".join(line(route, day) for route in routes)
