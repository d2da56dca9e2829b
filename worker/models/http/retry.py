"""When to try again, and how long to wait (wire-models 1.8, "SDK policy"). Pure."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

PATIENCE = 120.0
"""A provider that asks for a longer wait than this is down for us (wire-models 4.5)."""


def transient(headers: Mapping[str, str], classified: bool) -> bool:
    """The server's own word on retrying, else what the codec made of the answer."""
    said = headers.get("x-should-retry", "").strip().lower()
    return said == "true" if said in {"true", "false"} else classified


def asked(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds the server asks us to wait; `now` is in epoch seconds."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    return seconds if seconds is not None else _until(value, now)


def backoff(attempt: int, jitter: float) -> float:
    """The wait after failed attempt number `attempt` (from 1); `jitter` is in [0, 1)."""
    return min(0.5 * 2.0 ** (attempt - 1), 8.0) * (1.0 - 0.25 * jitter)


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _until(value: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    # A date in "-0000" comes without a zone and means UTC.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - now)
