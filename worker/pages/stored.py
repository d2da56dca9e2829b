"""Reads the store for the pages. Raises StoreError; damaged objects are left out."""

import io
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

from sandbox.image.archive import Caps, Reader, get_clean_name
from sandbox.image.frames import Refused
from worker.conversation import context_json
from worker.conversation.context import Context, SessionKey
from worker.errors import SandpiperError, StoreError, Unreadable
from worker.pages.texts import INTERRUPTED
from worker.pages.view import StoredTurn
from worker.sessions.recent import RUNNING
from worker.sessions.store import SessionStore
from worker.verdict.aftermath import load_aftermath, load_feedback

_MAX_TURNS = 12
"""The most turns of a session that are shown: the newest."""

_MAX_CONTEXT = 24 * 1024 * 1024
"""The most bytes of a `context.json` that is parsed for a page."""


def read_turns(store: SessionStore, key: SessionKey, now: float) -> tuple[list[StoredTurn], int]:
    """Read a session's newest turns, oldest first, and the number of older ones."""
    latest = store.find_latest_turn(key)
    found = []
    first = 0 if latest is None else max(0, latest - _MAX_TURNS + 1)
    for number in range(first, -1 if latest is None else latest + 1):
        with suppress(StoreError):  # a turn deleted on request is missing, the rest stays readable
            if context := _parse(key, store.read_context(key, number)):
                found.append(
                    StoredTurn(
                        context,
                        files=store.open_files(key, number) is not None,
                        feedback=load_feedback(store.read_feedback(key, number)),
                        aftermath=load_aftermath(store.read_aftermath(key, number)),
                    )
                )
    running = 0 if latest is None else latest + 1  # not committed: read from its last checkpoint
    data = None
    with suppress(Unreadable):
        data = store.read_checkpoint(key, running)
    if data and (context := _parse(key, data)):
        found.append(StoredTurn(context, find_state(store, key, running, now)))
    return found, first


def find_state(store: SessionStore, key: SessionKey, number: int, now: float) -> str:
    """Return whether a turn that is not committed runs, or was interrupted: nobody holds it."""
    return RUNNING if store.find_holder(key, number, now) else INTERRUPTED


def _parse(key: SessionKey, data: bytes) -> Context | None:
    if len(data) > _MAX_CONTEXT:
        return None
    with suppress(context_json.HistoryError, RecursionError):
        return context_json.load_context_of(key, data)
    return None


def open_archive(store: SessionStore, key: SessionKey, number: int) -> Iterator[bytes] | None:
    """Open a turn's archive; None if it has none."""
    opened = store.open_files(key, number)
    if opened is None:
        return None

    def stream() -> Iterator[bytes]:
        with opened as found:
            yield from found

    return stream()


SECONDS = 30.0
"""Seconds to search the archive for a file."""

_LIMITS = {
    "packed": 512 << 20,
    "raw": 1 << 30,
    "file": 256 << 20,
    "members": 10_000,
    "ratio": 200,
}
"""Limits on reading an archive, in bytes and members: no more than a sandbox may pack."""

_CHUNK = 64 * 1024
_PATH = re.compile(r"/tmp/((?:_out|data)/[^\0\n\r]{1,1000})")


class NoFile(SandpiperError):
    """There is no such file, or it cannot be reached within the limits."""


def parse_member_name(path: str) -> str | None:
    """Return the name in the archive for a path in the sandbox; None for an impossible path."""
    found = _PATH.fullmatch(path)
    if not found or any(part in ("", ".", "..") for part in found[1].split("/")):
        return None
    return found[1]


def open_member(
    chunks: Iterable[bytes], name: str, seconds: float = SECONDS
) -> tuple[int, Iterator[bytes]]:
    """Return the size and the content of member `name`, reading `chunks`. Raises NoFile."""
    caps = Caps(_LIMITS)
    source = _DecompressedStream(chunks, caps, time.monotonic() + seconds)
    file = io.BufferedReader(cast(io.RawIOBase, source), _CHUNK)
    reader = Reader(cast(IO[bytes], file), caps)

    def read_content() -> Iterator[bytes]:
        with _translate_errors():
            while reader.bytes_left:
                chunk = reader.read_required(min(reader.bytes_left, _CHUNK))
                reader.bytes_left -= len(chunk)
                yield chunk

    with _translate_errors():
        for found in reader.read_members():
            caps.check_ratio()
            caps.count_member(found.name, found.size)
            if not found.isdir() and get_clean_name(found) == name:
                source.until = float("inf")  # from here on the client sets the pace
                return found.size, read_content()
    raise NoFile(f"there is no {name} in the archive")


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (Refused, zlib.error, OSError, ValueError) as error:
        raise NoFile(f"the archive cannot be read: {error}") from error


class _DecompressedStream(io.RawIOBase):
    """The decompressed content of `chunks`. Raises ValueError at `until` (monotonic seconds)."""

    def __init__(self, chunks: Iterable[bytes], caps: Caps, until: float) -> None:
        self.until = until
        self._chunks = iter(chunks)
        self._caps = caps
        self._gzip = zlib.decompressobj(wbits=31)

    def readable(self) -> bool:
        """See RawIOBase."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """See RawIOBase."""
        part = b""
        while not part and not self._gzip.eof:
            if time.monotonic() > self.until:
                raise ValueError("it takes too long")
            source = self._gzip.unconsumed_tail
            if not source:
                source = next(self._chunks, b"")
                if not source:
                    raise ValueError("it breaks off")
                self._caps.count_packed(len(source))
            part = self._gzip.decompress(source, len(buffer))
        buffer[: len(part)] = part
        return len(part)
