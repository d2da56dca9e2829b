"""Reads the header Retry-After in both of its forms: a number of seconds, or a date."""

from datetime import UTC
from email.utils import parsedate_to_datetime

_LONGEST_TEXT = 100


def read_retry_after(value: str, date: str, now: float) -> float | None:
    """Return the seconds that a server asks us to wait, None if `value` asks for no wait at all.

    `date` is the header Date of the same answer: a date is a time of the server's clock, and so
    counts from that one, whatever ours says. Without it, `now` counts (epoch seconds). A date that
    has passed says nothing of how long to wait.
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    until, since = _parse_date(value), _parse_date(date)
    if until is None:
        return None
    wait = until - (now if since is None else since)
    return wait if wait > 0 else None


def parse_seconds(value: str) -> float | None:
    """Return a number of seconds that can be waited for, else None."""
    try:
        seconds = float(value[:_LONGEST_TEXT])
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _parse_date(value: str) -> float | None:
    """Return a date in epoch seconds; None if it is none, or one that no clock shows."""
    try:
        moment = parsedate_to_datetime(value[:_LONGEST_TEXT])
        # A date with the offset "-0000", or without one, is parsed without a time zone: it is UTC.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
