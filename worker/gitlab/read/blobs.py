"""The two ends of what is too large to be kept whole."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blob:
    """A file or log of `size` bytes, whole in `head`, or its start there and its end in `tail`."""

    head: bytes
    tail: bytes
    size: int

    @property
    def omitted_bytes(self) -> int:
        """Bytes left out between `head` and `tail`."""
        return self.size - len(self.head) - len(self.tail)


def keep_ends(chunks: Iterable[bytes], cap: int) -> Blob:
    """Return all, or the first quarter of `cap` bytes and the last three, where errors are."""
    room = cap // 4
    head, rest, size = bytearray(), bytearray(), 0
    for chunk in chunks:
        size += len(chunk)
        free = room - len(head)
        head += chunk[:free]
        rest += chunk[free:]
        if len(rest) > 2 * cap:
            del rest[: room - cap]
    if size <= cap:
        return Blob(bytes(head + rest), b"", size)
    return Blob(bytes(head), bytes(rest[room - cap :]), size)
