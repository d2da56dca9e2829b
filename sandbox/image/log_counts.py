"""The numbers of a log line that say something, apart from those that each run has by chance."""

import re

from sandbox.image.log_errors import rate_shape
from sandbox.image.log_text import strip_escapes

_UNIT = (
    rb"(?:(?:[nmu]|\xc2\xb5)?s|secs?|seconds?|m?secs?|milliseconds?|min|mins|minutes?|h|hrs?|hours?"
    rb"|days?|[kmgt]?i?b(?:ytes?|/s|it/s)?|[kmg]bps|am|pm|threads?|cores?|cpus?|processors?)"
)
_MONTH = rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CHANCE = re.compile(
    rb"(?i)^\W*(?:#\d+ )?\d+\.\d+ |^\W*\d+ ?\|"  # a builder's seconds, a source line's number
    rb"|\b" + _MONTH + rb"\.? +\d{1,2}\b|\b\d{1,2} " + _MONTH + rb"\b"
    rb"|\b(?:pid|tid|port|seed|lines?|col|column|thread|process|job|runner|worker|build|id|took)"
    rb"[ :=#-]{1,3}\d+"
    rb"|(?<![\d.,])\d[\d.,]* ?(?:%|" + _UNIT + rb"\b)"  # from a number's beginning, so linear
    rb"|(?<!\d)\d+ ?/ ?\d+|\[[\d\s:.%of-]*\]"
)
"""Times, durations, sizes, percentages, progress, places and ids."""

_BARE = rb"(?<![\w.:/#@%+,-])-?\d{1,6}(?:\.\d{1,6})?(?![\w%/:-]|[.,]\d)"
_COUNT = re.compile(_BARE + rb"(?= [a-zA-Z]{3})")
_VALUE = re.compile(_BARE)
_MAY_COUNT = re.compile(rb"# [a-zA-Z]{3}")


def has_counts(shape: bytes) -> bool:
    """Whether lines of a shape may have numbers that say something."""
    return b"#" in shape and bool(_MAY_COUNT.search(shape) or rate_shape(shape) >= 1)


def find_counts(line: bytes, shape: bytes) -> tuple[bytes, ...]:
    """Return the counts of a line (`0 characters`), and of an error also its other numbers."""
    text = _CHANCE.sub(b" ", strip_escapes(line)[:500])
    return tuple((_VALUE if rate_shape(shape) >= 1 else _COUNT).findall(text))
