"""Names say what they name, and sentences cite nothing that their reader does not have.

The tables are a ratchet: how many offenders a room still has. A figure may only fall, and goes when
it is 0; when code moves to another room, its part of the figure moves along.
`python -m tests.law.names` lists the offenders and the figures.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.law.house import Module, modules, none, parse, product
from tests.law.names import bare_names, by_room, citations, room_of

Rule = Callable[[Module], Iterator[str]]

BARE_NAMES: dict[str, int] = {
    "worker/queue": 1,
}


def risen(found: Mapping[str, list[str]], allowed: Mapping[str, int]) -> list[str]:
    """The rooms that have more offenders than their figure allows, with all of them."""
    return [
        "\n  ".join((f"{room}: {len(places)}, allowed are {allowed.get(room, 0)}", *places))
        for room, places in found.items()
        if len(places) > allowed.get(room, 0)
    ]


def test_no_public_name_is_a_bare_participle_or_preposition() -> None:
    assert none(risen(by_room(bare_names), BARE_NAMES))


def test_no_document_is_cited_that_the_reader_does_not_have() -> None:
    planted = "tests/law/test_names.py"
    everything = [each for each in (*product(), *modules("tests")) if each.path != planted]
    assert none([place for each in everything for place in citations(each)])


@pytest.mark.parametrize(
    "source",
    [
        "def told(): ...",
        "async def made(): ...",
        "class Log:\n    def since(self): ...",
        "class Log:\n    kept: int = 0",
        "class Log:\n    def __init__(self):\n        self.hidden = 0",
        "class Log:\n    @property\n    def running(self): ...",
    ],
)
def test_a_planted_name_is_found(source: str) -> None:
    (place,) = bare_names(parse("worker/core/planted.py", source))
    assert room_of(place) == "worker/core"
    assert risen({"worker/core": [place]}, {}) != []
    assert risen({"worker/core": [place]}, {"worker/core": 1}) == []


@pytest.mark.parametrize(
    "source",
    [
        "def tell_verdict(): ...",
        "def _told(): ...",
        "def feed(warning): ...",
        "class Note:\n    resolved: bool = False",
        "class Log:\n    finding: str\n    lines_left: int",
        "class _Log:\n    kept: int = 0",
    ],
)
def test_a_good_name_is_not_found(source: str) -> None:
    assert list(bare_names(parse("worker/planted.py", source))) == []


@pytest.mark.parametrize(
    "text",
    ["(wire-gitlab 3.7)", "wire-models 1.9", "law 5", "laws 2 and 3", "seed 001", "field 4.21"],
)
def test_a_planted_citation_is_found(text: str) -> None:
    assert len(list(citations(parse("sandbox/planted.py", f"# As {text} says.")))) == 1


def test_a_public_address_is_no_such_citation() -> None:
    text = "# https://docs.gitlab.com/api/jobs/ names 12 fields; field 1 of 4 is the law of 2026."
    assert list(citations(parse("worker/planted.py", text))) == []
