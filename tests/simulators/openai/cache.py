"""OpenAI's prompt cache: automatic, exact prefixes in steps of 128 tokens."""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

CHARACTERS_PER_TOKEN = 4
_STEP = 128


@dataclass(frozen=True, slots=True)
class Counted:
    """Input tokens of one request: all, and those of them read from or written to the cache."""

    total: int
    read: int
    written: int


@dataclass
class PrefixCache:
    """One organisation's cache. `minimum` is the shortest prefix taken, in tokens."""

    minimum: int = 1024
    lifetime: float = 1800.0
    now: Callable[[], float] = time.monotonic
    _entries: dict[str, float] = field(default_factory=dict)

    def count(self, route: str, parts: Sequence[str]) -> Counted:
        """Account for a request made of `parts`. `route` is its model and cache key."""
        start = self.now()
        self._entries = {key: until for key, until in self._entries.items() if until > start}
        whole = "".join(parts)
        steps = list(_steps(route, whole))
        read = max((tokens for tokens, key in steps if key in self._entries), default=0)
        read = read if read >= self.minimum else 0
        end = steps[-1][0] if steps and steps[-1][0] >= self.minimum else 0
        self._entries |= {key: start + self.lifetime for _, key in steps}
        return Counted(tokens_of(whole), read, max(0, end - read))


def tokens_of(text: str) -> int:
    """About as many as the API would count."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _steps(route: str, whole: str) -> list[tuple[int, str]]:
    """(tokens, key) of every prefix that can be an entry."""
    digest = hashlib.sha256(route.encode())
    size = _STEP * CHARACTERS_PER_TOKEN
    found = []
    for number in range(len(whole) // size):
        digest.update(whole[number * size : (number + 1) * size].encode("utf-8", "surrogatepass"))
        found.append(((number + 1) * _STEP, digest.hexdigest()))
    return found
