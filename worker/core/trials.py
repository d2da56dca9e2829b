"""Which commands the sandbox has run with a change in place. Pure; the transcript is the state.

The commands are the model's, and their exit status is what the sandbox has said of them: a reader
is told both, and nothing is concluded from them.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from worker.core.context import Context
from worker.core.messages import Assistant, Message, ToolResult
from worker.core.spelling import meant

TOOL = "sandbox_exec"
MAX_RUNS = 3
"""Commands that are told of one change, the newest."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command and its exit status, None where its time was over.

    `made` says that the change was put in place while the command ran, not before.
    """

    command: str
    exit_code: int | None
    made: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """What the sandbox has shown of a change.

    `runs` are commands that ran with it in place, `alone` if no other change of the answer was
    there. `touched` says that some command named a file of it.
    """

    runs: tuple[Run, ...] = ()
    alone: bool = True
    touched: bool = False


def find_runs(context: Context, changed: float) -> tuple[Run, ...]:
    """The turn's newest commands that ended after a file was `changed` (epoch seconds)."""
    found: list[Run] = []
    for begun, ended, runs in _rounds(context):
        if begun >= changed:
            found += [Run(command, code) for command, code in runs]
        elif ended > changed and len(runs) == 1:
            found += [Run(command, code, made=True) for command, code in runs]
    return tuple(found[-MAX_RUNS:])


def is_named(context: Context, names: Collection[str]) -> bool:
    """Whether a command of the turn names one of the files."""
    return any(
        name in command for _, _, runs in _rounds(context) for command, _ in runs for name in names
    )


def _rounds(context: Context) -> Iterator[tuple[float, float, list[tuple[str, int | None]]]]:
    """Of each answer of the turn that called tools: when its commands had not begun yet, when they
    had ended, and the commands with their exit status."""
    costs = [cost for cost in context.calls if cost.turn == context.turn]
    ends = [*(after.at for _, after in pairwise(costs)), float("inf")]
    for cost, ended in zip(costs, ends, strict=False):
        if 0 <= cost.message < len(context.messages):
            yield cost.at + cost.seconds, ended, list(_runs(context.messages[cost.message :]))


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, int | None]]:
    """The commands that the first of the messages called, each with its exit status."""
    answer, *after = messages
    results = takewhile(lambda message: isinstance(message, ToolResult), after)
    given = {result.call_id: result.content for result in results if isinstance(result, ToolResult)}
    for call in answer.calls if isinstance(answer, Assistant) else ():
        named = call.name == TOOL or meant(call.name, [TOOL])
        if named and (run := _read_run(call.arguments, given.get(call.id, ""))):
            yield run


def _read_run(arguments: str, result: str) -> tuple[str, int | None] | None:
    """The command and its exit status, if it did run."""
    try:
        command, code = json.loads(arguments)["command"], json.loads(result)["exit_code"]
    except (ValueError, KeyError, TypeError):
        return None
    return (command, code) if isinstance(command, str) and isinstance(code, int | None) else None
