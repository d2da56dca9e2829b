"""Finds the commands that ran with a change in place. Pure; the transcript is the state.

The commands are the model's, and their exit status is the sandbox's. A reader is shown both, and
nothing is concluded from them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from worker.core.conversation.context import Context
from worker.core.conversation.messages import Assistant, Message, ToolCall, ToolResult
from worker.core.finding.shell_scripts import only_touches_files
from worker.core.spelling import correct_spelling
from worker.core.text.untrusted_json import parse_object

TOOL = "sandbox_exec"
MAX_RUNS = 3
"""The most commands that are reported for one change; the newest ones."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command, its exit status, None if it timed out, and the last line that it wrote.

    `made_change` says that the change was put in place while the command ran, not before.
    """

    command: str
    exit_code: int | None
    made_change: bool = False
    last_line: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """What the sandbox has shown about a change that was looked for in it.

    `runs` are commands that ran with the change in place; `alone` says that no other change of the
    answer was there.
    """

    runs: tuple[Run, ...] = ()
    alone: bool = True


def find_runs(context: Context, changed: float) -> tuple[Run, ...]:
    """The turn's newest commands that ended after a file was `changed` (epoch seconds).

    Commands that may have ended earlier are left out, and so are commands that only read or wrote
    files, for instance to make the change.
    """
    found: list[Run] = []
    for each in _commands(context):
        if only_touches_files(each.run.command):
            continue
        if each.begun >= changed:
            found.append(each.run)
        elif each.ended > changed and each.known:
            found.append(replace(each.run, made_change=True))
    return tuple(found[-MAX_RUNS:])


def is_named(context: Context, names: Collection[str]) -> bool:
    """Whether a command of the turn names one of the files."""
    return any(name in each.run.command for each in _commands(context) for name in names)


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that ran between the times `begun` and `ended`.

    `known` says that no other command ran between the two.
    """

    run: Run
    begun: float
    ended: float
    known: bool


def _commands(context: Context) -> Iterator[_Command]:
    """The turn's commands, in order."""
    costs = [cost for cost in context.calls if cost.turn == context.turn]
    ends = [*(after.sent_at for _, after in pairwise(costs)), float("inf")]
    for cost, ended in zip(costs, ends, strict=False):
        if 0 <= cost.message < len(context.messages):
            yield from _of_answer(
                context.messages[cost.message :], cost.sent_at + cost.seconds, ended
            )


def _of_answer(messages: Sequence[Message], begun: float, ended: float) -> Iterator[_Command]:
    """The commands that the first of the messages called, which ran between the two times.

    They ran one after the other, each when the previous result was there.
    """
    answer, *after = messages
    results = takewhile(lambda message: isinstance(message, ToolResult), after)
    given = {result.call_id: result for result in results if isinstance(result, ToolResult)}
    calls = answer.calls if isinstance(answer, Assistant) else ()
    ran = [(result, _read_run(call, result)) for call in calls if (result := given.get(call.id))]
    alone = sum(run is not None for _, run in ran) == 1
    for result, run in ran:
        if run:
            at = result.ended_at or ended
            yield _Command(run, begun, at, known=alone or result.ended_at > 0)
        begun = max(begun, result.ended_at)


def _read_run(call: ToolCall, result: ToolResult) -> Run | None:
    """The command and how it ended, if it did run."""
    if call.name != TOOL and not correct_spelling(call.name, [TOOL]):
        return None
    command = parse_object(call.arguments).get("command")
    content = parse_object(result.content)
    code = content.get("exit_code", "")
    if not isinstance(command, str) or not isinstance(code, int | None):
        return None
    written = str(content.get("stdout") or content.get("stderr") or "").rstrip()
    return Run(command, code, last_line=written.rpartition("\n")[2].strip())
