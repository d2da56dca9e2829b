"""An output of a command: captured, counted, saved up to a cap, and shown to the model as its
beginning and end."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH108

import contextlib
import os
from collections.abc import Callable
from typing import Any

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


def _fit_bytes(raw: bytes, budget: int, size: int, cut: Callable[[bytes, int], bytes]) -> bytes:
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
    top = _fit_bytes(head, room // 3, min(room // 3, size), cut_head)
    rest = min(room - room // 3, size - len(top))
    bottom = _fit_bytes(tail, room - room // 3, rest, cut_tail)
    skipped = size - len(top) - len(bottom)
    missing = lines - top.count(b"\n") - bottom.count(b"\n")
    gap = "" if top.endswith(b"\n") or not top else "\n"
    where = f": see {path}" if path else ""
    mark = f"{gap}[… {skipped:,} of {size:,} bytes, {missing:,} lines not shown{where} …]\n"
    return decode(top) + mark + decode(bottom)


class Capture:
    """Takes a stream piece by piece; makes the file once the preview cannot show everything.

    The preview has at most `limit` bytes, or `most_shown(limit)` if it shows everything; the file
    has at most `cap` bytes.
    """

    def __init__(self, path: str, cap: int, limit: int = PREVIEW) -> None:
        self.path, self.cap, self.limit, self.most = path, cap, limit, most_shown(limit)
        self.size = self.lines = self.file_size = 0
        self.head = self.tail = b""
        self.file: int | None = None
        self.full = False
        with contextlib.suppress(OSError):
            os.unlink(path)

    def feed(self, data: bytes) -> None:
        unwritten = self.head if self.size <= self.most else b""
        self.size += len(data)
        self.lines += data.count(b"\n")
        self.tail = (data if len(data) >= self.most else self.tail + data)[-self.most :]
        if len(self.head) < self.most:
            self.head = (self.head + data)[: self.most]
        if self.size > self.most:
            self.write_to_file(unwritten + data)

    def write_to_file(self, data: bytes) -> None:
        """Write what fits under the cap; a full disk ends the file, not the command."""
        if self.full:
            return
        self.full = self.file_size + len(data) > self.cap
        view = memoryview(data)[: self.cap - self.file_size]
        try:
            if self.file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self.file = os.open(self.path, flags, 0o644)
            while view:
                done = os.write(self.file, view)
                self.file_size += done
                view = view[done:]
        except OSError:
            self.full = True

    def make_report(self) -> dict[str, Any]:
        binary = is_binary(self.head + self.tail if self.size > self.most else self.head)
        path = "" if self.file is None else self.path
        text = make_preview(self.head, self.tail, self.size, self.lines, self.limit, path)
        if binary:
            text = f"binary data, {self.size:,} bytes"
        if self.size <= self.most and text != decode(self.head):
            self.write_to_file(self.head)
        if self.file is not None:
            os.close(self.file)
        counts = {"size": self.size, "lines": self.lines, "kept": self.file_size}
        return {"preview": text, "binary": binary, **counts}
