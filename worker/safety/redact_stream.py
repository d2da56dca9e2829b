"""Redacts a text that comes in pieces; a secret that spans two pieces is found too."""

from collections.abc import Callable, Iterable, Iterator

OVERLAP = 300
"""How many of the last lines are searched again together with the next piece."""

_LEAST = 1 << 16
_MOST = 16 << 20  # the most bytes held back, however few of them are certain
_MOST_TRIES = 8


def redact_chunks(
    pieces: Iterable[bytes], redact: Callable[[bytes], bytes], overlap: int = OVERLAP
) -> Iterator[bytes]:
    """Yield the text of the pieces (of whole lines each) without secrets.

    `redact` must keep the number of lines. Of a secret longer than `overlap` lines, the rest may
    stay.
    """
    held = b""
    for piece in pieces:
        if len(held) >= _LEAST:  # checked only here, when it is known that more comes
            clean = redact(held)
            if len(held) > _MOST:
                yield clean
                held = b""
            elif cut := _find_certain_line(held, clean, redact, overlap):
                yield clean[: cut[1]]
                held = held[cut[0] :]
        held += piece
    if held:
        yield redact(held)


def _find_certain_line(
    raw: bytes, clean: bytes, redact: Callable[[bytes], bytes], overlap: int
) -> tuple[int, int] | None:
    """Return where, in both texts, the last line begins that is at least `overlap` lines before the
    end and whose text is redacted the same without what comes before it. None if there is none.

    Lines that are as they were may lie within a secret: output between the lines of a key.
    """
    raw_at, clean_at = len(raw), len(clean)
    for _ in range(_MOST_TRIES):
        if (found := _find_same_line(raw, clean, raw_at, clean_at, overlap)) is None:
            return None
        raw_at, clean_at = found
        if redact(raw[raw_at + 1 :]) == clean[clean_at + 1 :]:
            return raw_at + 1, clean_at + 1
    return None


def _find_same_line(
    raw: bytes, clean: bytes, raw_at: int, clean_at: int, overlap: int
) -> tuple[int, int] | None:
    """Return the line end, in both texts, before the last line that is the same in both and at
    least `overlap` lines before the places given. None if there is none."""
    for _ in range(overlap):
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
        if raw_at < 0 or clean_at < 0:
            return None
    while raw_at >= 0 and clean_at >= 0:
        raw_end, clean_end = raw.find(b"\n", raw_at + 1), clean.find(b"\n", clean_at + 1)
        # Replacing a secret changes every line that it reaches into. Only an empty line may look
        # the same although it is part of a secret.
        line = raw[raw_at:raw_end]
        if line == clean[clean_at:clean_end] and not line.isspace():
            return raw_at, clean_at
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
    return None
