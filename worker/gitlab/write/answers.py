"""The parts of GitLab's answers that the writer needs, from what may be anybody's answer."""

from typing import Any

from worker.errors import ForgeError
from worker.gitlab.client import IN_PLACE

Json = dict[str, Any]


def make_odd_answer(text: str) -> ForgeError:
    """Make the error for an answer that is not GitLab's."""
    return ForgeError(f"{text}{IN_PLACE}", transient=True, doubtful=True)


def get_author_id(note: Json) -> object:
    """Return the id of a note's author, or what stands there."""
    return read_field(note.get("author"), "id")


def get_id(answer: object) -> int:
    """Return the id of an object. Raises ForgeError if it has none."""
    value = read_field(answer, "id")
    if not isinstance(value, int):
        raise make_odd_answer("GitLab's answer has no id")
    return value


def read_field(answer: object, name: str) -> object:
    """Return a field of an answer; None if it has none, or is not an object."""
    return answer.get(name) if isinstance(answer, dict) else None


def list_objects(found: object, name: str) -> list[Json]:
    """Return the objects in a list; `name` says what they are. Raises ForgeError if it is none."""
    if not isinstance(found, list):
        raise make_odd_answer(f"GitLab's answer has no list of {name}")
    return [each for each in found if isinstance(each, dict)]
