from datetime import date, datetime, timedelta

import pytest

from ferrytimes import tides
from ferrytimes.clock import DAY


@pytest.mark.slow
@pytest.mark.parametrize("month", range(1, 13))
def test_the_water_stays_between_the_gauge_marks(month):
    start = datetime(2026, month, 1)
    heights = [tides.height(start + timedelta(minutes=5 * step)) for step in range(28 * 288)]
    assert 0 < min(heights) < 1.4
    assert 2.8 < max(heights) < 4.2


@pytest.mark.slow
@pytest.mark.parametrize("needed", [1.2, 1.6, 2.0, 2.4, 2.8])
@pytest.mark.parametrize("day", [date(2026, 1, 17), date(2026, 6, 21), date(2026, 9, 29)])
def test_high_water_is_found_to_the_minute(day, needed):
    midnight = datetime(day.year, day.month, day.day)
    for window in tides.high_water(day, needed):
        assert 0 <= window.start < window.end <= DAY
        for minute in (window.start, window.end - 1):
            assert tides.height(midnight + timedelta(minutes=minute)) >= needed
