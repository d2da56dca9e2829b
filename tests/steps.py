"""Something that happens between two steps of a part of a job: a death, another worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Killed(BaseException):
    """The worker dies."""


def die() -> None:
    """Kill the worker."""
    raise Killed


@dataclass(slots=True)
class Steps:
    """Counts the steps; at the one with the number `at` (from 0), `happen` is called."""

    at: int = -1
    happen: Callable[[], None] = die
    count: int = 0

    def pass_one(self) -> None:
        self.count += 1
        if self.count - 1 == self.at:
            self.happen()


class Stepped:
    """A part, each call to which is two steps: its beginning and its end."""

    def __init__(self, part: Any, steps: Steps) -> None:
        self._part, self._steps = part, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            self._steps.pass_one()
            given = found(*arguments, **options)
            self._steps.pass_one()
            return given

        return called
