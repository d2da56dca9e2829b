"""The lines of a log that are like no other one: among them is what no word of trouble tells."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from worker.logs.excerpt.ending import Piece

FEW = 2
"""A shape with more lines that differ in more than digits and case is not rare."""

_READ = 200  # bytes of a line that its shape is made of
_MOST, _KEPT = 4_000, 2_000  # lines at which the older ones are forgotten, and how many are kept
_MAX_SHAPES = 100_000

_NAMES = re.compile(rb"(?<!\S)\S*[^a-z\s]\S*")
"""What a shape leaves out of a key: names, paths, punctuation."""


class RareLines:
    """Finds the lines of rare shapes: feed it the lines in order, then list them."""

    def __init__(self) -> None:
        self._shapes: Counter[bytes] = Counter()
        self._found: dict[bytes, Piece] = {}

    def feed(
        self, base: int, lines: Sequence[bytes], keys: Sequence[bytes], fresh: Iterable[bytes]
    ) -> None:
        """Add the next lines. `base` is the index of the first; `fresh` are the keys among `keys`
        that were not seen before."""
        shapes = dict(zip(fresh, make_shapes(fresh), strict=True))
        self._shapes.update(shapes.values())
        rare = [key for key, shape in shapes.items() if self._shapes[shape] <= FEW]
        if not rare:
            return
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        for key in rare:
            self._found[key] = base + first[key], lines[first[key]], key
        self._forget()

    def list_lines(self, counts: Counter[bytes]) -> Iterator[tuple[int, Piece]]:
        """Yield the lines of rare shapes, each with how many lines there are like it."""
        shapes = dict(zip(self._found, make_shapes(self._found), strict=True))
        for key, piece in self._found.items():
            alike = max(counts[key], self._shapes[shapes[key]])
            if shapes[key] and alike <= FEW:
                yield alike, piece

    def _forget(self) -> None:
        if len(self._found) > _MOST:
            shapes = make_shapes(self._found)
            rare = [
                key
                for key, shape in zip(self._found, shapes, strict=True)
                if shape and self._shapes[shape] <= FEW
            ]
            self._found = {key: self._found[key] for key in rare[-_KEPT:]}
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes = Counter({shape: n for shape, n in self._shapes.items() if n > FEW})


def make_shapes(keys: Iterable[bytes]) -> list[bytes]:
    """Return for each key its words of letters; it is the same for lines that differ in names."""
    text = b"".join([key[:_READ] + b"\n" for key in keys])
    return [b" ".join(line.split()) for line in _NAMES.sub(b"", text).split(b"\n")[:-1]]
