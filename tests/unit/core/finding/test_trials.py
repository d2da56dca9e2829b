"""Of a change only those commands are told that ended after it was in place."""

import json
from dataclasses import replace

import pytest

from tests.contexts import call, context
from worker.core.conversation import context_json
from worker.core.conversation.context import CallCost, Context
from worker.core.conversation.messages import Assistant, Message, ToolResult, Usage, User
from worker.core.finding.trials import MAX_RUNS, Run, find_runs, is_named

LEAVES_OUT = [
    ("other", {"command": "x"}, {"exit_code": 0}),
    ("sandbox_exec", {"command": "x"}, {"error": "no"}),
    ("sandbox_exec", {"command": 3}, {"exit_code": 0}),
    ("sandbox_exec", {"command": "x"}, {"exit_code": "0"}),
    ("sandbox_exec", {"command": "x"}, []),
]


def _run(*rounds: list[tuple[str, int | None]]) -> Context:
    """A turn whose answers came at 10, 20, … seconds; each request was sent a second earlier."""
    messages: list[Message] = [User("event")]
    calls: list[CallCost] = []
    for number, round in enumerate(rounds, 1):
        at = number * 10.0 - 1.0
        calls.append(CallCost(0, "m", Usage(), 0.0, at, 1.0, len(messages)))
        named = [
            # Some servers give the same ids in every answer.
            call(f"call_{index}", "sandbox_exec", json.dumps({"command": text}))
            for index, (text, _) in enumerate(round)
        ]
        messages.append(Assistant("", tuple(named)))
        messages += [
            ToolResult(each.id, each.name, json.dumps({"exit_code": code}))
            for each, (_, code) in zip(named, round, strict=True)
        ]
    return replace(context(*messages), calls=tuple(calls))


TURN = _run([("look", 0)], [("edit", 0)], [("test", 1), ("slow", None)])


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        (5.0, [Run("edit", 0), Run("test", 1), Run("slow", None)]),
        (
            15.0,
            [Run("look", 0, made_change=True), Run("edit", 0), Run("test", 1), Run("slow", None)][
                1:
            ],
        ),
        (25.0, [Run("edit", 0, made_change=True), Run("test", 1), Run("slow", None)]),
        # Which of two commands has made it nobody knows, and so not what ran after it.
        (35.0, []),
    ],
)
def test_commands_count_that_ended_after_the_change(changed: float, runs: list[Run]) -> None:
    assert list(find_runs(TURN, changed)) == runs
    assert len(runs) <= MAX_RUNS


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        (30.5, [Run("test", 1, made_change=True), Run("slow", None)]),
        (31.0, [Run("slow", None)]),
        (33.0, [Run("slow", None, made_change=True)]),
        (34.0, []),
    ],
)
def test_which_of_two_commands_has_made_a_change_is_known_by_when_they_ended(
    changed: float, runs: list[Run]
) -> None:
    ends = {"call_0": 31.0, "call_1": 34.0}
    messages = [
        replace(each, ended_at=ends[each.call_id]) if isinstance(each, ToolResult) else each
        for each in TURN.messages[-2:]
    ]
    turn = replace(TURN, messages=(*TURN.messages[:-2], *messages))
    assert list(find_runs(turn, changed)) == runs
    assert (
        list(find_runs(context_json.load_context(context_json.dump_context(turn)), changed)) == runs
    )


def test_commands_that_only_read_and_write_files_are_no_run_of_a_change() -> None:
    edit, look = ("sed -i s/a/b/ f.py", 0), ("cat f.py | head", 0)
    turn = _run([edit], [look], [("prove t", 0)], [("git diff", 0)])
    assert find_runs(turn, 5.0) == (Run("prove t", 0),)
    assert find_runs(_run([edit], [look]), 5.0) == ()


def test_the_last_command_has_ended_however_late_the_change_was() -> None:
    assert find_runs(_run([("edit", 0)]), 1e9) == (Run("edit", 0, made_change=True),)


@pytest.mark.parametrize(("name", "arguments", "result"), LEAVES_OUT)
def test_what_did_not_run_is_not_told(name: str, arguments: object, result: object) -> None:
    made = context(
        User("event"),
        Assistant("", (call("c", name, json.dumps(arguments)),)),
        ToolResult("c", name, json.dumps(result)),
    )
    turn = replace(made, calls=(CallCost(0, "m", Usage(), 0.0, 9.0, 1.0, 1),))
    assert find_runs(turn, 5.0) == ()
    assert find_runs(replace(turn, messages=turn.messages[:2]), 5.0) == ()
    assert find_runs(replace(turn, messages=turn.messages[:1]), 5.0) == ()


DEEP = "[" * 3_000 + "]" * 3_000


def test_arguments_and_results_too_deep_to_be_read_are_no_run() -> None:
    for arguments, result in ((f'{{"command": {DEEP}}}', "{}"), ('{"command": "x"}', DEEP)):
        asked = Assistant("", (call("c", "sandbox_exec", arguments),))
        turn = replace(
            context(User("event"), asked, ToolResult("c", "sandbox_exec", result)),
            calls=(CallCost(0, "m", Usage(), 0.0, 9.0, 1.0, 1),),
        )
        assert find_runs(turn, 5.0) == ()
        assert not is_named(turn, {"sum.py"})


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ({"stdout": "F.\n 39 passed \n\n", "stderr": "slow"}, "39 passed"),
        ({"stdout": "", "stderr": "no such file"}, "no such file"),
        ({"stdout": 7}, "7"),
        ({}, ""),
    ],
)
def test_the_last_line_of_a_command_s_output_is_kept(written: dict[str, object], line: str) -> None:
    asked = Assistant("", (call("c", "sandbox_exec", '{"command": "test"}'),))
    result = ToolResult("c", "sandbox_exec", json.dumps({"exit_code": 0} | written))
    calls = (CallCost(0, "m", Usage(), 0.0, 9.0, 1.0, 1),)
    turn = replace(context(User("event"), asked, result), calls=calls)
    assert find_runs(turn, 5.0) == (Run("test", 0, last_line=line),)


def test_a_misspelt_call_that_ran_counts() -> None:
    (answer,) = (
        each for each in TURN.messages if isinstance(each, Assistant) and len(each.calls) > 1
    )
    misspelt = replace(
        answer, calls=tuple(replace(each, name="sandbox.exec") for each in answer.calls)
    )
    messages = tuple(misspelt if each is answer else each for each in TURN.messages)
    assert find_runs(replace(TURN, messages=messages), 29.0) == find_runs(TURN, 29.0) != ()


def test_another_turns_commands_are_none_of_this_one() -> None:
    assert find_runs(replace(TURN, turn=1), 5.0) == ()
    assert is_named(TURN, {"edi"})
    assert not is_named(TURN, {"sum.py"})
    assert not is_named(replace(TURN, turn=1), {"edi"})
