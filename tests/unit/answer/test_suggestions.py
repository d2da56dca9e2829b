"""A fix is read from the answer, and has a place only on lines that the diff shows."""

import pytest

from tests.linear import takes_linear_time
from worker.answer.suggestions import (
    MAX_CAUTION,
    MAX_LINES,
    MAX_TEXT,
    Change,
    NotOnDiff,
    Suggestion,
    apply_suggestions,
    combine_change,
    find_change_position,
    group_changes,
    name_place,
    read_suggestions,
    split_code,
    write_in_place,
    write_text,
)
from worker.verdict.diffs import ChangedFile, Changes, Position

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


def test_a_block_that_names_its_lines_is_a_suggestion_and_is_told_as_text() -> None:
    block = fence("suggestion app/a.py:3-4", "a`b`\n  c")
    prose, found = read_suggestions(f"Put it back.\n\n{block}\nThen rest.")
    assert found == (Suggestion("app/a.py", 3, 4, "a`b`\n  c"),)
    assert prose == "Put it back.\n\nThen rest."
    assert (
        read_suggestions(f"Escape it as shown below, push.\n{block}")[0]
        == "Escape it as in the fix, push."
    )
    for between in ("\n", "\n\n"):
        announced = f"- Take this line:{between}{block}\n\nThen rest."
        assert read_suggestions(announced)[0] == "- Take this line.\n\n\nThen rest."
    assert read_suggestions("Escape it as below.")[0] == "Escape it as below."
    told = write_text(found, "no")
    assert (
        told
        == "Replace lines 3 to 4 of `app/a.py` (not on the diff: no) with:\n\n```\na`b`\n  c\n```"
    )


def test_a_suggestion_that_stays_in_the_text_keeps_its_file_and_lines() -> None:
    first, second = fence("suggestion a.py:14 A", "  x = 1"), fence("suggestion a.py:6-7 A", "y")
    code = fence("python", "z\n\n\nz")
    told = write_in_place(f"Opt in by name:\n{first}\n{second}\n\nThat is all.\n{code}")
    assert told == (
        "Opt in by name:\n\nReplace line 14 of `a.py` with:\n\n```\n  x = 1\n```\n\n"
        f"Replace lines 6 to 7 of `a.py` with:\n\n```\ny\n```\n\nThat is all.\n{code}"
    )
    assert write_in_place(f"\n\nNo {fence('suggestion')}\n") == f"\n\nNo {fence('suggestion')}\n"


def test_one_line_may_be_named_alone_and_a_deletion_is_empty() -> None:
    assert read_suggestions("~~~~suggestion a b.py:7\n~~~\n~~~~")[1] == (
        Suggestion("a b.py", 7, 7, "~~~"),
    )
    assert read_suggestions("```suggestion a.py:7\n```")[1] == (Suggestion("a.py", 7, 7, ""),)


@pytest.mark.parametrize(
    "path",
    [
        "app/[slug]/page.tsx",
        "app/blog/[...id]/page (1).tsx",
        "routes/$id.tsx",
        "src/C#/a,b.cs",
        "{{name}}/it's.py",
        "a%20b&c=~d.md",
        "d\u00e9j\u00e0/vu.py",
        "-",
    ],
)
def test_a_path_may_have_almost_any_character(path: str) -> None:
    prose, found = read_suggestions(f"Do it.\n{fence(f'suggestion {path}:2-3 A')}")
    assert (prose, found) == ("Do it.", (Suggestion(path, 2, 3, "x = 1", "A"),))


@pytest.mark.parametrize("part", [" ", "[$ ", "a:1 "])
def test_a_hostile_opening_is_read_in_linear_time(part: str) -> None:
    opening = f"```suggestion {part * 1_000} x\n```"
    assert read_suggestions(opening) == (opening, ())
    assert takes_linear_time(read_suggestions, part, 50_000, "```suggestion a:1", "x\n```")


