"""What is shown of a diff: its new line numbers, and the hunks that an error names first."""

import pytest

from worker.verdict.previews import preview_diff

SMALL = """\
1 file changed
M src/app.py +2 -1

diff --git a/src/app.py b/src/app.py
--- a/src/app.py
+++ b/src/app.py
@@ -10,3 +10,4 @@ def f():
 before
-gone
+one
+++two
 after
\\ No newline at end of file"""


def hunk(start: int, changed: str, around: int = 3) -> str:
    context = [f" line {number}" for number in range(around)]
    count = 2 * around + 1
    return "\n".join(
        [f"@@ -{start},{count} +{start},{count} @@", *context, "-old", f"+{changed}", *context]
    )


def file(path: str, *hunks: str) -> str:
    return "\n".join([f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}", *hunks])


def diff(*files: str) -> str:
    return "\n".join(
        [f"{len(files)} files changed", *(f"M f{n} +1 -1" for n in range(3)), "", *files]
    )


BULKY = file("src/bulk.py", *(hunk(n * 100, f"bulk_{n} = {'x' * 300}", 20) for n in range(1, 30)))
LOCK = file("poetry.lock", hunk(1, 'version = "2.0"', 1))
CAUSE = file(
    "src/tide.py", hunk(7, "far = away"), hunk(150, "height = None"), hunk(900, "more = 1")
)


def test_added_and_unchanged_lines_have_their_new_numbers() -> None:
    assert preview_diff(SMALL, "", "team/app", len(SMALL)).split("\n")[3:] == [
        "diff --git a/src/app.py b/src/app.py",
        "--- a/src/app.py",
        "+++ b/src/app.py",
        "@@ -10,3 +10,4 @@ def f():",
        "   10  before",
        "      -gone",
        "   11 +one",
        "   12 +++two",
        "   13  after",
        "      \\ No newline at end of file",
    ]


def test_a_diff_that_fits_is_whole() -> None:
    whole = diff(CAUSE, LOCK)
    shown = preview_diff(whole, "", "team/app", len(whole)).split("\n")
    pairs = zip(shown, whole.split("\n"), strict=True)
    assert all(numbered in (line, f"{numbered[:6]}{line}") for numbered, line in pairs)
    assert "  153 +height = None" in shown


@pytest.mark.parametrize(
    ("error", "first"),
    [
        ("src/tide.py:153: KeyError: 'tide'", "  153 +height = None"),
        ('  File "/builds/team/app/src/tide.py", line 153, in high', "  153 +height = None"),
        ("FAILED tests/test_tide.py::test_high", "   10 +far = away"),
        ("src/bulk.py:2520: TypeError", " 2520 +bulk_25"),
    ],
)
def test_the_hunk_that_the_error_names_is_shown_and_the_bulk_is_counted(
    error: str, first: str
) -> None:
    shown = preview_diff(diff(BULKY, CAUSE, LOCK), error, "team/app", 2048)
    assert first in shown
    assert "hunks are not shown …]" in shown
    assert len(shown.encode()) <= 2048


def test_hunks_stand_in_the_diffs_order_under_their_files() -> None:
    shown = preview_diff(diff(BULKY, CAUSE, LOCK), "src/tide.py:153: KeyError", "team/app", 3000)
    files = [line for line in shown.split("\n") if line.startswith("diff --git")]
    assert files.count("diff --git a/src/tide.py b/src/tide.py") == 1
    assert shown.index("@@ -7,7") < shown.index("@@ -150,7") < shown.index("@@ -900,7")


def test_of_a_long_hunk_the_part_that_is_named_is_shown() -> None:
    lines = [f"+value_{number} = {number}" for number in range(1, 2001)]
    new = file("src/new.py", "\n".join(["@@ -0,0 +1,2000 @@", *lines]))
    shown = preview_diff(diff(new), "src/new.py:1234: NameError", "team/app", 1024)
    assert " 1234 +value_1234 = 1234" in shown
    assert "+value_1 = 1\n" not in shown
    assert "lines of this hunk not shown …]" in shown


@pytest.mark.parametrize("limit", [400, 1024, 4096, 30_000])
@pytest.mark.parametrize(
    "whole",
    [
        diff(BULKY, CAUSE, LOCK),
        "\n".join(f"M file_{number} +1 -1" for number in range(5000)),
        diff(file("a", "@@ -1 +1 @@\n+" + "x" * 60_000)),
        "x" * 60_000,
        "diff --git a/x b/x\n@@ -1 +1 @@" + "\n+y" * 30_000,
    ],
)
def test_what_does_not_fit_keeps_to_its_bytes(whole: str, limit: int) -> None:
    shown = preview_diff(whole, "a:1: error", "team/app", limit)
    if len(whole) > limit:
        assert len(shown.encode()) <= limit


def test_unnamed_source_comes_before_tests_and_these_before_documents() -> None:
    source = file("src/bands.py", hunk(5, "low = 1", 40))
    test = file("tests/test_far.py", hunk(1, "assert far", 30))
    whole = diff(file("README.md", hunk(1, "More.", 25)), test, source)
    orders = set()
    for limit in range(500, 3000, 50):
        shown = preview_diff(whole, "E  assert 14.79 == 14.71", "team/app", limit)
        orders.add(tuple(word for word in ("low = 1", "assert far", "More.") if word in shown))
    assert sorted(orders, key=len)[-3:] == [
        ("low = 1",),
        ("low = 1", "assert far"),
        ("low = 1", "assert far", "More."),
    ]
    assert len(orders) <= 4


@pytest.mark.slow
def test_no_mark_stands_where_the_lines_themselves_are_not_longer() -> None:
    long = [f"+{'x' * 60}"] * 20
    new = file("src/new.py", "\n".join(["@@ -0,0 +1,22 @@", *long, "+c", "+d"]))
    cut = 0
    for limit in range(600, 1400, 7):
        shown = preview_diff(diff(new, BULKY), "src/new.py:19: NameError", "team/app", limit)
        cut += "lines of this hunk not shown …]" in shown
        assert "[… 2 lines" not in shown
        assert "[… 1 lines" not in shown
        assert len(shown.encode()) <= limit
    assert cut
