"""Of a change only those checks are told that ended after it was in place."""

import json
from dataclasses import replace

import pytest

from tests.contexts import call, context
from worker.answer.trials import (
    MAX_RUNS,
    Checkout,
    CheckRun,
    Trial,
    find_restored_until,
    find_trial,
    is_named,
    mark_foreign,
)
from worker.conversation import context_json
from worker.conversation.context import CallCost, Context
from worker.conversation.messages import Assistant, Message, ToolResult, Usage, User

HERE = Checkout("/tmp", ("/tmp/sum.py",))


def find_runs(turn: Context, changed: float) -> list[CheckRun]:
    return list(find_trial(turn, changed, HERE, ()).runs)


LEAVES_OUT = [
    ("other", {"command": "pytest"}, {"exit_code": 0}),
    ("sandbox_exec", {"command": "pytest"}, {"error": "no"}),
    ("sandbox_exec", {"command": 3}, {"exit_code": 0}),
    ("sandbox_exec", {"command": "pytest"}, {"exit_code": "0"}),
    ("sandbox_exec", {"command": "pytest"}, {"exit_code": None}),
    ("sandbox_exec", {"command": "pytest"}, []),
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


LOOK, EDIT, TEST, LINT = "ctest", "sed -i s/a/b/ sum.py; prove", "pytest", "ruff check"
TURN = _run([(LOOK, 0)], [(EDIT, 0)], [(TEST, 1), (LINT, 0)])


def _is_foreign(command: str, *log: str) -> bool:
    return mark_foreign(Trial((CheckRun(command, 0),)), [log]).is_foreign


def test_a_check_that_no_line_of_the_log_names_is_foreign() -> None:
    assert _is_foreign("prove t", "$ pytest -q")
    assert not _is_foreign("pytest tests", "$ pytest -q")
    assert not _is_foreign("./gradlew test", "$ gradle test")
    assert not _is_foreign("python3 check.py", "$ make check")
    assert not _is_foreign("prove t")


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        (5.0, [CheckRun("prove", 0), CheckRun(TEST, 1), CheckRun(LINT, 0)]),
        (15.0, [CheckRun("prove", 0), CheckRun(TEST, 1), CheckRun(LINT, 0)]),
        (25.0, [CheckRun("prove", 0), CheckRun(TEST, 1), CheckRun(LINT, 0)]),
        # Which of two commands has made it nobody knows, and so not what ran after it.
        (35.0, []),
    ],
)
def test_checks_count_that_ended_after_the_change(changed: float, runs: list[CheckRun]) -> None:
    assert find_runs(TURN, changed) == runs
    assert len(runs) <= MAX_RUNS


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        # A check that may itself have changed the file is none of the change.
        (30.5, [CheckRun(LINT, 0)]),
        (31.0, [CheckRun(LINT, 0)]),
        (33.0, []),
        (34.0, []),
    ],
)
def test_which_of_two_commands_has_made_a_change_is_known_by_when_they_ended(
    changed: float, runs: list[CheckRun]
) -> None:
    ends = {"call_0": 31.0, "call_1": 34.0}
    messages = [
        replace(each, ended_at=ends[each.call_id]) if isinstance(each, ToolResult) else each
        for each in TURN.messages[-2:]
    ]
    turn = replace(TURN, messages=(*TURN.messages[:-2], *messages))
    assert find_runs(turn, changed) == runs
    assert find_runs(context_json.load_context(context_json.dump_context(turn)), changed) == runs


def test_commands_that_only_read_and_write_files_are_no_run_of_a_change() -> None:
    edit, look = ("sed -i s/a/b/ f.py", 0), ("cat f.py | head", 0)
    assert find_trial(_run([edit], [look]), 5.0, HERE, ()) == Trial()
    turn = _run([edit], [look], [("prove", 0)], [("git diff", 0)])
    assert find_trial(turn, 5.0, HERE, ()) == Trial((CheckRun("prove", 0),))


