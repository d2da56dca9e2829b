"""Gemini's implicit cache: the longest known prefix, if it is long enough."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.gemini.protocol import compact

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Counted:
    """Prompt tokens of one request, and how many of them were cached."""

    prompt: int
    cached: int


@dataclass
class ImplicitCache:
    """One project's cache. `minimum` is the shortest prefix that counts, in tokens."""

    minimum: int = 4096
    lifetime: float = 300.0
    now: Callable[[], float] = time.monotonic
    _entries: dict[str, float] = field(default_factory=dict)

    def count(self, model: str, body: Mapping[str, Any]) -> Counted:
        """Account for one valid request, and remember its prefixes."""
        start = self.now()
        self._entries = {key: until for key, until in self._entries.items() if until > start}
        total = cached = 0
        for key, total in _prefixes(model, body):
            if key in self._entries and total >= self.minimum:
                cached = total
            self._entries[key] = start + self.lifetime
        return Counted(total, cached)


def tokens(characters: int) -> int:
    """About as many as the API would count."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def _prefixes(model: str, body: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """A key and the tokens of each prefix: system text, tools, then part by part."""
    digest = hashlib.sha256(model.encode())
    length = 0
    for piece in _pieces(body):
        digest.update(len(piece).to_bytes(8) + piece)
        length += len(piece)
        yield digest.hexdigest(), tokens(length)


def _pieces(body: Mapping[str, Any]) -> Iterator[bytes]:
    yield compact(body.get("systemInstruction"))
    yield compact(body.get("tools"))
    for content in body["contents"]:
        for part in content["parts"]:
            yield compact([content["role"], part])
