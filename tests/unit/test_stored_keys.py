"""A renamed field is read under its former key, and written under its name."""

import json
from dataclasses import dataclass, field

import pytest

from worker.stored_keys import FORMER, KEY, UNSTORED, from_stored, pick_known, to_stored


@dataclass(frozen=True)
class Thing:
    """One field of each kind."""

    plain: int
    renamed: bool = field(default=False, metadata={FORMER: "defied"})
    keyed: str = field(default="", metadata={KEY: "k"})


@dataclass(frozen=True)
class Lists:
    """Fields that JSON has as lists, and one that is not stored."""

    words: tuple[str, ...] = ()
    pairs: tuple[tuple[int, str], ...] = ()
    seen: str = field(default="", metadata={UNSTORED: True})


def test_a_former_key_is_read_and_no_longer_written() -> None:
    assert from_stored(Thing, {"plain": 1, "defied": True, "k": "x"}) == Thing(1, True, "x")
    assert to_stored(Thing(1, True, "x")) == {"plain": 1, "renamed": True, "k": "x"}
    assert from_stored(Thing, to_stored(Thing(1, True, "x"))) == Thing(1, True, "x")


def test_unknown_keys_are_left_out_or_refused() -> None:
    stored = {"plain": 1, "defied": True, "other": 2}
    assert from_stored(Thing, pick_known(Thing, stored)) == Thing(1, True)
    with pytest.raises(KeyError):
        from_stored(Thing, stored)


def test_a_list_becomes_the_tuple_that_its_field_holds() -> None:
    made = Lists(("a", "b"), ((1, "x"), (2, "y")))
    assert from_stored(Lists, json.loads(json.dumps(to_stored(made)))) == made
    assert from_stored(Lists, to_stored(made)) == made
    assert from_stored(Lists, {}) == Lists()


@pytest.mark.parametrize(
    "stored",
    [
        {"words": [1]},
        {"words": "ab"},
        {"words": [["a"]]},
        {"pairs": [[1]]},
        {"pairs": [[True, ""]]},
    ],
)
def test_a_list_of_other_items_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        from_stored(Lists, stored)


def test_what_is_of_use_only_meanwhile_is_not_stored() -> None:
    assert to_stored(Lists(seen="x")) == {"words": (), "pairs": ()}


def test_what_is_not_stored_is_not_believed_from_a_store() -> None:
    with pytest.raises(KeyError, match="seen"):
        from_stored(Lists, {"words": [], "seen": "planted"})

    assert pick_known(Lists, {"seen": "planted"}) == {}
