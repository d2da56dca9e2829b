from datetime import date

import pytest

from ferrytimes.seasons import SEASONS, is_holiday


@pytest.mark.parametrize(
    ("season", "day", "runs"),
    [
        ("summer", date(2026, 5, 31), False),
        ("summer", date(2026, 6, 1), True),
        ("summer", date(2026, 8, 31), True),
        ("summer", date(2026, 9, 1), False),
        ("winter", date(2026, 10, 14), False),
        ("winter", date(2026, 12, 31), True),
        ("winter", date(2027, 1, 1), True),
        ("winter", date(2027, 3, 31), True),
        ("winter", date(2027, 4, 1), False),
    ],
)
def test_a_season_holds_its_first_and_its_last_day(season, day, runs):
    assert SEASONS[season].runs(day) is runs


@pytest.mark.parametrize("day", [date(2026, 4, 3), date(2026, 4, 6), date(2026, 5, 14)])
def test_moving_holidays(day):
    assert is_holiday(day)
