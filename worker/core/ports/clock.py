"""Time."""

from typing import Protocol


class Clock(Protocol):
    """Time, so that tests can control it."""

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
