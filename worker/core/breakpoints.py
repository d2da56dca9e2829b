"""Where the cache marks of a request go (seed 001, "Sliding-window breakpoints")."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Positions in `messages.groups` that carry a mark, and where B2 now stands."""

    marks: tuple[int, ...]
    last: int | None


def place(count: int, previous: int | None, *, ephemeral: bool) -> Placement:
    """B2 on the last stable group, B1 where B2 stood at the previous request.

    `count` is the number of groups sent. An ephemeral request ends in text that will not be there
    next time, so its last group is not stable; with fewer than two groups nothing is marked.
    """
    if ephemeral and count < 2:
        return Placement((), previous)
    newest = count - 2 if ephemeral else count - 1
    if previous is None or previous >= newest:
        return Placement((newest,), newest)
    return Placement((previous, newest), newest)
