"""Which documents a run has saved in its sandbox, so that none is shown twice."""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import Any

from worker.tools.source import Document

Key = tuple[str, str, str]


class SavedDocuments:
    """The paths of saved documents by their source, its arguments, and their content.

    Safe to share between threads. An added document is found after the next `publish`, so that
    calls which are made together do not depend on each other. `exists` says whether a file is still
    there; without it nothing is found.
    """

    def __init__(self, exists: Callable[[str], bool] = lambda path: False) -> None:
        self._exists = exists
        self._paths: dict[Key, str] = {}
        self._added: dict[Key, str] = {}
        self._lock = threading.Lock()

    def find_path(self, source: str, arguments: Mapping[str, Any], document: Document) -> str:
        """Return the path of the same document, "" if it was not saved or has changed since."""
        with self._lock:
            path = self._paths.get(_make_key(source, arguments, document), "")
        return path if path and self._exists(path) else ""

    def add(self, source: str, arguments: Mapping[str, Any], document: Document, path: str) -> None:
        """Record that the document was saved at `path`, in place of any other one there."""
        key = _make_key(source, arguments, document)
        with self._lock:
            self._paths = _remove_overwritten(self._paths, key, path)
            self._added = _remove_overwritten(self._added, key, path)
            self._added.setdefault(key, path)

    def publish(self) -> None:
        """Make the documents that were added until now available to `find_path`."""
        with self._lock:
            self._paths = self._added | self._paths
            self._added = {}


def _remove_overwritten(paths: Mapping[Key, str], key: Key, path: str) -> dict[Key, str]:
    """Return the paths without those of other documents than `key` in the file `path`."""
    file = normpath(path)
    return {each: at for each, at in paths.items() if each == key or normpath(at) != file}


def _make_key(source: str, arguments: Mapping[str, Any], document: Document) -> Key:
    sorted_arguments = json.dumps(dict(arguments), sort_keys=True, default=str)
    digest = hashlib.sha256(document.data)
    digest.update(f"{document.lines} {document.gaps}".encode(errors="replace"))
    return source, sorted_arguments, digest.hexdigest()
