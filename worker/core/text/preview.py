"""What is shown of an output that is too long to show whole."""

LIMIT = 4096
"""Bytes of UTF-8 of one preview (design, section 5)."""

_ROOM = 96  # for the line in between


def most_shown(limit: int) -> int:
    """Bytes that are shown at most: a remainder of up to a quarter of `limit` is shown too.

    To cut that little off would cost more, a call to read it, than it saves.
    """
    return limit + limit // 4


def head_and_tail(output: str | bytes, limit: int = LIMIT) -> str:
    """`output` whole if it has at most `most_shown(limit)` bytes, else its beginning and its end.

    These have at most `limit` bytes, and are cut at line ends, or inside a line that is longer than
    half of the limit (JSON often is one line); a line in between says how much is not shown. Bytes
    that are not UTF-8 become U+FFFD.
    """
    data = output.encode("utf-8", "replace") if isinstance(output, str) else output
    text = data.decode("utf-8", "replace")
    if len(text.encode()) <= most_shown(limit):
        return text
    half = (limit - _ROOM) // 2
    head = _head(text[:half], half)
    tail = _tail(text[-half:], half)
    cut = text[len(head) : len(text) - len(tail)]
    return f"{_ended(head)}{_mark(cut)}\n{tail}"


def _mark(cut: str) -> str:
    lines = cut.count("\n")
    counted = f", {lines:,} lines" if lines else ""
    return f"[… {len(cut.encode()):,} bytes{counted} not shown …]"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _head(text: str, room: int) -> str:
    while len(text.encode()) > room:
        text = text[: len(text) - max(1, (len(text.encode()) - room) // 4)]
    end = text.rfind("\n") + 1
    return text[:end] if end > len(text) // 2 else text


def _tail(text: str, room: int) -> str:
    while len(text.encode()) > room:
        text = text[max(1, (len(text.encode()) - room) // 4) :]
    start = text.find("\n", 0, -1) + 1
    return text[start:] if 0 < start < len(text) // 2 else text
