"""From which date to which a departure runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta


@dataclass(frozen=True)
class Season:
    """Every year from one month and day to another, both included; it may span New Year."""

    name: str
    first: tuple[int, int]
    last: tuple[int, int]

    def runs(self, day: date) -> bool:
        """Whether `day` is in the season."""
        today = (day.month, day.day)
        if self.first <= self.last:
            return self.first <= today <= self.last
        return today >= self.first or today <= self.last


SEASONS = {
    season.name: season
    for season in (
        Season("all year", (1, 1), (12, 31)),
        Season("summer", (6, 1), (8, 31)),
        Season("winter", (10, 15), (3, 31)),
    )
}


def is_holiday(day: date) -> bool:
    """No boat before nine: New Year, Good Friday to Easter Monday, Ascension, Christmas."""
    sunday = easter(day.year)
    moving = {sunday + relativedelta(days=after) for after in (-2, -1, 0, 1, 39)}
    return day in moving or (day.month, day.day) in {(1, 1), (12, 25), (12, 26)}
