"""Sentences end where a reader says that they end."""

import pytest

from worker.safety.sentences import MAX_TEXT, begin_words, split_clauses, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It fails at app/x.py:5. Then it stops.", ["It fails at app/x.py:5.", "Then it stops."]),
        ("click 8.1.8 (2 of 213) is gone", ["click 8.1.8 (2 of 213) is gone"]),
        ("Some, e.g. Foo, and i.e. Bar, etc. Baz.", ["Some, e.g. Foo, and i.e. Bar, etc. Baz."]),
        ("Call `a. B`. Then (see x. Y) go.", ["Call `a. B`.", "Then (see x. Y) go."]),
        ("See [x. Y](https://a.b/c). Ok.", ["See [x. Y](https://a.b/c).", "Ok."]),
        ("- one\n- two\n  more\n\nThree.", ["one", "two more", "Three."]),
        ("1. First.\n2. Second. Third.", ["First.", "Second.", "Third."]),
        ("It is new. a.txt pins it. f() too.", ["It is new.", "a.txt pins it.", "f() too."]),
        ("It is kept. .ci.yml says so.", ["It is kept.", ".ci.yml says so."]),
        ("Files, e.g. .env, stay.", ["Files, e.g. .env, stay."]),
        ("It broke in c. test_low fails.", ["It broke in c. test_low fails."]),
        ("It fails. i.e. no one knows.", ["It fails. i.e. no one knows."]),
        ("Es fehlt. Änderung nötig.", ["Es fehlt.", "Änderung nötig."]),
        ("Wait… 2 of 3 fail.", ["Wait…", "2 of 3 fail."]),
        ("失败了。主分支通过了！为什么？！", ["失败了。", "主分支通过了！", "为什么？！"]),
        (
            "見る（例。ここ）。「終わり。」と出ます。次",
            ["見る（例。ここ）。", "「終わり。」と出ます。", "次"],
        ),
        ("超时了。 `conf.py` 要改。**改**", ["超时了。", "`conf.py` 要改。**改**"]),
        ("The log says 失败。 It is red.", ["The log says 失败。", "It is red."]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_a_text_is_taken_apart_at_the_ends_of_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_clauses_end_at_their_marks_outside_of_code() -> None:
    assert split_clauses("a, b; `c, d`: e", ",;") == ["a, ", "b; ", "`c, d`: e"]
    assert split_clauses("甲，乙；`丙，丁`：戊、己", ",;") == [
        "甲，",
        "乙；",
        "`丙，丁`：戊、",
        "己",
    ]
    assert split_clauses("甲，乙；丙", ";:") == ["甲，乙；", "丙"]


@pytest.mark.parametrize(
    ("longest", "words"),
    [
        (80, "it hangs, and in `a b c` (d e) it ends"),
        (37, "it hangs, and in `a b c` (d e)"),
        (29, "it hangs, and in `a b c`"),
        (23, "it hangs"),
        (1, ""),
    ],
)
def test_a_text_begins_with_whole_words_that_do_not_lead_on(longest: int, words: str) -> None:
    assert begin_words("it hangs, and in `a b c` (d e) it ends", longest) == words


def test_a_hostile_text_is_looked_at_in_part_and_soon() -> None:
    for piece in ("。", "。「", "（。", "a. A", "`a` ", "(", "[x](", ". ", "`"):
        assert sum(map(len, split_sentences(piece * 100_000))) <= MAX_TEXT
