"""Redacts a session's documents, and counts the secrets that it removes."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, TypeVar

from worker.safety.redact import Redaction
from worker.safety.redacted_values import (
    Redacted,
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
            for each in redaction.removed:
                # The first two lines tell a key from another one, also where the rest is cut off.
                seen = hash((each.kind, *each.secret.split(b"\n", 2)[:2]))
                if seen not in self._seen:
                    self._seen.add(seen)
                    self._found[each.kind, self._document] += 1
        return redaction.data