@pytest.mark.parametrize(
    "text",
    [
        fence("suggestion"),
        fence("suggestion a.py:1:2"),
        fence("suggestion a\u2028b.py:1"),
        fence("suggestion a\x1b[2Jb.py:1"),
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
    assert read_suggestions(text) == (text, ())


@pytest.mark.parametrize(
    ("first", "last", "old_line"),
    [(1, 1, 1), (2, 2, None), (2, 3, None), (2, 4, 3), (1, 5, 4), (22, 22, None), (21, 21, 20)],
)
def test_lines_of_one_piece_of_the_diff_have_a_place(
    first: int, last: int, old_line: int | None
) -> None:
    where = find_change_position((Suggestion("a.py", first, last, "fix"),), CHANGES)
    assert where == Position("base", "start", "head", "old/a.py", "a.py", last, old_line)


@pytest.mark.parametrize(
    ("fix", "reason"),
    [
        (Suggestion("b.py", 1, 1, "x"), "this file"),
        (Suggestion("old/a.py", 1, 1, "x"), "this file"),
        (Suggestion("a.py", 6, 6, "x"), "does not show it"),
        (Suggestion("a.py", 5, 21, "x"), "in one piece"),
        (Suggestion("a.py", 22, 23, "x"), "in one piece"),
        (Suggestion("a.py", 0, 1, "x"), "cannot be replaced"),
        (Suggestion("a.py", 2, 1, "x"), "cannot be replaced"),
        (Suggestion("a.py", 1, 102, "x"), "cannot be replaced"),
        (Suggestion("a.py", 2, 3, "TWO\ntwo and a half"), "changes nothing"),
        (Suggestion("a.py", 1, 1, "x" * (MAX_TEXT + 1)), "characters"),
    ],
)
def test_what_does_not_fit_the_diff_has_none_and_a_reason(fix: Suggestion, reason: str) -> None:
    found = find_change_position((fix,), CHANGES)
    assert isinstance(found, NotOnDiff)
    assert reason in found.reason


SETTINGS = """\
@@ -7,4 +7,5 @@ ingress:
 ingress:
   annotations:
+    example.io/proxy-read-timeout: 120
     example.io/proxy-buffering: "off"
   hosts: [one.example]
"""


@pytest.mark.parametrize(
    ("line", "text", "meant"),
    [
        (10, '    example.io/proxy-read-timeout: "120"', "line 9"),
        (11, '    example.io/proxy-read-timeout: "120"', "line 9"),
        (9, '    example.io/proxy-read-timeout: "120"', ""),
        (10, '    example.io/proxy-buffering: "on"', ""),
        (10, '    example.io/proxy-body-size: "120"', ""),
        (10, "", ""),
        (11, "  hosts: []", ""),
    ],
)
def test_a_change_that_would_replace_the_line_beside_the_one_it_means_is_not_on_the_diff(
    line: int, text: str, meant: str
) -> None:
    changes = Changes("base", "start", "head", (ChangedFile("v.yaml", "v.yaml", SETTINGS),))
    found = find_change_position((Suggestion("v.yaml", line, line, text),), changes)
    told = NotOnDiff(f"it reads like a change of {meant}")
    assert found == told if meant else isinstance(found, Position)


@pytest.mark.parametrize("mark", ["A", "a", "(A)", "[A]", "\tA "])
def test_blocks_of_one_letter_are_one_change(mark: str) -> None:
    blocks = [f"suggestion a.py:{n} {mark}" for n in (1, 5)]
    _, found = read_suggestions("\n".join(map(fence, (blocks[0], "suggestion a.py:3", blocks[1]))))
    assert [[fix.first for fix in change] for change in group_changes(found)] == [[1, 5], [3]]


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["9", "3-4"], ["app.py:3-4, 9"]),
        (["30", "4", "60-61"], ["app.py:4, 30", "app.py:60-61"]),
        (["4", "30"], ["app.py:4, 30"]),
        (["4", "31"], ["app.py:4", "app.py:31"]),
        (["4-30", "31", "200"], ["app.py:4-30, 31", "app.py:200"]),
    ],
)
def test_places_far_apart_are_changes_of_their_own(places: list[str], names: list[str]) -> None:
    blocks = [fence(f"suggestion src/app.py:{place} A") for place in places]
    changes = group_changes(read_suggestions("\n".join(blocks))[1])
    assert [name_place(change) for change in changes] == names
    cautions = [" ".join(fix.caution for fix in change).strip() for change in changes]
    others = [", ".join(name for name in names if name != own) for own in names]
    assert cautions == [f"It only works together with {each}." if each else "" for each in others]


def test_all_places_are_named_in_order() -> None:
    change = (
        Suggestion("b.py", 9, 9, ""),
        Suggestion("a.py", 5, 7, ""),
        Suggestion("a.py", 1, 1, ""),
    )
    assert name_place(change) == "a.py:1, 5-7; b.py:9"


FILE = [f"line {number}" for number in range(1, 301)]


