"""The lines of a run that passed, to find what is new in a run that failed."""

import re
from collections.abc import Iterable

LOWER = bytes(range(256)).lower()
DIGITS = b"0123456789"

_MAX = 500_000
_VOLATILE = re.compile(rb"(?<=\s)-\d{1,6}(?=:)|(?:/[\w.@+-]+)+/|\b(?=\w{0,80}\d)\w+|\s+")


class PassedLines:
    """The lines of a cleaned log; tells which lines of another log are new.

    The log comes in chunks of whole lines. If it has very many different ones, the first are kept.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._keys: set[bytes] = set()
        self._masks: set[int] = set()
        for chunk in chunks:
            self._add_lines(chunk)

    def _add_lines(self, chunk: bytes) -> None:
        text = chunk.removesuffix(b"\n")
        lines = dict(
            zip(text.translate(LOWER, DIGITS).split(b"\n"), text.split(b"\n"), strict=True)
        )
        fresh = lines.keys() - self._keys
        if len(self._keys) > _MAX:
            return
        self._keys |= fresh
        self._masks.update(hash(_mask(lines[key])) for key in fresh)

    def find_new(self, lines: dict[bytes, bytes]) -> set[bytes]:
        """Return the keys of those `lines` (by key) that differ from every green line in more than
        timestamps, hashes, numbers and the folders of paths."""
        fresh = lines.keys() - self._keys
        return {key for key in fresh if hash(_mask(lines[key])) not in self._masks}


def _mask(line: bytes) -> bytes:
    return _VOLATILE.sub(b"", line[:500]).lower()
