"""Confidence intervals of shares. Pure."""

from math import sqrt

_Z = 1.959964
"""95 % of a normal distribution lies within this many standard deviations of its mean."""


def compute_interval(hits: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of a share, (0, 1) without observations.

    See https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval.
    """
    if total <= 0:
        return 0.0, 1.0
    share, z2 = hits / total, _Z * _Z
    middle = share + z2 / (2 * total)
    spread = _Z * sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    scale = 1 + z2 / total
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
