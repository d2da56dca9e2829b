"""A cache of encoded messages, so that a growing conversation is encoded only once.

Every request repeats the whole history. Encoding all of it each time would take longer than the
rest of the loop (400 messages of 4 KB: 4 ms).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from worker.conversation.messages import Message, group_messages
from worker.models.base import Fragment

SESSIONS = 16
"""Conversations kept, at about a megabyte each: more than a single worker runs at the same time."""


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation as it was last sent; its last group begins at message `last`."""

    messages: tuple[Message, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    last: int = 0


class FragmentCache:
    """Encodes conversations with `encode`, which turns one group of messages into a fragment.

    `encode` must be pure, so that a cached fragment equals a newly made one. Safe for threads.
    """

    def __init__(self, encode: Callable[[Sequence[Message]], Fragment]) -> None:
        self._encode = encode
        self._conversations: OrderedDict[tuple[Message, ...], _Conversation] = OrderedDict()
        self._lock = Lock()

    def encode_groups(self, messages: Sequence[Message]) -> tuple[Fragment, ...]:
        """Return one fragment for each group of `group_messages(messages)`."""
        messages = tuple(messages)
        opening = messages[:1]
        cached = self._conversations.get(opening, _Conversation())
        # Comparing is cheap: nearly always these are the very same objects.
        if messages[: len(cached.messages)] != cached.messages:
            cached = _Conversation()
        # The last group may have grown.
        new = group_messages(messages[cached.last :])
        fragments = (*cached.fragments[:-1], *map(self._encode, new))
        last = cached.last + sum(map(len, new[:-1]))
        self._remember(opening, _Conversation(messages, fragments, last))
        return fragments

    def _remember(self, opening: tuple[Message, ...], cached: _Conversation) -> None:
        with self._lock:
            self._conversations[opening] = cached
            self._conversations.move_to_end(opening)
            if len(self._conversations) > SESSIONS:
                self._conversations.popitem(last=False)
