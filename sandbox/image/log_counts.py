"""Finds the numbers of a log line that mean something, not those that differ by chance.

They are counts, settings (`maximumPoolSize=30`), and sizes beside a limit that differ by more than
a little (`used 1358241 bytes of 1310720 bytes`).
"""

import re

from sandbox.image.log_errors import rate_shape
from sandbox.image.log_text import strip_escapes

_UNIT = (
    rb"(?:(?:[nmu]|\xc2\xb5)?s|secs?|seconds?|m?secs?|milliseconds?|min|mins|minutes?|h|hrs?|hours?"
    rb"|days?|elapsed|[kmgt]?i?b(?:ytes?|/s|it/s)?|[kmg]bps|am|pm|threads?|cores?|cpus?|processors?)"
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
_NAME = rb"\b([A-Za-z]\w{1,120})(?:[ :=]{1,3}|\.{2,80})"
_SETTING = re.compile(_NAME + rb"(-?\d{1,9})(?![\w.%])")
_SHAPED_SETTING = re.compile(_NAME + rb"#")
_CAMEL = re.compile(rb"[a-z][A-Z]")
_SIZE = re.compile(
    rb"(?i)(?<![\w.,:/-])(\d{1,15}(?:\.\d{1,6})?) ?(?:%|[kmgt]?i?b(?:ytes)?(?![\w/]))"
)
_MAY_COUNT = re.compile(rb"# [a-zA-Z]{3}|(?i:# ?(?:%|[kmgt]?i?b(?:ytes)?\b))")

_TOTAL = re.compile(rb"\W{0,8}(?:All files|TOTAL|Total)\b")
"""The last row of a table, such as that of coverage."""

MUCH = 0.03
"""Sizes differ much if they differ by more than this share of the larger one."""

LEAST_SIZES = 2
"""Lines with fewer sizes are not compared: a single size differs by chance."""


def has_counts(shape: bytes) -> bool:
    """Whether lines of a shape may have numbers that mean something."""
    if b"#" not in shape:
        return False
    if _MAY_COUNT.search(shape) or _TOTAL.match(shape) or rate_shape(shape) >= 1:
        return True
    return any(map(_is_setting, _SHAPED_SETTING.findall(shape)))


def find_counts(line: bytes, shape: bytes) -> tuple[bytes, ...]:
    """Return the counts of a line (`0 characters`), and of an error also its other numbers."""
    text = _CHANCE.sub(b" ", strip_escapes(line)[:500])
    every = rate_shape(shape) >= 1 or _TOTAL.match(shape)
    counts = (_VALUE if every else _COUNT).findall(text)
    settings = (value for name, value in _SETTING.findall(text) if _is_setting(name))
    return (*counts, *settings)


def _is_setting(name: bytes) -> bool:
    """Whether a name consists of several words, as a program's settings do."""
    return b"_" in name or _CAMEL.search(name) is not None


def find_sizes(line: bytes) -> tuple[float, ...]:
    """Return the sizes and shares that a line names."""
    return tuple(map(float, _SIZE.findall(strip_escapes(line)[:500])))


def differ_much(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """Whether two lines have one size in common, such as a limit, and one that differs by more than
    `MUCH`."""
    pairs = [*zip(some, others, strict=False)]
    differ = any(abs(one - other) > MUCH * max(one, other) for one, other in pairs)
    return len(pairs) >= LEAST_SIZES and differ and any(one == other for one, other in pairs)
