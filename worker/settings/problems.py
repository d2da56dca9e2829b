"""What is wrong with settings, a line for each problem: where it is, the key, what was expected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.errors import ConfigError

Step = str | int
"""A key of a mapping, or the number of an item of a list, from 0."""

MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands: in a line of a file (0: not a line's), or in a variable. `text` is how
    it is written there, if that is one word without quotes."""

    where: str
    line: int = 0
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place, which may be the whole."""

    where: str
    message: str
    place: tuple[Step, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.where}:{self.line}" if self.line else self.where
        return ": ".join(filter(None, (where, format_key(self.place), self.message)))


def format_key(place: Sequence[Step]) -> str:
    """Write a place as messages show it, such as `gitlab.projects[0]`."""
    key = ""
    for step in place:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else step
    return key


def find_spot(spots: Mapping[tuple[Step, ...], Spot], place: Sequence[Step], where: str) -> Spot:
    """Return the spot of a place, or else of what it is part of; at last, only `where`."""
    whole = tuple(place)
    parts = (whole[:size] for size in range(len(whole), 0, -1))
    return next((spots[each] for each in parts if each in spots), Spot(where))


def refuse(problems: Iterable[Problem]) -> None:
    """Raise ConfigError if there are problems: a line for each, in the order of the files' lines,
    and after them those of variables."""
    ordered = sorted(problems, key=lambda each: (each.where.startswith("$"), each.where, each.line))
    kept = dict.fromkeys(map(str, ordered))
    if not kept:
        return
    lines = list(kept)
    more = [f"and {len(lines) - MAX_PROBLEMS} problems more"] if lines[MAX_PROBLEMS:] else []
    raise ConfigError("\n".join([*lines[:MAX_PROBLEMS], *more]))