def test_a_script_of_the_model_is_no_check_of_a_change() -> None:
    port = ("python3 - <<'P'\nprint(1)\nP\npython3 check.py\nsed -n 125p f.json | cut -c1-40", 0)
    assert find_trial(_run([port]), 5.0, HERE, ()) == Trial()
    place = Checkout("/tmp/src", ("/tmp/src/sum.py",))
    made, run = ("cat > /tmp/src/tests/x.lua", 0), ("cd /tmp/src && lua tests/x.lua", 0)
    assert find_trial(_run([run]), 5.0, place, ()).runs == (CheckRun("lua tests/x.lua", 0),)
    assert find_trial(_run([made], [run]), 5.0, place, ()) == Trial()


def test_the_last_command_has_ended_however_late_the_change_was() -> None:
    assert find_runs(_run([(EDIT, 0)]), 1e9) == [CheckRun("prove", 0)]
    assert find_runs(_run([("prove; sed -i s/a/b/ sum.py", 0)]), 1e9) == []


@pytest.mark.parametrize(("name", "arguments", "result"), LEAVES_OUT)
def test_what_did_not_run_is_not_told(name: str, arguments: object, result: object) -> None:
    made = context(
        User("event"),
        Assistant("", (call("c", name, json.dumps(arguments)),)),
        ToolResult("c", name, json.dumps(result)),
    )
    turn = replace(made, calls=(CallCost(0, "m", Usage(), 0.0, 9.0, 1.0, 1),))
    assert find_runs(turn, 5.0) == []
    assert find_runs(replace(turn, messages=turn.messages[:2]), 5.0) == []
    assert find_runs(replace(turn, messages=turn.messages[:1]), 5.0) == []


DEEP = "[" * 3_000 + "]" * 3_000


def test_arguments_and_results_too_deep_to_be_read_are_no_run() -> None:
    for arguments, result in ((f'{{"command": {DEEP}}}', "{}"), ('{"command": "pytest"}', DEEP)):
        asked = Assistant("", (call("c", "sandbox_exec", arguments),))
        turn = replace(
            context(User("event"), asked, ToolResult("c", "sandbox_exec", result)),
            calls=(CallCost(0, "m", Usage(), 0.0, 9.0, 1.0, 1),),
        )
        assert find_runs(turn, 5.0) == []
        assert not is_named(turn, {"sum.py"})


def test_a_misspelt_call_that_ran_counts() -> None:
    (answer,) = (
        each for each in TURN.messages if isinstance(each, Assistant) and len(each.calls) > 1
    )
    misspelt = replace(
        answer, calls=tuple(replace(each, name="sandbox.exec") for each in answer.calls)
    )
    messages = tuple(misspelt if each is answer else each for each in TURN.messages)
    assert find_runs(replace(TURN, messages=messages), 29.0) == find_runs(TURN, 29.0) != []


@pytest.mark.parametrize(
    ("turn", "script", "until"),
    [
        (0, TEST, 0.0),
        (1, TEST, 19.0),
        (1, "cd /tmp/src && pytest && ruff check .", 19.0),
        # It may have made the change itself.
        (1, EDIT, 10.0),
        (1, f"{TEST} && ./edit", 10.0),
    ],
)
def test_what_changes_before_a_later_turns_first_command_can_change_it_is_restored(
    turn: int, script: str, until: float
) -> None:
    made = _run([(script, 0)], [(LOOK, 0)])
    calls = tuple(replace(cost, turn=turn) for cost in made.calls)
    assert find_restored_until(replace(made, turn=turn, calls=calls), ()) == until


def test_another_turns_commands_are_none_of_this_one() -> None:
    assert find_runs(replace(TURN, turn=1), 5.0) == []
    assert is_named(TURN, {"sum."})
    assert not is_named(TURN, {"avg.py"})
    assert not is_named(replace(TURN, turn=1), {"sum."})
