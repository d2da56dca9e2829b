"""Caches the documents of one session by call: the same call returns the same bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from worker.core.ports import Document

MAX_KEPT = 32 * 1024 * 1024
"""Bytes of all documents kept."""


class Cache:
    """Keeps final documents, dropping the least recently used. Safe to share between threads."""

    def __init__(self, max_kept: int = MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._kept: OrderedDict[tuple[str, str], Document] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], make: Callable[[], Document]) -> Document:
        """The document of `key`, from `make` if it is not kept. Raises what `make` raises."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        document = make()
        if document.final and document.chunks is None:
            self._keep(key, document)
        return document

    def _keep(self, key: tuple[str, str], document: Document) -> None:
        with self._lock:
            if key in self._kept or len(document.data) > self._max_kept:
                return
            self._kept[key] = document
            self._size += len(document.data)
            while self._size > self._max_kept:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone.data)
