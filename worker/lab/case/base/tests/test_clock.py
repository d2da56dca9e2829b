import pytest

from ferrytimes import clock


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("00:00", 0), ("7:10", 430), ("07:10", 430), ("23:59", 1439), ("24:25", 1465)],
)
def test_a_time_is_minutes_of_the_service_day(text, minutes):
    assert clock.minutes(text) == minutes


@pytest.mark.parametrize(
    "text",
    ["", "7", "07.10", "07:1", "30:00", "12:60", "-1:00", "error", "noon"],
)
def test_a_bad_time_is_an_error(text):
    with pytest.raises(clock.BadTime):
        clock.minutes(text)


@pytest.mark.parametrize("value", range(0, clock.DAY + 6 * 60, 45))
def test_text_and_minutes_are_opposites(value):
    assert clock.minutes(clock.text(value)) == value


@pytest.mark.parametrize("value", [-1, 1800])
def test_minutes_outside_the_service_day_are_an_error(value):
    with pytest.raises(clock.BadTime):
        clock.text(value)
