"""Times of a service day, in minutes since its midnight.

A service day goes on past midnight: 24:25 is twenty-five minutes into the next morning.
"""

import re

DAY = 24 * 60

_TIME = re.compile(r"(\d{1,2}):(\d{2})")


class BadTime(ValueError):
    """Not a time of a service day."""


def minutes(text: str) -> int:
    """Minutes since midnight of "07:10"; up to "29:59"."""
    found = _TIME.fullmatch(text)
    if not found:
        raise BadTime(f"not a time: {text!r} (write it as 07:10)")
    hours, rest = int(found[1]), int(found[2])
    if hours > 29 or rest > 59:
        raise BadTime(f"no such time in a service day: {text!r}")
    return hours * 60 + rest


def text(value: int) -> str:
    """The opposite of `minutes`."""
    if not 0 <= value < 30 * 60:
        raise BadTime(f"{value} minutes is outside a service day")
    return f"{value // 60:02d}:{value % 60:02d}"
