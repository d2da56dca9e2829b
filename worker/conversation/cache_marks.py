"""Decides where a request has cache marks.

See https://platform.claude.com/docs/en/build-with-claude/prompt-caching for their meaning.

Anthropic writes a cache entry only at a mark, and reads the longest entry at or shortly
before one. Writing costs 1.25 times plain input, reading 0.1, so a token should be written once, by
the first request that holds it, and be read by every later one.

Two marks slide: B2 on the last stable group, B1 where B2 was before. With these alone, the newest
tool results of an ephemeral request (one that ends in a warning or a reminder) are not written, and
they are paid for twice: 5 % of an eight-request session. But prefixes are hashed block by block,
and the ephemeral text is a block of its own after the results. So there are two more marks:

- the *inner* mark, on the last stored block of an ephemeral request, before its notice;
- the *kept* mark, where the newest entry ends. Mostly that is B1; after an ephemeral request it is
  the inner mark, one group past B1. Without it the next request could find the entry only
  by the look-back of 20 positions, and one turn of ten parallel calls is longer than that where
  every block counts (Vertex AI).

The first request after a fold, which has no kept mark, has two marks where folds end instead.

That is four at most, the number that the API accepts. A mark at the end of a part that is written
anyway costs nothing. If a mark is left, the codec puts it at the end of the system prompt. That is
useless within a session, but lets the sessions of one workflow read each other's tools and system
prompt from the cache.

A forced final request is marked like any other, although its tail is read again only if a reply
comes within the lifetime. Leaving it unwritten would save 1.3 % of a session of eight requests and
0.1 % of one of fifty, and cost 4.4 % and 0.4 % if there is such a reply. Marking it risks less, and
needs no special case. Only a request with the tools switched off on the wire has no marks, because
no other request can read what it writes (see `worker.turns.loop`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.conversation.context import CacheMark

LIFETIME = 300.0
"""Seconds an entry lives after the start of the last request that used it.

No safety margin is subtracted: a mark on an expired entry costs nothing, but a missing mark on a
live entry costs the whole prefix.
"""


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """All marks of one request, as positions in `messages.group_messages`, and what to remember of
    them.

    `cache` goes into the session once the request was answered.
    """

    marks: tuple[int, ...]
    cache: CacheMark | None


def plan_marks(
    count: int,
    cache: CacheMark | None,
    *,
    ephemeral: bool,
    now: float,
    fold_ends: Sequence[int] = (),
) -> MarkPlan:
    """Plan the marks of a request of `count` groups that is sent at `now` (epoch seconds).

    `fold_ends` are at most two positions, for the first request after a fold: the entry that ends
    at the older one can still be read, and the entry at the newer one after the next fold.
    """
    alive = cache if cache and now - cache.sent_at < LIFETIME else None
    inner = count - 1
    newest = max(inner - ephemeral, 0)
    marks = {newest, inner, *(end for end in fold_ends if end < inner)}
    if alive:
        marks |= {min(alive.position, newest), min(max(alive.position, alive.end), inner)}
    return MarkPlan(tuple(sorted(marks)), CacheMark(newest, now, inner))
