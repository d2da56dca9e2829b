"""Finds the checks that ran with a change in place. Pure; the transcript is the state.

The commands are the model's, and their exit status is the sandbox's. A reader is shown both, and
nothing is concluded from them.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from posixpath import basename

from worker.answer.check_commands import name_program
from worker.answer.checks import Place, find_checks, only_checks
from worker.answer.shell_scripts import list_written_files
from worker.conversation.context import Context
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult
from worker.safety.spelling import correct_spelling
from worker.safety.untrusted import parse_object

TOOL = "sandbox_exec"
MAX_RUNS = 3
"""The most checks that are reported for one change; the newest ones."""


@dataclass(frozen=True, slots=True)
class Run:
    """A check and its exit status."""

    command: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What the sandbox showed about a change that was looked for there.

    `runs` are checks that ran with the change in place; `alone` says that no other change of the
    answer was in place, `is_foreign` that the failed jobs' logs name no program of these checks.
    """

    runs: tuple[Run, ...] = ()
    alone: bool = True
    is_foreign: bool = False


def mark_foreign(trial: Trial, logs: Sequence[Sequence[str]]) -> Trial:
    """Return the trial, marked as foreign if the failed jobs' `logs` name no program of it."""
    programs = {name_program(run.command.split()).removesuffix("w") for run in trial.runs}
    if not programs or not any(logs) or any(map(_ANYTHING.fullmatch, programs)):
        return trial
    names = "|".join(map(re.escape, programs))
    named = re.compile(rf"(?<![\w.-])(?:{names})w?(?:-\d|(?![\w-]))")
    is_named = any(named.search(line[:_LONGEST]) for lines in logs for line in lines)
    return replace(trial, is_foreign=not is_named)


_ANYTHING = re.compile(r"|.*\..*|(?:ba)?sh|node|perl|python[\d.]*|ruby")
"""Programs that run scripts, and scripts: a log may name these in other ways."""

_LONGEST = 1000


def find_trial(context: Context, changed: float, place: Place, own: Collection[str]) -> Trial:
    """Return the newest checks of the turn that ran over the files of `place` after they were
    `changed` (epoch seconds). `own` are commands that the project's jobs run.

    Commands that may have ended earlier are left out.
    """
    found: list[Run] = []
    commands = [*_list_commands(context)]
    written = (file for each in commands for file in list_written_files(each.script))
    made = frozenset(map(basename, written))
    for each in commands:
        later = each.begun >= changed
        if not (later or (each.ended > changed and each.known)):
            continue
        checks = find_checks(
            each.script, each.exit_code, place, own, makes_change=not later, made=made
        )
        found += [Run(check, each.exit_code or 0) for check in checks]
    return Trial(tuple(found[-MAX_RUNS:]))


def find_restored_until(context: Context, own: Collection[str]) -> float:
    """Return until when (epoch seconds) files that change are those of earlier turns, as they are
    restored: in a later turn until its first command begins, or until it ends if it only checks."""
    first = next(_list_commands(context), None)
    if not context.turn or first is None:
        return 0.0
    return first.ended if only_checks(first.script, own) else first.begun


def is_named(context: Context, names: Collection[str]) -> bool:
    """Whether a command of the turn names one of the files."""
    return any(name in each.script for each in _list_commands(context) for name in names)


@dataclass(frozen=True, slots=True)
class _Command:
    """A script that ran between the times `begun` and `ended`; `exit_code` is None if it timed out.
    `known` says that no other script ran between the two times.
    """

    script: str
    exit_code: int | None
    begun: float
    ended: float
    known: bool


def _list_commands(context: Context) -> Iterator[_Command]:
    """Yield the turn's commands, in order."""
    costs = [cost for cost in context.calls if cost.turn == context.turn]
    ends = [*(after.sent_at for _, after in pairwise(costs)), float("inf")]
    for cost, ended in zip(costs, ends, strict=False):
        if 0 <= cost.message < len(context.messages):
            yield from _read_calls(
                context.messages[cost.message :], cost.sent_at + cost.seconds, ended
            )


def _read_calls(messages: Sequence[Message], begun: float, ended: float) -> Iterator[_Command]:
    """Yield the commands that the first of the messages called, all between the two times.

    They ran one after the other, each once the previous one had returned.
    """
    answer, *after = messages
    results = takewhile(lambda message: isinstance(message, ToolResult), after)
    by_call = {result.call_id: result for result in results if isinstance(result, ToolResult)}
    calls = answer.calls if isinstance(answer, Assistant) else ()
    ran = [(result, _read_run(call, result)) for call in calls if (result := by_call.get(call.id))]
    alone = sum(run is not None for _, run in ran) == 1
    for result, run in ran:
        if run:
            at = result.ended_at or ended
            yield _Command(*run, begun, at, known=alone or result.ended_at > 0)
        begun = max(begun, result.ended_at)


def _read_run(call: ToolCall, result: ToolResult) -> tuple[str, int | None] | None:
    """Return the script and its exit status; None if it did not run."""
    if call.name != TOOL and not correct_spelling(call.name, [TOOL]):
        return None
    script = parse_object(call.arguments).get("command")
    code = parse_object(result.content).get("exit_code", "")
    if not isinstance(script, str) or not isinstance(code, int | None):
        return None
    return script, code
