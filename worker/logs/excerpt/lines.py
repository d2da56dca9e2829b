"""The kept lines, each with what it says by itself: its text, its marks and its words.

A line's words tell less than its marks, and know what those do not: how much they are those of
lines by which people have explained failures. Their weights are `weights.bin`, which `python -m
tests.fit_weights` makes.
"""

import pkgutil
import re
import struct
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from zlib import crc32

from worker.logs.excerpt.scan import KeptLine, ScanResult, cut_before_error
from worker.logs.line_marks import find_marks, says_command_failed

_STAMP = re.compile(
    r"^(?:\[task \S+\] ?|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s?)"
    r"(?:\d\d:\d\d:\d\d\s+)?"
)
_COLOUR = re.compile(rb"\^\[\[[\d;]{0,20}[mK]")
"""A colour whose escape character a program wrote as two, as `cat -v` does."""

_NAME = re.compile(r"""(?<!\S)[^\s\d_./\\:@{}=\[\]()<>'"-]*+[\d_./\\:@{}=\[\]()<>'"-]\S*+""")
_MAY_END = frozenset({"ended", "make", "shouted", "fault"})

_COUNTS = bytes.maketrans(b"23456789", b"11111111")
"""Lines that differ only in digits are read alike, except for 0: it means that nothing failed."""


@dataclass(slots=True)
class Line:
    """A kept line. `text` has no timestamp; `ends`: it says that a command failed.

    `make` is the same for lines that differ only in names and numbers; `words` is what the line's
    words add to its weight.
    """

    source: KeptLine
    text: str
    marks: frozenset[str]
    make: str
    ends: bool
    words: float = 0.0


def list_lines(scan: ScanResult) -> list[Line]:
    """Return the kept lines with their text, marks and make."""
    known: dict[bytes, tuple[frozenset[str], str, bool, float]] = {}
    word_weights = load_weights()
    sets: dict[frozenset[str], frozenset[str]] = {}
    lines = []
    for kept in scan.lines:
        data = _COLOUR.sub(b"", kept.data) if b"^[[" in kept.data else kept.data
        text = without_stamp(cut_before_error(data).decode("utf-8", "replace"))
        alike = kept.data.translate(_COUNTS)
        if alike not in known:
            seen = frozenset(find_marks(text))
            ends = not seen.isdisjoint(_MAY_END) and says_command_failed(text)
            weight = word_weights.weigh(text)
            make = " ".join(_NAME.sub("#", text[:200]).split())
            known[alike] = sets.setdefault(seen, seen), make, ends, weight
        lines.append(Line(kept, text, *known[alike]))
    return lines


def without_stamp(text: str) -> str:
    """Return a line without the timestamp that some runners put at its beginning."""
    return _STAMP.sub("", text)


# ------------------------------------------------------------------- what its words weigh

SIZE = 1 << 16
"""How many weights there are."""

HEADER = struct.Struct("<8sHff")
"""The head of `weights.bin`: `MAGIC`, `VERSION`, scale and bias. One signed byte a weight follows:
the weight divided by the scale."""

MAGIC = b"SPWORDS\n"
VERSION = 1
"""The way in which words are hashed and weights stored; another one is not read."""

FACTOR, NEUTRAL = 0.25, -2.5
"""How much a line's score counts beside its other weights, and the score that adds nothing.

Not fitted.
"""

_READ = 200  # characters of a line that are read
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[^\sa-z\d]{1,8}")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The weights of words: a word's is at its hash, in units of `scale`."""

    scale: float
    bias: float
    weights: memoryview

    def score(self, text: str) -> float:
        """Return how likely a line with these words explains a failure."""
        return self.bias + self.scale * sum(map(self.weights.__getitem__, hash_words(text)))

    def weigh(self, text: str) -> float:
        """Return what is added to a line's weight for its words."""
        return FACTOR * (self.score(text) - NEUTRAL)


@cache
def load_weights() -> WordWeights:
    """Return the weights that are part of the package; they are read once."""
    return read_weights(pkgutil.get_data(__package__, "weights.bin") or b"")


def read_weights(data: bytes) -> WordWeights:
    """Read what `HEADER` describes. Raises ValueError if it is of another version or size."""
    magic, version, scale, bias = HEADER.unpack_from(data)
    if (magic, version, len(data)) != (MAGIC, VERSION, HEADER.size + SIZE):
        raise ValueError(f"weights.bin is not of version {VERSION}: make it again")
    return WordWeights(scale, bias, memoryview(data)[HEADER.size :].cast("b"))


def hash_words(text: str) -> set[int]:
    """Return the numbers below `SIZE` of a line's words, of its pairs of words and of its first
    word. All numbers are one word."""
    found = _WORD.findall(_HUMPS.sub(" ", text[:_READ].strip()).lower())
    words = ["0" if word.isdigit() else word for word in found]
    pairs = map(" ".join, pairwise(words))
    first = [f"^{word}" for word in words[:1]]
    return {crc32(each.encode()) % SIZE for each in (*words, *pairs, *first)}
