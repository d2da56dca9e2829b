"""Shares and their confidence intervals. Pure."""

from dataclasses import dataclass
from math import sqrt

_Z = 1.959964
"""95 % of a normal distribution lies within this many standard deviations of its mean."""


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `total`."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        """The share itself; 0 without observations."""
        return self.hits / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % confidence interval, (0, 1) without observations.

        See https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval.
        """
        if self.total <= 0:
            return 0.0, 1.0
        share, total, z2 = self.value, self.total, _Z * _Z
        middle = share + z2 / (2 * total)
        spread = _Z * sqrt(share * (1 - share) / total + z2 / (4 * total * total))
        scale = 1 + z2 / total
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)

    def __str__(self) -> str:
        """Format the share with its interval in percent, such as "90% (60-98)"."""
        low, high = self.interval
        return f"{self.value:.0%} ({low * 100:.0f}-{high * 100:.0f})"
