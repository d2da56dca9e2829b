"""How much a line's words are those of lines by which people have explained failures.

The words alone tell less than the marks of `logs.excerpt.marks`, and know what those do not. Their
weights are `weights.bin`, which `python -m tests.fit_weights` makes.
"""

import pkgutil
import re
import struct
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from zlib import crc32

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
