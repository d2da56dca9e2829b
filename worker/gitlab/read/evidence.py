"""Keeps with the session what was read from systems that soon delete it, so that a quote is checked
against the same bytes that the model was given, even in a later turn.

A pod, for instance, is deleted with its log soon after its task has ended.
"""

import base64
import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from worker.errors import SourceError, StoreError
from worker.logs import trace
from worker.safety.redacted_values import Redacted
from worker.verdict.finding import RequestFile, TaskStep, name_place

MAX_DOCUMENT = 32 * 1024 * 1024
"""Bytes of one document."""

MAX_KEPT = 16 * 1024 * 1024
"""Bytes of all documents of a session that are kept, compressed."""

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
        """Return the document as it is held in memory. Raises ValueError."""
        return _Kept(base64.b64decode(self.data, validate=True), self.url)


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    documents: tuple[_Document, ...] = ()


class Evidence:
    """The kept documents of one session by their places. Safe to share between threads.

    Only the newest document of a place is kept: the log of a running task grows.
    """

    def __init__(self, max_kept: int = MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._kept: dict[str, _Kept] = {}
        self._read: Callable[[], bytes | None] = lambda: None
        self._write: Callable[[bytes], None] = lambda record: None
        self._lock = threading.RLock()

    def attach(self, read: Callable[[], bytes | None], write: Callable[[bytes], None]) -> None:
        """Store the documents with `write` from now on; `read` returns what was written last, in
        this turn or an earlier one. Both may raise StoreError."""
        with self._lock:
            self._read, self._write = read, write

    def keep(self, place: KeptPlace, data: Redacted, url: str) -> None:
        """Keep a document. If the store fails, only later turns lack it."""
        document = _Kept(zlib.compress(data), url)
        if len(document) > self._max_kept:
            return
        with self._lock:
            loaded = self._load()
            self._kept.pop(name_place(place), None)
            self._kept[name_place(place)] = document
            while sum(map(len, self._kept.values())) > self._max_kept:
                del self._kept[next(iter(self._kept))]  # the oldest
            if loaded:  # otherwise what was stored before would be overwritten
                self._save()

    def read_lines(self, place: KeptPlace) -> Sequence[str]:
        """Return the lines of a document. Raises SourceError for a document that was not read."""
        packed = self._find(place).packed
        unpacker = zlib.decompressobj()
        try:
            return trace.split_lines(unpacker.decompress(packed, MAX_DOCUMENT))
        except zlib.error as error:
            raise SourceError("what was kept of it is damaged") from error

    def link_lines(self, place: KeptPlace) -> str:
        """Return a link to a document; "" if it has no page. Raises SourceError if it was not
        read."""
        return self._find(place).url

    def _find(self, place: KeptPlace) -> _Kept:
        with self._lock:
            self._load()
            found = self._kept.get(name_place(place))
        if found is None:
            raise SourceError("it was not fetched in this session, or is spelt otherwise")
        return found

    def _load(self) -> bool:
        """Load what an earlier turn or worker has kept, once. False if the store cannot be read."""
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
        documents = tuple(
            _Document(place=place, url=each.url, data=base64.b64encode(each.packed).decode())
            for place, each in self._kept.items()
        )
        try:
            self._write(_Record(documents=documents).model_dump_json().encode())
        except StoreError as error:
            _log.warning("evidence not kept: %s", error)
