"""Redacts a session's documents, and counts the secrets that it removes.

Untrusted files are packed for the sandbox in one tar.gz: names made safe, sizes capped, redacted.
Nothing is unpacked on the host's disk; one file at a time is held in memory.
"""

import tarfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from worker.safety.redact import Redaction
from worker.safety.redacted_values import (
    Redacted,
    assume_redacted,
    redact_bytes,
    redact_json,
    redact_stream,
    redact_values,
)

T = TypeVar("T")


class Redactions:
    """Removes secrets from what a session reads, and counts them. Safe to share between threads.

    They are counted by kind and document. A secret that occurs again, in an overlapping piece or in
    another document, is counted once, for the first document.
    """

    def __init__(self, remove_secrets: Callable[[bytes], Redaction]) -> None:
        """`remove_secrets` keeps the number of lines: see `Redactor.remove_secrets`."""
        self._remove_secrets = remove_secrets
        self._document = ""
        self._found: Counter[tuple[str, str]] = Counter()
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def for_document(self, document: str) -> "Redactions":
        """The same redactor for one document: what it removes is counted under `document`."""
        redactions = copy(self)
        redactions._document = document
        return redactions

    def __call__(self, data: bytes) -> Redacted:
        """Return `data`, a text or a file, without its secrets."""
        return redact_bytes(data, self._redact_and_count)

    def redact_text(self, text: str) -> str:
        """The same for a string."""
        return self._redact_and_count(text.encode(errors="replace")).decode("utf-8", "replace")

    def redact_value(self, value: T) -> T:
        """The same for every string in `value`: see `redact_values`."""
        return redact_values(value, self.redact_text)

    def redact_to_json(self, value: Mapping[str, Any]) -> Redacted:
        """Write `value` as JSON without the secrets in its strings: see `redact_json`."""
        return redact_json(value, self.redact_text)

    def redact_stream(self, pieces: Iterable[bytes]) -> Iterator[Redacted]:
        """Redact one text that comes in pieces of whole lines: see `redact_stream`."""
        return redact_stream(pieces, self._redact_and_count)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many secrets were removed so far, by kind and document."""
        with self._lock:
            return dict(+self._found)

    def _redact_and_count(self, data: bytes) -> bytes:
        redaction = self._remove_secrets(data)
        with self._lock:
            for each in redaction.removals:
                # The first two lines tell a key from another one, also where the rest is cut off.
                seen = hash((each.kind, *each.secret.split(b"\n", 2)[:2]))
                if seen not in self._seen:
                    self._seen.add(seen)
                    self._found[each.kind, self._document] += 1
        return redaction.data


MAX_FILE = 16 * 1024 * 1024


NOTICE = "SANDPIPER-LEFT-OUT.txt"
_MAX_NOTICES = 1000
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of an archive. Read `chunks` before asking for the next file, or not at all."""

    name: str
    chunks: Iterator[bytes]
    executable: bool = False


def make_safe_path(name: str) -> str | None:
    """Return `name` as a plain relative path, or None if it is not safe as one."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    bad = (
        not parts
        or ".." in parts
        or name.startswith("/")
        or "\\" in name
        or not name.isprintable()
        or len(parts) > 64
        or len(name.encode(errors="replace")) > 1024
        or any(len(part.encode(errors="replace")) > 255 for part in parts)
    )
    return None if bad else "/".join(parts)


def repack(files: Iterable[Packed], redact: Redactions) -> Iterator[Redacted]:
    """Pack the files as a tar.gz, redacted, names too; the same files give the same bytes.

    A last member, `NOTICE`, names the files that were left out. Raises what `files` raises.
    """
    engine = zlib.compressobj(1, zlib.DEFLATED, 31)
    notices: list[str] = []
    for file in files:
        name = make_safe_path(file.name)
        data = _join_chunks(file.chunks) if name else None
        if name is None or data is None:
            why = "larger than 16 MiB" if name else "not a plain relative path"
            notices.append(f"{file.name[:500]!r}: {why}\n")
            continue
        shown = redact(name.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        yield _pack_member(engine, shown, redact(data), file.executable)
    if notices:
        more = len(notices) - _MAX_NOTICES
        text = "".join(notices[:_MAX_NOTICES]) + (f"and {more} more\n" if more > 0 else "")
        yield _pack_member(engine, NOTICE, redact(text.encode(errors="replace")), False)
    yield assume_redacted(engine.compress(b"\0" * 2 * _BLOCK) + engine.flush())


def _join_chunks(chunks: Iterator[bytes]) -> bytes | None:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > MAX_FILE:
            return None
    return bytes(data)


def _pack_member(engine: "zlib._Compress", name: str, data: Redacted, executable: bool) -> Redacted:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o755 if executable else 0o644
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    return assume_redacted(engine.compress(header + data + b"\0" * (-len(data) % _BLOCK)))
