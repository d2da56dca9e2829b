"""Which documents a run has saved in its sandbox, so that none is shown twice."""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from worker.core.ports import Document

Key = tuple[str, str, str]


class SavedDocuments:
    """Where documents lie, by their source, what was asked of it, and what they hold.

    Many threads may ask. What is added is found from the next `publish` on, so that of calls which
    are made together none depends on another. `exists` says whether a file is still there; without
    it nothing is found.
    """

    def __init__(self, exists: Callable[[str], bool] = lambda path: False) -> None:
        self._exists = exists
        self._paths: dict[Key, str] = {}
        self._added: dict[Key, str] = {}
        self._lock = threading.Lock()

    def find_path(self, source: str, arguments: Mapping[str, Any], document: Document) -> str:
        """Return where the same document lies, "" if it was not saved or has changed since."""
        with self._lock:
            path = self._paths.get(_make_key(source, arguments, document), "")
        return path if path and self._exists(path) else ""

    def add(self, source: str, arguments: Mapping[str, Any], document: Document, path: str) -> None:
        """Keep that the document lies at `path`."""
        with self._lock:
            self._added.setdefault(_make_key(source, arguments, document), path)

    def publish(self) -> None:
        """Let what was added until now be found."""
        with self._lock:
            self._paths = self._added | self._paths
            self._added = {}


def _make_key(source: str, arguments: Mapping[str, Any], document: Document) -> Key:
    asked = json.dumps(dict(arguments), sort_keys=True, default=str)
    digest = hashlib.sha256(document.data)
    digest.update(f"{document.lines} {document.gaps}".encode(errors="replace"))
    return source, asked, digest.hexdigest()
