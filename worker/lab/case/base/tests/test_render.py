from datetime import date

import pytest

from ferrytimes.render import line, page
from ferrytimes.routes import load


def test_a_line_names_the_day_the_landing_and_the_times():
    assert line(load()["brannoy"], date(2026, 3, 3)) == (
        "Tue 2026-03-03  Brannøy    06:15  08:40  13:05  17:30"
    )


def test_a_time_past_midnight_stands_on_the_page_of_its_service_day():
    assert line(load()["hestvik"], date(2026, 3, 6)).endswith("24:10")


@pytest.mark.parametrize("month", range(1, 13))
def test_a_page_has_a_line_for_each_route(month):
    assert len(page(load().values(), date(2026, month, 14)).splitlines()) == 4
