"""When to retry, and how long to wait: the policy of the providers' own clients. Pure."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

PATIENCE = 120.0
"""The longest wait in seconds; a provider that asks for a longer one counts as down."""


def is_transient(headers: Mapping[str, str], classified: bool) -> bool:
    """Whether to retry: as the header x-should-retry says, else as the codec `classified` it."""
    value = headers.get("x-should-retry", "").strip().lower()
    return value == "true" if value in {"true", "false"} else classified


def get_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the server asks us to wait, or None; `now` is in epoch seconds."""
    milliseconds = _parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _parse_seconds(value)
    return seconds if seconds is not None else _count_seconds_until(value, now)


def compute_backoff(attempt: int, jitter: float) -> float:
    """Return the wait in seconds after attempt `attempt` (from 1); `jitter` is in [0, 1)."""
    return min(0.5 * 2.0 ** (attempt - 1), 8.0) * (1.0 - 0.25 * jitter)


def _parse_seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _count_seconds_until(value: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
        # A date with the offset "-0000" is parsed without a time zone and means UTC.
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
