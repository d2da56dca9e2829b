"""Scripts: which step answers which request."""

from typing import Any

import pytest

from worker.core.prompts import continuation
from worker.demo.anthropic.reading import read
from worker.demo.script import (
    Asked,
    Call,
    Empty,
    Result,
    Say,
    Scripted,
    ScriptEnded,
    Step,
    by_conversation,
)

A, B, C = Say("a"), Call([("look", {})]), Say("c")


def asked(**changes: Any) -> Asked:
    plain: dict[str, Any] = {
        "first": "event",
        "human": "event",
        "turn": 0,
        "answers": 0,
        "results": (),
        "notice": "",
        "tools_allowed": True,
        "body": {},
    }
    return Asked(**{**plain, **changes})


@pytest.mark.parametrize(
    ("turn", "answers", "expected"),
    [(0, 0, B), (0, 1, A), (1, 0, C), (2, 0, C)],
)
def test_the_step_follows_from_the_request_alone(turn: int, answers: int, expected: Step) -> None:
    script = Scripted([B, A], [C])
    for _ in range(3):
        assert script(asked(turn=turn, answers=answers)) == expected


def test_with_tools_off_the_last_step_answers() -> None:
    assert Scripted([B, B, A])(asked(answers=1, tools_allowed=False)) == A


def test_an_empty_step_answers_once_and_leaves_no_trace() -> None:
    script = Scripted([Empty(), Empty(), B, Empty(), A])

    assert [script(asked()) for _ in range(3)] == [Empty(), Empty(), B]
    assert [script(asked(answers=1)) for _ in range(2)] == [Empty(), A]


def test_empty_steps_are_counted_for_each_conversation() -> None:
    script = Scripted([Empty(), A])

    assert [script(asked(first=name)) for name in ("x", "y", "x", "y")] == [Empty(), Empty(), A, A]


@pytest.mark.parametrize("answers", [1, 2])
def test_a_script_that_has_ended_says_so(answers: int) -> None:
    with pytest.raises(ScriptEnded, match=f"turn 0 has no step {answers + 1}"):
        Scripted([A])(asked(answers=answers))


def test_a_script_may_end_in_empty_answers() -> None:
    script = Scripted([A, Empty()])

    assert script(asked(answers=1)) == Empty()
    with pytest.raises(ScriptEnded):
        script(asked(answers=1))


def test_a_step_may_quote_what_a_tool_returned() -> None:
    results = (Result("look", "old", False), Result("look", "new", False), Result("run", "", True))
    script = Scripted([lambda request: Say(request.last("look").content)])

    assert script(asked(results=results)) == Say("new")
    with pytest.raises(LookupError):
        script(asked())


def test_each_conversation_has_its_own_script() -> None:
    script = by_conversation(lambda first: Scripted([Say(f"about {first}")]))

    assert script(asked(first="x")) == Say("about x")
    assert script(asked(first="y")) == Say("about y")


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "{}", "is_error": True}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


REPLY = continuation("Why?", files=True, seconds=60, changes=())


@pytest.mark.parametrize(
    ("messages", "turn", "answers", "human", "notice"),
    [
        (["event"], 0, 0, "event", ""),
        ([[text("event"), text("hurry")]], 0, 0, "event", "hurry"),
        (["event", [use("a")], [result("a")]], 0, 1, "event", ""),
        (["event", [use("a")], [result("a"), text("hurry")]], 0, 1, "event", "hurry"),
        (["event", "found", "why?"], 1, 0, "why?", ""),
        (["event", "found", "why?", [use("a")], [result("a")]], 1, 1, "why?", ""),
        (["event", [use("a")], [result("a"), text(REPLY)]], 1, 0, REPLY, REPLY),
    ],
)
def test_a_request_is_read_for_its_turn_and_place(
    messages: list[Any], turn: int, answers: int, human: str, notice: str
) -> None:
    roles = ("user", "assistant")
    body = {"messages": [{"role": roles[n % 2], "content": c} for n, c in enumerate(messages)]}
    found = read(body)

    assert (found.first, found.turn, found.answers) == ("event", turn, answers)
    assert (found.human, found.notice) == (human, notice)
    assert all(part == Result("look", "{}", True) for part in found.results)
