"""Captures one stream of a command: counts it, saves it up to a cap, makes a preview."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH108

import contextlib
import os

from sandbox.image.frames import Json
from sandbox.image.preview import PREVIEW, decode, is_binary, make_preview, most_shown


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

    def make_report(self) -> Json:
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
