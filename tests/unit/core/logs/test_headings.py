"""A linter's errors get the path that stands above them."""

import pytest

from worker.core.logs.error_lines import select_error_lines
from worker.core.logs.headings import join_headings
from worker.core.logs.signature import make_signature

ESLINT = [
    "$ npx eslint .",
    "",
    "/builds/team/service/src/aisle.js",
    "  12:7   error    'middle' is never reassigned  prefer-const",
    "  13:12  warning  Unexpected console statement  no-console",
    "  16:9   error    Expected '===' and instead saw '=='  eqeqeq",
    "",
    "✖ 3 problems (2 errors, 1 warning)",
]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (ESLINT[2:4], "/builds/team/service/src/aisle.js:12:7: error    'middle' is never"),
        (["src/a.css", "  3:1  ✖  Unexpected unit  unit-no-unknown"], "src/a.css:3:1: ✖  Unexp"),
        (["deploy/a.yml", "  4:3       error    wrong indentation"], "deploy/a.yml:4:3: error"),
        (
            ["FILE: /srv/src/A.php", "-----", "FOUND 1 ERROR", " 12 | ERROR | [x] Missing space"],
            "/srv/src/A.php:12: ERROR | [x] Missing space",
        ),
        (["33: src/a.js", "34:   12:7  error  It is unused"], "34: src/a.js:12:7: error  It is"),
    ],
    ids=["eslint", "stylelint", "yamllint", "phpcs", "numbered"],
)
def test_an_error_begins_with_the_path_above_it(lines: list[str], error: str) -> None:
    assert list(join_headings(lines))[:-1] == lines[:-1]
    assert list(join_headings(lines))[-1].startswith(error)


@pytest.mark.parametrize("between", ["", "…"])
def test_a_path_above_a_gap_heads_nothing(between: str) -> None:
    lines = ["src/a.js", between, "  12:7  error  It is unused"]
    assert list(join_headings(lines)) == lines


def test_the_error_of_a_linter_names_its_file() -> None:
    made = make_signature(ESLINT)
    assert made.text.startswith("/builds/team/service/src/aisle.js:12:7: error 'middle'")
    assert "src/aisle.js:16:9: error" in select_error_lines("\n".join(ESLINT))


def test_the_same_problem_in_another_file_is_another_error() -> None:
    other = [line.replace("aisle", "seat") for line in ESLINT]
    moved = [line.replace("/builds/team", "/srv/ci/x") for line in ESLINT]
    assert make_signature(ESLINT).key != make_signature(other).key
    assert make_signature(ESLINT).key == make_signature(moved).key
