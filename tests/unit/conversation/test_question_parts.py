"""Questions with several parts, and what an answer leaves out."""

import pytest

from tests.linear import takes_linear_time
from worker.conversation.questions import (
    MOST_PARTS,
    find_left_out,
    list_parts,
    read_parts,
    split_question,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Why does it fail?", ()),
        ("Thanks! Please look at lint.", ()),
        ("Why? And is main red?", ("Why?", "And is main red?")),
        (
            "Why does the test fail, and how do I fix it?",
            ("Why does the test fail", "how do I fix it?"),
        ),
        ("Is it this change and nothing else?", ()),
        (
            "1. Which line proves it?\n2) Is main red?",
            ("Which line proves it?", "Is main red?"),
        ),
        ("I did:\n- a rebase\n- a retry", ()),
        (
            "Warum ist der Job rot und was kann ich tun?",
            ("Warum ist der Job rot", "was kann ich tun?"),
        ),
        ("为什么失败？主分支也失败吗？", ("为什么失败？", "主分支也失败吗？")),
    ],
)
def test_a_question_is_split_into_its_parts(text: str, parts: tuple[str, ...]) -> None:
    assert split_question(text) == parts
    assert read_parts(f"before\n\n{list_parts(parts)}\n" if parts else text) == parts


def test_there_are_at_most_six_parts() -> None:
    assert len(split_question("Why? " * 20)) == MOST_PARTS


PARTS = ("Which line of the log proves it?", "Does main fail the same way?")


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("Line 88 of the log proves it.", PARTS[1:]),
        ("Line 88 of the log. No: main passes.", ()),
        ("Line 88 of the log proves it; main is green.", ()),
        ("1. Number 88.\n2. No.", ()),
        ("Zeile 88. Nein, dort ist er grün.", ()),
        ("Main fails in the same way since Monday.", PARTS[:1]),
    ],
)
def test_a_part_that_is_surely_left_out_is_found(answer: str, left: tuple[str, ...]) -> None:
    assert find_left_out(PARTS, answer) == left


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "Why does it fail, and how do I fix it?",
            "The timeout of 5 s is too short; raise it to 10 s in `conf.py`.",
        ),
        (
            "测试为什么会失败？我应该怎么修复它？",
            "数据库在五秒之内没有启动，所以连接被拒绝。把超时时间改成十秒，或者加一个健康检查。",
        ),
        ("为什么失败？主分支也失败吗？", "连接超时。主分支也失败吗这个问题的答案是没有。"),
        (
            "なぜ失敗しますか？どう直せばいいですか？",
            "データベースの起動が遅いためです。タイムアウトを10秒にしてください。",
        ),
    ],
)
def test_a_whole_answer_leaves_nothing_out(question: str, answer: str) -> None:
    parts = split_question(question)
    assert len(parts) == 2
    assert find_left_out(parts, answer) == ()


def test_one_short_clause_more_is_no_second_answer() -> None:
    parts = split_question("Which line proves it? Where does main differ?")
    assert find_left_out(parts, "Yes, you can.") == parts


def test_a_question_of_blanks_is_split_in_linear_time() -> None:
    assert takes_linear_time(split_question, " ", 1900, "why", "now?")
