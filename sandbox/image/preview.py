"""Makes an output's preview for the model from its first and last bytes."""

from collections.abc import Callable

PREVIEW = 4096
ROOM_FOR_MARK = 128


def most_shown(limit: int) -> int:
    """Return the most bytes that are shown: up to a quarter more than `limit` is not cut off.

    Cutting off so little would save less than it costs to read it with another call.
    """
    return limit + limit // 4


def decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def is_binary(sample: bytes) -> bool:
    """Whether a sample has a NUL byte or, from 64 bytes on, is more than a third not text."""
    if b"\0" in sample:
        return True
    text = decode(sample)
    odd = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\b\f\x1b") for c in text)
    return len(sample) >= 64 and odd * 3 > len(text)


def cut_head(raw: bytes, size: int) -> bytes:
    """Return the first `size` bytes, cut after a line if half is left, else after a character."""
    raw = raw[:size]
    end = raw.rfind(b"\n") + 1
    if end * 2 >= len(raw):
        return raw[:end]
    start = len(raw)
    while start > 0 and len(raw) - start < 3 and raw[start - 1] & 0xC0 == 0x80:
        start -= 1
    lead = raw[start - 1] if start else 0
    need = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
    return raw[: start - 1] if need > len(raw) - start + 1 else raw


def cut_tail(raw: bytes, size: int) -> bytes:
    """Return the last `size` bytes, cut before a line if half is left, else before a character."""
    raw = raw[-size:] if size else b""
    start = raw.find(b"\n") + 1
    if 0 < start <= len(raw) // 2:
        return raw[start:]
    skip = 0
    while skip < min(3, len(raw)) and raw[skip] & 0xC0 == 0x80:
        skip += 1
    return raw[skip:]


def fit_bytes(raw: bytes, budget: int, size: int, cut: Callable[[bytes, int], bytes]) -> bytes:
    """Cut one end of `raw` so that it decodes into at most `budget` bytes of UTF-8."""
    while len(decode(cut(raw, size)).encode()) > budget:
        size = size * 2 // 3
    return cut(raw, size)


def make_preview(
    head: bytes, tail: bytes, size: int, lines: int, limit: int = PREVIEW, path: str = ""
) -> str:
    """Return an output of at most `most_shown(limit)` bytes, else `limit` bytes of head and tail.

    A mark at the cut counts what is missing and names the `path` of the whole output, if any.
    `head` and `tail` are the output's first and last `most_shown(limit)` bytes; `size` and `lines`
    count the whole output.
    """
    if size <= most_shown(limit) and len(decode(head).encode()) <= most_shown(limit):
        return decode(head)
    room = limit - ROOM_FOR_MARK
    top = fit_bytes(head, room // 3, min(room // 3, size), cut_head)
    rest = min(room - room // 3, size - len(top))
    bottom = fit_bytes(tail, room - room // 3, rest, cut_tail)
    skipped = size - len(top) - len(bottom)
    missing = lines - top.count(b"\n") - bottom.count(b"\n")
    gap = "" if top.endswith(b"\n") or not top else "\n"
    where = f": see {path}" if path else ""
    mark = f"{gap}[… {skipped:,} of {size:,} bytes, {missing:,} lines not shown{where} …]\n"
    return decode(top) + mark + decode(bottom)
