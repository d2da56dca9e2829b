"""When to retry, and how long to wait: the policy of the providers' own clients. Pure."""

from collections.abc import Mapping

from worker.transport.retry_after import parse_seconds, read_retry_after

_RESET = "x-rate-limit-reset-tokens"
PATIENCE = 120.0
"""The longest wait in seconds; a provider that asks for a longer one counts as down."""


def is_transient(headers: Mapping[str, str], classified: bool) -> bool:
    """Whether to retry: as the header x-should-retry says, else as the codec `classified` it."""
    value = headers.get("x-should-retry", "").strip().lower()
    return value == "true" if value in {"true", "false"} else classified


def get_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the server asks us to wait, or None; `now` is in epoch seconds."""
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = read_retry_after(headers.get("retry-after", ""), headers.get("date", ""), now)
    # Azure has been seen to send this one alone.
    return parse_seconds(headers.get(_RESET, "")) if stated is None else stated


def compute_backoff(attempt: int, jitter: float) -> float:
    """Return the wait in seconds after attempt `attempt` (from 1); `jitter` is in [0, 1)."""
    return min(0.5 * 2.0 ** (attempt - 1), 8.0) * (1.0 - 0.25 * jitter)
