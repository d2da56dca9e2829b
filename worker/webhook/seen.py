"""Remembers recent deliveries (pure), so that GitLab's retries get the same answer."""

from collections import OrderedDict
from collections.abc import Mapping

LIFETIME = 60.0
"""Seconds. Short, so that a user's "Resend" of an event is not taken for a retry."""

MAX_DELIVERIES = 10_000


def get_delivery_key(headers: Mapping[str, str]) -> str:
    """Return the id of a delivery, which is the same for every attempt; "" without one."""
    name = headers.get("webhook-id") or headers.get("idempotency-key") or ""
    return name if len(name) <= 200 else ""


class RecentDeliveries:
    """The ids of triggers that were queued for recent deliveries. Not thread-safe."""

    def __init__(self, keep: float = LIFETIME, most: int = MAX_DELIVERIES) -> None:
        self._keep, self._most = keep, most
        self._triggers: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def get(self, key: str, now: float) -> str:
        """Return the trigger id that the delivery was answered with, or ""."""
        at, trigger = self._triggers.get(key, (0.0, ""))
        return trigger if key and trigger and abs(now - at) <= self._keep else ""

    def put(self, key: str, trigger: str, now: float) -> None:
        """Remember a delivery."""
        if not key:
            return
        self._triggers.pop(key, None)
        self._triggers[key] = (now, trigger)
        if len(self._triggers) > self._most:
            self._triggers.popitem(last=False)
