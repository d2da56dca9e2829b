"""What was read of systems that forget, kept with the session, so that a quote of it is proven
against the very bytes that the model was given, also in a later turn.

A pod is deleted soon after its task has ended, and its log with it.
"""

import base64
import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from worker.core.logs import trace
from worker.core.ports.evidence import RequestFile, TaskStep, name_place
from worker.core.text.redacted_values import Redacted
from worker.errors import SourceError, StoreError

MAX_DOCUMENT = 32 * 1024 * 1024
"""Bytes of one document."""

MAX_KEPT = 16 * 1024 * 1024
"""Bytes of all documents of a session, as they are kept: packed."""

KeptPlace = TaskStep | RequestFile
"""The places whose documents are kept."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    packed: bytes
    url: str

    def __len__(self) -> int:
        return len(self.packed)


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    place: str
    url: str = ""
    data: str

    def unpack(self) -> _Kept:
        """It as it is held. Raises ValueError."""
        return _Kept(base64.b64decode(self.data, validate=True), self.url)


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    documents: tuple[_Document, ...] = ()


class Evidence:
    """The kept documents of one session by their places. Safe to share by threads.

    The newest document of a place counts: the log of a running task grows.
    """

    def __init__(self, max_kept: int = MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._kept: dict[str, _Kept] = {}
        self._read: Callable[[], bytes | None] = lambda: None
        self._write: Callable[[bytes], None] = lambda record: None
        self._lock = threading.RLock()

    def attach(self, read: Callable[[], bytes | None], write: Callable[[bytes], None]) -> None:
        """Keep the documents from now on where `write` puts them; `read` gives what was written
        last, in this turn or before. Both may raise StoreError."""
        with self._lock:
            self._read, self._write = read, write

    def keep(self, place: KeptPlace, data: Redacted, url: str) -> None:
        """Keep a document. A store that fails costs only the turns after this one."""
        made = _Kept(zlib.compress(data), url)
        if len(made) > self._max_kept:
            return
        with self._lock:
            loaded = self._load()
            self._kept.pop(name_place(place), None)
            self._kept[name_place(place)] = made
            self._drop_oldest()
            if loaded:  # else what was kept before would be lost
                self._save()

    def lines(self, place: KeptPlace) -> Sequence[str]:
        """The lines of a document. Raises SourceError for one that was not read."""
        packed = self._find(place).packed
        unpacker = zlib.decompressobj()
        try:
            return trace.split_lines(unpacker.decompress(packed, MAX_DOCUMENT))
        except zlib.error as error:
            raise SourceError("what was kept of it is damaged") from error

    def url(self, place: KeptPlace) -> str:
        """Where a document can be looked at, "" if nowhere. Raises SourceError likewise."""
        return self._find(place).url

    def _find(self, place: KeptPlace) -> _Kept:
        with self._lock:
            self._load()
            found = self._kept.get(name_place(place))
        if found is None:
            raise SourceError("it was not fetched in this session, or is spelt otherwise")
        return found

    def _load(self) -> bool:
        """Read once what an earlier turn or worker has kept. False if the store is away."""
        try:
            record = self._read()
        except StoreError as error:
            _log.warning("kept evidence not read: %s", error)
            return False
        self._read = lambda: None
        try:
            found = _Record.model_validate_json(record or b"{}")
            stored = {each.place: each.unpack() for each in found.documents}
        except ValueError as error:
            _log.warning("kept evidence is damaged: %s", type(error).__name__)
            stored = {}
        self._kept = stored | self._kept
        return True

    def _save(self) -> None:
        try:
            self._write(self._write_record())
        except StoreError as error:
            _log.warning("evidence not kept: %s", error)

    def _drop_oldest(self) -> None:
        """Let the oldest documents go until the others are few enough."""
        while sum(map(len, self._kept.values())) > self._max_kept:
            del self._kept[next(iter(self._kept))]

    def _write_record(self) -> bytes:
        documents = tuple(
            _Document(place=place, url=each.url, data=base64.b64encode(each.packed).decode())
            for place, each in self._kept.items()
        )
        return _Record(documents=documents).model_dump_json().encode()
