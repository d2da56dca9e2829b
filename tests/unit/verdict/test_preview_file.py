"""What is shown of a source file: the lines near what an error names."""

import pytest

from worker.verdict.previews import find_lines, preview_file

LICENCE = [f"# licence {number}" for number in range(30)]
BODY = [f"    value_{number} = {number}" for number in range(31, 301)]
SOURCE = [*LICENCE, *BODY]


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        ('  File "/builds/team/app/src/tide.py", line 150, in high', (150,)),
        ("src/tide.py:150: KeyError\nsrc/tide.py:12: in high", (150, 12)),
        ("at high (tide.py:150:3)", (150,)),
        ("src/tide.py(150,5): error", (150,)),
        ("other/tides.py:150: KeyError", ()),
        ("src/tide.py:9999: KeyError", ()),
        ("no place at all", ()),
    ],
)
def test_the_lines_that_an_error_names_are_found(error: str, lines: tuple[int, ...]) -> None:
    assert find_lines("src/tide.py", SOURCE, error) == lines


def test_without_a_line_the_definition_of_what_is_named_counts() -> None:
    source = ["import x", "", "def test_high_tide():", "    assert x"]
    assert find_lines("t.py", source, "FAILED t.py::test_high_tide - KeyError") == (3,)


def test_ten_lines_stand_around_the_named_one() -> None:
    shown = preview_file(SOURCE, [150], 4096, 10).split("\n")
    assert shown[0] == "[… 144 lines not shown …]"
    assert shown[1:-1] == [f"{number}: {SOURCE[number - 1]}" for number in range(145, 155)]
    assert shown[-1] == "[… 146 lines not shown …]"


def test_no_mark_stands_where_the_lines_themselves_are_not_longer() -> None:
    lines = [*"ab", *["x" * 60] * 9, *"cd"]
    for limit in range(400, 900):
        assert "… 2 lines" not in preview_file(lines, [7], limit)


def test_every_named_line_comes_before_the_lines_around_one() -> None:
    shown = preview_file(SOURCE, [150, 40, 290], 4096, 3).split("\n")
    assert [line for line in shown if not line.startswith("[")] == [
        f"{number}: {SOURCE[number - 1]}" for number in (40, 150, 290)
    ]


def test_a_file_that_nothing_names_begins_after_its_licence() -> None:
    shown = preview_file(SOURCE, [], 4096, 2)
    assert shown.startswith("[… 30 lines not shown …]\n31:     value_31 = 31\n32: ")


@pytest.mark.parametrize("limit", [60, 300, 1024, 4096, 65_536])
@pytest.mark.parametrize("named", [[], [1], [150], [1, 150, 300]])
def test_a_preview_keeps_to_its_bytes(limit: int, named: list[int]) -> None:
    for lines in (SOURCE, ["ü" * 5000] * 40, [""] * 400, ["x"]):
        assert (
            len(preview_file(lines, [n for n in named if n <= len(lines)], limit).encode()) <= limit
        )


def test_a_short_file_is_shown_whole_and_a_long_line_says_that_it_is_cut() -> None:
    assert preview_file(["a", "b"], [], 4096) == "1: a\n2: b"
    assert preview_file(["x" * 5000], [1], 4096) == "1: " + "x" * 300 + "[cut]"
