"""Blanks take little of the excerpt, and columns that mean something are kept."""

import pytest

from tests.unit.logs.test_excerpt import calm, log, texts
from worker.logs.excerpt import preview_log


def show_failure(*lines: str) -> list[str]:
    """The lines shown of a failure with these lines."""
    cleaned = log(*calm(900), "error: the boxes differ", *lines, *calm(90, seed=2))
    return texts(preview_log(cleaned, 4_096))


def test_long_runs_of_blanks_are_shortened_and_deeper_lines_stay_deeper() -> None:
    shown = show_failure(
        "=>insert/indent" + " " * 40 + "ERROR" + " " * 30,
        " " * 36 + "Error: the shelf is full",
        " " * 44 + "Error: at box 7",
        " " * 12 + "Error: got 3",
    )
    assert "=>insert/indent  ERROR" in shown
    assert " " * 21 + "Error: the shelf is full" in shown
    assert " " * 23 + "Error: at box 7" in shown
    assert " " * 12 + "Error: got 3" in shown


@pytest.mark.parametrize(
    ("source", "pointer"),
    [
        ("   56 |                  return boxes + shelf;", "      |                         ^~~~~"),
        ("                         error = boxes[7]", "                                 ^^^^^^^^"),
        ("E         - boxes:          7, error", "E         ?                 ^"),
        ("E         error:          seven boxes", "E         -               ++++ -"),
    ],
)
def test_a_line_that_points_into_the_line_above_keeps_its_columns(
    source: str, pointer: str
) -> None:
    shown = show_failure(source, pointer)
    assert {source, pointer} <= set(shown)
