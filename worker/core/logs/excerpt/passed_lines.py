"""The lines of a run that passed, to find what is new in a run that failed."""

import re

LOWER = bytes(range(256)).lower()
DIGITS = b"0123456789"

_MAX = 500_000
_VOLATILE = re.compile(rb"(?<=\s)-\d{1,6}(?=:)|(?:/[\w.@+-]+)+/|\b(?=\w{0,80}\d)\w+|\s+")


class PassedLines:
    """Knows the lines of a cleaned log that were fed to it, and tells which others are new."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self._masks: set[int] = set()

    def feed(self, chunk: bytes) -> None:
        """Add the next whole lines. Of a log with very many different lines, the first are kept."""
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
