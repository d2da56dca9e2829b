"""A line's words add to its weight, by a table that is part of the package."""

import hashlib
import struct

import pytest

from tests.fit_weights import OUTPUT, pack_weights
from worker.logs import line_marks

DIGEST = "31ccaa2ea2f097dd1b5cdede18366180a3df4761596fb268b559fd79cf43d1c5"
"""Of the committed weights: `python -m tests.fit_weights` makes them anew."""


def test_the_weights_are_those_that_were_fitted_and_fit_this_way_of_hashing() -> None:
    data = OUTPUT.read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGEST
    assert len(data) == line_marks.HEADER.size + line_marks.SIZE
    assert line_marks.read_weights(data).weights.nbytes == line_marks.SIZE


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", set()),
        ("Error", {0x8348, 0xBC71}),
    ],
)
def test_words_are_hashed_the_same_everywhere(text: str, numbers: set[int]) -> None:
    assert line_marks.hash_words(text) == numbers


def test_numbers_and_case_do_not_matter_and_humps_are_words() -> None:
    assert line_marks.hash_words("Line 12") == line_marks.hash_words("line 345")
    assert line_marks.hash_words("MissingSetting") == line_marks.hash_words("missing setting")


@pytest.mark.parametrize(
    ("telling", "dull"),
    [
        ("option 'id' is not defined", "the option is set"),
        ("expected 3 to equal 4", "copied 3 of 4 parts"),
        ("cart.rb:7: undefined method", "cart.rb is copied"),
    ],
)
def test_telling_words_score_higher_than_dull_ones(telling: str, dull: str) -> None:
    weights = line_marks.read_weights(OUTPUT.read_bytes())
    assert weights.score(telling) > weights.score(dull)
    assert line_marks.weigh_words(telling) > line_marks.weigh_words(dull)


def test_weights_survive_their_packing() -> None:
    given = [0.0] * line_marks.SIZE
    given[7], given[8] = 1.27, -0.5
    read = line_marks.read_weights(pack_weights(-2.0, given))
    assert (read.weights[7], read.weights[8], read.weights[9]) == (127, -50, 0)
    assert read.scale == pytest.approx(0.01)
    assert read.bias == -2.0


@pytest.mark.parametrize("damage", ["version", "size", "magic"])
def test_weights_of_another_form_are_refused(damage: str) -> None:
    data = bytearray(OUTPUT.read_bytes())
    if damage == "version":
        struct.pack_into("<H", data, len(line_marks.MAGIC), line_marks.VERSION + 1)
    elif damage == "size":
        data.pop()
    else:
        data[0] ^= 1
    with pytest.raises(ValueError, match="make it again"):
        line_marks.read_weights(bytes(data))
