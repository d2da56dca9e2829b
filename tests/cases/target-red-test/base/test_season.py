import datetime


def test_the_season_has_not_ended():
    assert datetime.date(2026, 9, 30) >= datetime.date(2026, 11, 1)
