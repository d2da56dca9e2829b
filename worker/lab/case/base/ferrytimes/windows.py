"""Intervals of minutes, half open: a window holds its start and not its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Window:
    """From `start` until just before `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(f"empty window: {self.start} to {self.end}")

    def overlaps(self, other: Window) -> bool:
        """They have a minute in common: two boats can't have the slip."""
        return self.start < other.end and other.start < self.end

    def touches(self, other: Window) -> bool:
        """There is no minute between them."""
        return self.start <= other.end and other.start <= self.end

    def covers(self, other: Window) -> bool:
        """Every minute of `other` is in this window."""
        return self.start <= other.start and other.end <= self.end

    def shifted(self, by: int) -> Window:
        """The same window, `by` minutes later."""
        return Window(self.start + by, self.end + by)


def merge(windows: Iterable[Window]) -> list[Window]:
    """The same minutes in as few windows as possible, in order."""
    merged: list[Window] = []
    for window in windows:
        apart = [other for other in merged if not other.touches(window)]
        joined = [other for other in merged if other.touches(window)]
        start = min([window.start, *(other.start for other in joined)])
        end = max([window.end, *(other.end for other in joined)])
        merged = [*apart, Window(start, end)]
    return sorted(merged)
