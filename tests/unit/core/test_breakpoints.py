"""The five-step table of seed 001: U user, M model, E ephemeral; positions count groups."""

import pytest

from worker.core.breakpoints import Placement, place

STEPS = [
    ("T1: U1·B2", 1, False, Placement((0,), 0)),
    ("T2: U1·B1 M1 U2·B2", 3, False, Placement((0, 2), 2)),
    ("T3(E): U1 M1 U2·B1 M2·B2 U3+E", 5, True, Placement((2, 3), 3)),
    ("T4(E): U1 M1 U2 M2·B1 U3 M3·B2 U4+E", 7, True, Placement((3, 5), 5)),
    ("T5: U1 M1 U2 M2 U3 M3·B1 U4 M4 U5·B2", 9, False, Placement((5, 8), 8)),
]


def test_the_five_steps_slide_the_pair() -> None:
    previous = None
    for name, count, ephemeral, expected in STEPS:
        placed = place(count, previous, ephemeral=ephemeral)
        assert placed == expected, name
        previous = placed.last


def test_a_single_ephemeral_group_is_not_marked_and_moves_nothing() -> None:
    assert place(1, None, ephemeral=True) == Placement((), None)
    assert place(1, 4, ephemeral=True) == Placement((), 4)


@pytest.mark.parametrize("previous", [3, 4, 9])
def test_never_two_marks_on_one_place_and_never_past_the_end(previous: int) -> None:
    assert place(5, previous, ephemeral=True).marks == (3,)
