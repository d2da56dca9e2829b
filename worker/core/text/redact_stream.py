"""Redaction of a text that comes in pieces: a secret that lies in two of them is found too."""

from collections.abc import Callable, Iterable, Iterator

OVERLAP = 300
"""Lines at the end of what came that are looked at again, with what comes next."""

_LEAST = 1 << 16
_MOST = 16 << 20  # held at most, however little of it is sure


def redact_chunks(
    pieces: Iterable[bytes], redact: Callable[[bytes], bytes], overlap: int = OVERLAP
) -> Iterator[bytes]:
    """The pieces, each of whole lines, without secrets.

    `redact` keeps the number of lines. What it does not find in `overlap` lines more (the rest of
    a secret that began before them) stays.
    """
    held = b""
    for piece in pieces:
        if len(held) >= _LEAST:  # not before it is known that more comes
            clean = redact(held)
            if len(held) > _MOST:
                yield clean
                held = b""
            elif cut := _sure(held, clean, overlap):
                yield clean[: cut[1]]
                held = held[cut[0] :]
        held += piece
    if held:
        yield redact(held)


def _sure(raw: bytes, clean: bytes, overlap: int) -> tuple[int, int] | None:
    """Where a line begins, in both, that no secret reaches into, `overlap` lines before the end."""
    raw_at, clean_at = len(raw), len(clean)
    for _ in range(overlap):
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
        if raw_at < 0 or clean_at < 0:
            return None
    while raw_at >= 0 and clean_at >= 0:
        raw_end, clean_end = raw.find(b"\n", raw_at + 1), clean.find(b"\n", clean_at + 1)
        # What replaces a secret leaves nothing of the lines that it reached into; an empty one
        # may be a part of it.
        line = raw[raw_at:raw_end]
        if line == clean[clean_at:clean_end] and not line.isspace():
            return raw_at + 1, clean_at + 1
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
    return None
