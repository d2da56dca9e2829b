"""Names say what they name, and sentences cite nothing that their reader does not have.

`python -m tests.law.names` lists the offenders.
"""

import pytest

from tests.law.house import modules, none, parse, product
from tests.law.names import bare_names, citations, find_everywhere

NAMED = (
    "name a function by a verb and its object, an attribute by a noun; a name that others have "
    "chosen is a row of ALLOWED in tests/law/names.py"
)
CITED = "say what that page says"


def test_no_name_is_a_bare_participle_or_preposition() -> None:
    assert none(find_everywhere(bare_names), NAMED)


def test_no_document_is_cited_that_the_reader_does_not_have() -> None:
    planted = "tests/law/test_names.py"
    everything = [each for each in (*product(), *modules("tests")) if each.path != planted]
    assert none([place for each in everything for place in citations(each)], CITED)


@pytest.mark.parametrize(
    "source",
    [
        "def told(): ...",
        "async def made(): ...",
        "def _told(): ...",
        "def tell():\n    def told(): ...",
        "class _Log:\n    def _kept(self): ...",
        "class Log:\n    def since(self): ...",
        "class Log:\n    kept: int = 0",
        "class Log:\n    def __init__(self):\n        self.hidden = 0",
        "class Log:\n    @property\n    def running(self): ...",
    ],
)
def test_a_planted_name_is_found(source: str) -> None:
    assert len(list(bare_names(parse("worker/logs/planted.py", source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def tell_verdict(): ...",
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
    [
        "(wire-gitlab 3.7)",
        "wire-models 1.9",
        "law 5",
        "laws 2 and 3",
        "seed 001",
        "field 4.21",
        "design, section 5",
    ],
)
def test_a_planted_citation_is_found(text: str) -> None:
    assert len(list(citations(parse("sandbox/planted.py", f"# As {text} says.")))) == 1


def test_a_public_address_is_no_such_citation() -> None:
    text = "# https://docs.gitlab.com/api/jobs/ names 12 fields; field 1 of 4 is the law of 2026."
    assert list(citations(parse("worker/planted.py", text))) == []
