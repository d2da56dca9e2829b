"""Single changes to a body: each breaks one rule."""

from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], None]


def put(*path: Any, to: Any) -> Change:
    """The value at `path` becomes `to`; an index past the end appends it."""

    def change(body: dict[str, Any]) -> None:
        place = _at(body, path[:-1])
        if isinstance(place, list) and path[-1] == len(place):
            place.append(to)
        else:
            place[path[-1]] = to

    return change


def drop(*path: Any) -> Change:
    """The value at `path` goes."""

    def change(body: dict[str, Any]) -> None:
        del _at(body, path[:-1])[path[-1]]

    return change


def _at(place: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        place = place[step]
    return place
