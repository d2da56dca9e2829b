"""Cuts a text that is too long to be shown whole."""

LIMIT = 4096
"""The most bytes of UTF-8 of one preview."""

_ROOM = 96  # for the line in between


def most_shown(limit: int) -> int:
    """Return the most bytes that are shown whole: a quarter more than `limit`.

    To cut off less would save less than the call that reads it costs.
    """
    return limit + limit // 4


def head_and_tail(output: str | bytes, limit: int = LIMIT) -> str:
    """Return `output` whole if it has at most `most_shown(limit)` bytes, else its head and tail.

    Head and tail together have at most `limit` bytes. Each is cut at a line end, or inside a line
    that would take half of it or more (JSON is often one line); a line in between says how much is
    not shown. Bytes that are not UTF-8 become U+FFFD.
    """
    data = output.encode("utf-8", "replace") if isinstance(output, str) else output
    text = data.decode("utf-8", "replace")
    if len(text.encode()) <= most_shown(limit):
        return text
    half = (limit - _ROOM) // 2
    head = _cut_head(text[:half], half)
    tail = _cut_tail(text[-half:], half)
    cut = text[len(head) : len(text) - len(tail)]
    return f"{_end_line(head)}{_write_mark(cut)}\n{tail}"


def clip_bytes(text: str, limit: int, mark: str) -> str:
    """Return `text` if it has at most `limit` bytes, else as much of its head as fits, followed by
    `mark`."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: max(limit - len(mark.encode()), 0)].decode("utf-8", "ignore") + mark


def _write_mark(cut: str) -> str:
    lines = cut.count("\n")
    counted = f", {lines:,} lines" if lines else ""
    return f"[… {len(cut.encode()):,} bytes{counted} not shown …]"


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _cut_head(text: str, room: int) -> str:
    text = clip_bytes(text, room, "")
    end = text.rfind("\n") + 1
    return text[:end] if end > len(text) // 2 else text


def _cut_tail(text: str, room: int) -> str:
    data = text.encode()
    text = data[max(0, len(data) - room) :].decode("utf-8", "ignore")
    start = text.find("\n", 0, -1) + 1
    return text[start:] if 0 < start < len(text) // 2 else text
