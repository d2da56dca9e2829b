"""Finds the checks that ran with a change in place. Pure; the transcript is the state.

The commands are the model's, their exit status is the sandbox's. A reader is shown both, and
nothing is concluded from them. A check that may not have run is left out.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from posixpath import basename, normpath

from worker.answer.shell_scripts import (
    FILEWISE,
    QUIET,
    CommandList,
    ends_heredocs,
    list_arguments,
    list_written_files,
    name_program,
    read_given,
    split_script,
)
from worker.conversation.context import Context
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult
from worker.safety.sentences import correct_spelling
from worker.safety.untrusted import parse_object

HOME = "/tmp"
"""The folder in which each command of the sandbox begins."""

TOOL = "sandbox_exec"
MAX_RUNS = 3
"""The most checks that are reported for one change; the newest ones."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Where changed files are in the sandbox: the paths of the `files`, and the repository's folder
    `root`, "" if they stand alone."""

    root: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check and its exit status."""

    command: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What the sandbox showed about a change that was looked for there.

    `runs` are checks that ran with the change in place; `alone` says that no other change of the
    answer was in place, `is_foreign` that the failed jobs' logs name no program of these checks.
    """

    runs: tuple[CheckRun, ...] = ()
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


def find_trial(context: Context, changed: float, place: Checkout, own: Collection[str]) -> Trial:
    """Return the newest checks of the turn that ran over the files of `place` after they were
    `changed` (epoch seconds). `own` are commands that the project's jobs run.

    Commands that may have ended earlier are left out.
    """
    found: list[CheckRun] = []
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
        found += [CheckRun(check, each.exit_code or 0) for check in checks]
    return Trial(tuple(found[-MAX_RUNS:]))


def find_restored_until(context: Context, own: Collection[str]) -> float:
    """Return until when (epoch seconds) files that change are those of earlier turns, as they are
    restored: in a later turn until its first command begins, or until it ends if it only checks."""
    first = next(_list_commands(context), None)
    if not context.turn or first is None:
        return 0.0
    # In whatever folder: a script that does nothing but checks.
    steps = _read_steps(split_script(first.script), Checkout("", ())) or ()
    only_checks = bool(steps) and all(
        step.words[:1] in (("cd",), ("set",)) or list_arguments(step.words, own) is not None
        for step in steps
    )
    return first.ended if only_checks else first.begun


def is_named(context: Context, names: Collection[str]) -> bool:
    """Whether a command of the turn names one of the files."""
    return any(name in each.script for each in _list_commands(context) for name in names)


@dataclass(frozen=True, slots=True)
class _Command:
    """A script that ran between the times `begun` and `ended`; `exit_code` is None if it timed out.
    `known`: no other script ran between the two times."""

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


# ------------------------------------------------------------------------- the checks of a script

_NOT_RUN = frozenset({None, 126, 127})
"""Exit statuses of a command that was ended, or could not be run."""

_OPAQUE_WORDS = """
    ! . [[ alias builtin case command coproc do done elif else enable esac eval exec exit fi for
    function hash if kill return select shopt source then trap until while { }
"""
_OPAQUE = frozenset(_OPAQUE_WORDS.split())
"""Words with which a command may keep others from running, or run another one in their place."""

_SETS = re.compile(r"-[Eeuxo]+|pipefail|errexit|nounset|xtrace")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Step:
    """A command of a script."""

    text: str
    words: tuple[str, ...]
    folder: str
    """Where it runs; "" if that is not known."""
    of: int
    """The number of its list of commands."""
    at: int
    """The number of its pipe in that list."""
    part: int
    """Its number in that pipe."""
    stops: bool
    """The shell stops at errors."""
    joined: bool
    """A pipe fails with any of its commands."""


def find_checks(
    script: str,
    exit_code: int | None,
    place: Checkout,
    own: Collection[str],
    *,
    makes_change: bool,
    made: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the checks that a script ran over the changed files of `place` and whose exit status
    is the script's.

    `own`: see `list_arguments`. `makes_change` says that the script made the change; then a check
    counts only if it follows everything that names the files. `made` are the names of files that
    the model has written: its own scripts are no checks.
    """
    lists = split_script(script.replace("\\\n", " "))
    steps = _read_steps(lists, place)
    if exit_code in _NOT_RUN or steps is None or not ends_heredocs(script):
        return ()
    names, found = {basename(file) for file in place.files}, []
    for each in steps:
        is_check = _is_run_over(each, place, own, made)
        if not is_check or not _has_status(each, exit_code == 0, lists, steps, place):
            continue
        before, _, after = script.replace("\\\n", " ").rpartition(each.text)
        follows = any(name in before for name in names) and not any(name in after for name in names)
        if follows or not makes_change:
            found.append(each.text)
    return tuple(dict.fromkeys(found))


# ------------------------------------------------------------------------------------------- steps


def _read_steps(lists: Sequence[CommandList], place: Checkout) -> list[_Step] | None:
    """Return the commands in order; None if some may not run as they are written."""
    steps: list[_Step] = []
    folder, stops, joined = HOME, False, False
    for of, each in enumerate(lists):
        first = len(steps)
        for at, pipe in enumerate(each.pipes):
            for part, text in enumerate(pipe):
                words = _read_words(text)
                if words is None:
                    return None
                steps.append(_Step(text, words, folder, of, at, part, stops, joined))
            folder = _change_folder(folder, steps[-1].words, each, at, place)
        last, options = steps[-1], ""
        if last.words[:1] == ("set",):
            options = "".join(last.words[1:])
            is_alone = each.pipes == ((last.text,),) and not each.in_background
            if not (is_alone and all(map(_SETS.fullmatch, last.words[1:]))):
                return None
        stops |= bool(re.search("[eu]", options.replace("pipefail", "")))
        joined |= "pipefail" in options
        # The list may have stopped early, so the folder it changed to is not certain.
        moved = any(step.at and step.words[:1] == ("cd",) for step in steps[first:])
        folder = "" if moved or not _exists(folder, place) else folder
    return steps


def _read_words(text: str) -> tuple[str, ...] | None:
    """Return the words of a command; None if nobody can tell what it runs."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    bare = _QUOTED.sub("", text)
    program = next((each for each in words if not re.match(r"[A-Za-z_]\w*=", each)), "")
    if program in _OPAQUE or re.search(r"[$`(){}]", program) or re.search(r"\(\s*\)", bare):
        return None
    return tuple(words)


def _change_folder(
    folder: str, words: tuple[str, ...], of: CommandList, at: int, place: Checkout
) -> str:
    """Return the folder after a command; "" if it is not known."""
    if words[:1] not in (("cd",), ("pushd",), ("popd",)):
        return folder
    if len(of.pipes[at]) > 1 or of.in_background:
        return folder
    if words[0] != "cd" or len(words) != 2 or "||" in of.joins:
        return ""
    if words[1] == "-" or re.search(r"[$`*?~(]", words[1]):
        return ""
    to = _resolve(words[1], folder)
    # Without the folder, what follows the "&&" has not run.
    sure = _exists(to, place) or at < len(of.joins)
    return to if to and sure else ""


def _resolve(path: str, folder: str) -> str:
    """Return an absolute path; "" if the folder that it begins in is not known."""
    if path.startswith("/"):
        return normpath(path)
    return normpath(f"{folder}/{path}") if folder else ""


def _exists(folder: str, place: Checkout) -> bool:
    return bool(folder) and any(_is_within(file, folder) for file in place.files)


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


# ------------------------------------------------------------------------------------------ checks


def _is_run_over(step: _Step, place: Checkout, own: Collection[str], made: Collection[str]) -> bool:
    """Whether the command is a check that reads the changed files."""
    if re.search(r"[()]", _QUOTED.sub("", step.text)):
        return False
    arguments = list_arguments(step.words, own)
    if arguments is None:
        return _is_given(step, place, made)
    paths = [path for each in arguments if (path := _resolve(each, step.folder))]
    if paths and (name_program(step.words) in FILEWISE or place.root == HOME):
        return all(any(_is_within(file, path) for path in paths) for file in place.files)
    # Below the folder in which all commands begin, there may be other copies of the repository.
    root, folder = place.root, step.folder
    if root in ("", HOME):
        return root == folder != ""
    return any(_is_within(path, root) for path in paths or [folder] if path)


def _is_given(step: _Step, place: Checkout, made: Collection[str]) -> bool:
    """Whether the command runs, or looks at, the changed files; or a script of the repository that
    is given one of them; or the repository's tests."""
    given = read_given(step.words)
    if given is None:
        return False
    first = _resolve(given.first, step.folder)
    others = {_resolve(each, step.folder) for each in given.others}
    if first in place.files:
        return others.issuperset({*place.files} - {first})
    if place.root in ("", HOME) or basename(given.first) in made:
        return False
    is_script = bool(given.others) and _is_within(first, place.root)
    over = given.has_tests or (is_script and not others.isdisjoint(place.files))
    return over and _is_within(step.folder or "/", place.root)


def _has_status(
    step: _Step, passed: bool, lists: Sequence[CommandList], steps: Sequence[_Step], place: Checkout
) -> bool:
    """Whether the script's exit status is that of the command."""
    of = lists[step.of]
    last_part = step.part == len(of.pipes[step.at]) - 1
    if of.in_background or "||" in of.joins or not (last_part or (step.joined and passed)):
        return False
    is_last = step.of == len(lists) - 1
    if passed:
        return is_last or (step.stops and not of.joins)
    ends = is_last and step.at == len(of.pipes) - 1 and not (step.part and step.joined)
    return ends and all(_cannot_end(each, step, place) for each in steps[: steps.index(step)])


def _cannot_end(before: _Step, step: _Step, place: Checkout) -> bool:
    """Whether a command before the failed one cannot be the one that has ended the script."""
    word, *rest = before.words or ("",)
    if not step.stops and before.of != step.of:
        return word in QUIET
    return word == "set" or (
        word == "cd" and len(rest) == 1 and _exists(_resolve(rest[0], before.folder), place)
    )