def _change(*places: tuple[int, int, str], path: str = "a.py") -> Change:
    return tuple(Suggestion(path, first, last, text, "A") for first, last, text in places)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_change((2, 2, "two")), "two"),
        (_change((4, 4, "four"), (2, 2, "two\nand a half")), "two\nand a half\nline 3\nfour"),
        (_change((2, 3, ""), (4, 5, "five")), "five"),
        (_change((1, 1, "one"), (101, 101, "")), "one\n" + "\n".join(FILE[1:100])),
    ],
)
def test_places_of_one_file_become_one_suggestion(change: Change, text: str) -> None:
    made = combine_change(change, lambda path: FILE)
    assert isinstance(made, Suggestion)
    assert made.text == text
    assert apply_suggestions([made], FILE) == apply_suggestions(change, FILE)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_change((2, 2, "x")) + _change((4, 4, "y"), path="b.py"), "for one file"),
        (_change((2, 4, "x"), (4, 5, "y")), "the same lines"),
        (_change((1, 1, "x"), (MAX_LINES + 2, MAX_LINES + 2, "y")), "too far apart"),
        (_change((299, 299, "x"), (301, 301, "y")), "cannot be shown"),
        (_change((1, 1, "x"), (200, 200, "y")), "too far apart"),
    ],
)
def test_what_cannot_be_one_suggestion_has_a_reason(change: Change, reason: str) -> None:
    made = combine_change(change, lambda path: FILE)
    assert isinstance(made, NotOnDiff)
    assert reason in made.reason


SHOWN_INSTEAD = pytest.mark.parametrize(
    "shown",
    ["TOKEN = '[redacted: gitlab-token]'", 'print("\u26a0<U+FE0F> none")', 'print("caf\ufffd")'],
)


@SHOWN_INSTEAD
def test_no_line_is_put_back_that_is_not_shown_as_it_is(shown: str) -> None:
    lines = ["a", shown, "c"]
    assert combine_change(_change((1, 1, "x"), (3, 3, "y")), lambda path: lines) == (
        NotOnDiff("the lines between them cannot be shown")
    )


@SHOWN_INSTEAD
def test_what_is_shown_in_place_of_other_characters_is_not_written_to_a_file(shown: str) -> None:
    for change in (_change((2, 2, shown)), _change((1, 1, "x"), (3, 3, shown))):
        made = combine_change(change, lambda path: FILE)
        assert made == NotOnDiff("it has a placeholder in place of the file's own text")


def test_a_change_goes_to_the_last_of_its_places_that_the_diff_shows() -> None:
    where = find_change_position(_change((8, 8, "x"), (2, 2, "y"), (12, 12, "z")), CHANGES)
    assert isinstance(where, Position)
    assert where.new_line == 2
    assert "does not show it" in str(
        find_change_position(_change((8, 8, "x"), (12, 12, "z")), CHANGES)
    )


@pytest.mark.parametrize(
    "change", [_change((0, 1, "x")), _change((3, 2, "x")), _change((1, 2, "x"), (2, 3, "y"))]
)
def test_what_does_not_fit_a_file_is_not_applied(change: Change) -> None:
    assert apply_suggestions(change, ["one", "two", "three"]) is None


def test_changes_that_are_not_on_the_diff_say_that_they_belong_together() -> None:
    told = write_text(_change((1, 1, "a"), (3, 3, "````")), "why")
    assert told.startswith(
        "These 2 belong together (not on the diff: why):\n\nReplace line 1 of `a.py` with:"
    )
    assert told.endswith("`````\n````\n`````")


def test_a_line_above_a_block_says_what_to_check_before_it_is_applied() -> None:
    block = "```suggestion a.py:1 A\nx = 1\n```"
    other = "```suggestion a.py:3 A\ny = 2\n```"
    advice, found = read_suggestions(
        f"Set it.\nCheck: 1 is a guess.\n{block}\n- **Check:** so is 2.\n{other}"
    )
    assert advice == "Set it."
    assert [fix.caution for fix in found] == ["1 is a guess.", "so is 2."]
    (change,) = group_changes(found)
    made = combine_change(change, lambda path: ["", "", "", ""])
    assert isinstance(made, Suggestion)
    assert made.caution == "1 is a guess. so is 2."
    assert "```\n\nCheck: 1 is a guess." in write_text(change, "")
    for written in ("Check: all.", "**Check**: all.", "> _Check:_ all.", "check: all.\n"):
        ((fix,), advice) = read_suggestions(f"Do it.\n{written}\n{block}")[::-1]
        assert (fix.caution, advice) == ("all.", "Do it.")
    assert read_suggestions(f"Check: all.\n\n\n{block}")[0] == "Check: all."
    assert len(read_suggestions(f"Check: {'x' * 900}\n{block}")[1][0].caution) == MAX_CAUTION
    assert split_code(f"Do it.\nCheck: all.\n{block}") == ("Do it.", f"Check: all.\n{block}")
    labelled = f"In `a.erl`, lines 3-4:\n\nCheck: all.\n{block}"
    assert split_code(f"Do it.\n{labelled}") == ("Do it.", labelled)
    assert split_code("Do it.") == ("Do it.", "")


def test_many_lines_that_look_like_labels_are_read_in_linear_time() -> None:
    assert takes_linear_time(split_code, "a:\n", 60_000, end="```\nx\n```")
