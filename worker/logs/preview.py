"""Cuts a text that is too long to be shown whole."""

from sandbox.image.preview import PREVIEW, cut_head, cut_tail
from sandbox.image.preview import most_shown as most_shown

LIMIT = PREVIEW
"""The most bytes of UTF-8 of one preview."""

_ROOM = 96  # for the line in between


def head_and_tail(output: str | bytes, limit: int = LIMIT) -> str:
    """Return `output` whole if it has at most `most_shown(limit)` bytes, else its head and tail.

    Head and tail together have at most `limit` bytes. Each is cut at a line end, or inside a line
    that would take half of it or more (JSON is often one line); a line in between says how much is
    not shown. Bytes that are not UTF-8 become U+FFFD.
    """
    data = output.encode("utf-8", "replace") if isinstance(output, str) else output
    data = data.decode("utf-8", "replace").encode()
    if len(data) <= most_shown(limit):
        return data.decode()
    half = max(0, limit - _ROOM) // 2
    head, tail = cut_head(data, half), cut_tail(data, half)
    cut = data[len(head) : len(data) - len(tail)]
    lines = f", {count:,} lines" if (count := cut.count(b"\n")) else ""
    gap = "" if not head or head.endswith(b"\n") else "\n"
    return f"{head.decode()}{gap}[… {len(cut):,} bytes{lines} not shown …]\n{tail.decode()}"


def clip_bytes(text: str, limit: int, mark: str) -> str:
    """Return `text` if it has at most `limit` bytes, else as much of its head as fits, followed by
    `mark`."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: max(limit - len(mark.encode()), 0)].decode("utf-8", "ignore") + mark
