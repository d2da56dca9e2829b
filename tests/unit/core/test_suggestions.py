"""A fix is read from the answer, and has a place only on lines that the diff shows."""

import pytest

from worker.core.gitlab import ChangedFile, Changes, Position
from worker.core.suggestions import MAX_TEXT, Suggestion, placed, read

DIFF = """\
@@ -1,4 +1,5 @@ def total
 one
-two
+TWO
+two and a half
 three
 four
@@ -20,2 +21,2 @@
 twenty
-old
+new
@@ -22 +23 @@
-next
+other
"""
CHANGES = Changes("base", "start", "head", (ChangedFile("old/a.py", "a.py", DIFF),))


def fence(info: str, text: str = "x = 1") -> str:
    return f"```{info}\n{text}\n```"


def test_a_block_that_names_its_lines_is_a_suggestion_and_stays_readable() -> None:
    block = fence("suggestion app/a.py:3-4", "a`b`\n  c")
    prose, found = read(f"Put it back.\n\n{block}\nThen rest.")
    assert found == (Suggestion("app/a.py", 3, 4, "a`b`\n  c"),)
    assert prose == (
        "Put it back.\n\nIn `app/a.py`, lines 3 to 4:\n\n```\na`b`\n  c\n```\nThen rest."
    )


def test_one_line_may_be_named_alone_and_a_deletion_is_empty() -> None:
    assert read("~~~~suggestion a b.py:7\n~~~\n~~~~")[1] == (Suggestion("a b.py", 7, 7, "~~~"),)
    assert read("```suggestion a.py:7\n```")[1] == (Suggestion("a.py", 7, 7, ""),)


@pytest.mark.parametrize(
    "text",
    [
        fence("suggestion"),
        fence("suggestion:-0+0"),
        fence("suggestion a.py"),
        fence("suggestion a.py:x"),
        fence("suggestion `a`.py:1"),
        fence("suggestion a.py:1-2-3"),
        fence("python suggestion a.py:1"),
        "```suggestion a.py:1\nnever closed",
        "text ```suggestion a.py:1",
    ],
)
def test_anything_else_is_text(text: str) -> None:
    assert read(text) == (text, ())


@pytest.mark.parametrize(
    ("first", "last", "old_line"),
    [(1, 1, 1), (2, 2, None), (2, 3, None), (2, 4, 3), (1, 5, 4), (22, 22, None), (21, 21, 20)],
)
def test_lines_of_one_piece_of_the_diff_have_a_place(
    first: int, last: int, old_line: int | None
) -> None:
    where = placed(Suggestion("a.py", first, last, "fix"), CHANGES)
    assert where == Position("base", "start", "head", "old/a.py", "a.py", last, old_line)


@pytest.mark.parametrize(
    ("fix", "reason"),
    [
        (Suggestion("b.py", 1, 1, "x"), "not in the diff"),
        (Suggestion("old/a.py", 1, 1, "x"), "not in the diff"),
        (Suggestion("a.py", 6, 6, "x"), "not all in one piece"),
        (Suggestion("a.py", 5, 21, "x"), "not all in one piece"),
        (Suggestion("a.py", 22, 23, "x"), "not all in one piece"),
        (Suggestion("a.py", 0, 1, "x"), "cannot be replaced"),
        (Suggestion("a.py", 2, 1, "x"), "cannot be replaced"),
        (Suggestion("a.py", 1, 102, "x"), "cannot be replaced"),
        (Suggestion("a.py", 2, 3, "TWO\ntwo and a half"), "changes nothing"),
        (Suggestion("a.py", 1, 1, "x" * (MAX_TEXT + 1)), "characters"),
    ],
)
def test_what_does_not_fit_the_diff_has_none_and_a_reason(fix: Suggestion, reason: str) -> None:
    found = placed(fix, CHANGES)
    assert isinstance(found, str)
    assert reason in found
