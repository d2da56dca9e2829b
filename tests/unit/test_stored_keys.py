"""A renamed field is read under its former key, and written under its name."""

from dataclasses import dataclass, field

import pytest

from worker.stored_keys import FORMER, KEY, from_stored, pick_known, to_stored


@dataclass(frozen=True)
class Thing:
    """One field of each kind."""

    plain: int
    renamed: bool = field(default=False, metadata={FORMER: "defied"})
    keyed: str = field(default="", metadata={KEY: "k"})


def test_a_former_key_is_read_and_no_longer_written() -> None:
    assert from_stored(Thing, {"plain": 1, "defied": True, "k": "x"}) == Thing(1, True, "x")
    assert to_stored(Thing(1, True, "x")) == {"plain": 1, "renamed": True, "k": "x"}
    assert from_stored(Thing, to_stored(Thing(1, True, "x"))) == Thing(1, True, "x")


def test_unknown_keys_are_left_out_or_refused() -> None:
    stored = {"plain": 1, "defied": True, "other": 2}
    assert from_stored(Thing, pick_known(Thing, stored)) == Thing(1, True)
    with pytest.raises(KeyError):
        from_stored(Thing, stored)
