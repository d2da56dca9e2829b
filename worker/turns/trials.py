"""Finds out which of the changes that an answer advises were run in the turn's sandbox."""

import hashlib
import logging
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sandbox.base import Sandbox, SandboxError
from worker.answer import repair, suggestions, trials
from worker.answer.parse import parse_finding
from worker.answer.suggestions import Change, Suggestion
from worker.answer.trials import Checkout, Trial
from worker.conversation.context import Context, Status
from worker.conversation.messages import Assistant
from worker.errors import ArgumentError, SourceError
from worker.turns.parts import Deps
from worker.verdict.finding import Captures, JobLog, RepoFile

log = logging.getLogger("sandpiper.trials")

Trials = Mapping[Change, Trial]

MAX_FILES = 5
MAX_CHANGES = 10
"""At most MAX_FILES are looked for; in an answer with more than MAX_CHANGES, none is."""

_SECONDS = 20.0
_NUMBER = 999_999
"""The number in the names of our command's spill files; no call has so high a number."""

_MOST_LISTED = 3500
"""The most characters of the sandbox's list of files."""

_LOOK = (
    "date +%s.%N; find /tmp -xdev -type f \\( {names} \\) -size -1025k -printf '%C@ ' "
    "-exec sha256sum {{}} \\; 2>/dev/null | head -c {most}"
)
_WILDCARD = re.compile(r"[*?\[\]\\]")
_FOUND = re.compile(r"(?m)^(\d{1,12}\.\d{1,12}) \\?([0-9a-f]{64}) [ *](/.*)$")
_JOB_COMMAND = re.compile(r"\$ (\S.{0,300})")
_CODE = re.compile(r"`([^`\n]{1,300})`")

MAX_COPIES = 10
"""The most copies of a change in the sandbox, the oldest first, whose commands are looked for."""

MAX_LOGS = 5
"""The most failing jobs whose logs are read for the commands that they ran."""


def find_trials(context: Context, sandbox: Sandbox, captures: Captures, deps: Deps) -> Trials:
    """Return which of the changes in the turn's answer the sandbox has run, before it is closed.

    A change is left out if that cannot be known. Raises nothing.
    """
    changes = _read_changes(context, deps)
    # What an earlier turn has changed need not be named again.
    names = [_list_paths(change) if context.investigates else {""} for change in changes]
    touched = {
        change
        for change, each in zip(changes, names, strict=True)
        if trials.is_named(context, each)
    }
    untouched = {change: Trial() for change in changes if change not in touched}
    if not touched:
        return untouched
    try:
        found = _find_applied(context, changes, sandbox, captures, deps)
    except (SandboxError, SourceError, ArgumentError) as error:
        log.warning("session %s: no look at what was run: %s", context.session_id, error)
        found = {}
    return {**untouched, **found}


def _read_changes(context: Context, deps: Deps) -> tuple[Change, ...]:
    for text in _list_answers(context):
        _, found = suggestions.read_suggestions(parse_finding(deps.runtime.redact(text)).to_do)
        if found:
            changes = suggestions.group_changes(found)
            return changes if len(changes) <= MAX_CHANGES else ()
    return ()


def _list_answers(context: Context) -> Iterator[str]:
    """Yield the texts that may advise the changes: of a turn that answers a question, those of
    earlier turns, the newest first."""
    outcome = context.outcome
    if outcome is None or outcome.status is Status.FAILED:
        return
    if context.investigates:
        yield from (outcome.text, repair.find_first_answer(context))
        return
    for message in reversed(context.messages[: context.turn_start]):
        if isinstance(message, Assistant) and "suggestion" in message.text:
            yield message.text


def _list_paths(fixes: Iterable[Suggestion]) -> set[str]:
    return {PurePosixPath(fix.path).name for fix in fixes}


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file in the sandbox, and since when (epoch seconds) it has had its content."""

    since: float
    path: PurePosixPath

    def find_root(self, path: str) -> str:
        """Return the folder in which it has `path`, "" if it is somewhere else."""
        parts = PurePosixPath(path).parts
        whole = self.path.parts[-len(parts) :] == parts
        return str(PurePosixPath(*self.path.parts[: -len(parts)])) if whole else ""


def _find_applied(
    context: Context, changes: Sequence[Change], sandbox: Sandbox, captures: Captures, deps: Deps
) -> Trials:
    every = [fix for change in changes for fix in change]
    paths = list(dict.fromkeys(fix.path for fix in every))[:MAX_FILES]
    files = {path: captures.read_lines(RepoFile(path)) for path in paths}
    seen, whole = _read_sandbox(_list_paths(every), sandbox, deps)
    logs = _read_logs(context, captures)
    # The commands of the failing jobs, as their logs and the answer name them.
    lines = (line.strip() for each in logs for line in each)
    found_lines = [line[1] for line in map(_JOB_COMMAND.fullmatch, lines) if line]
    answer = parse_finding(context.outcome.text if context.outcome else "")
    own = frozenset((*found_lines, *_CODE.findall(answer.what_failed)))
    alone = {change: _find_copies(change, files, seen) for change in changes}
    together = _find_copies(every, files, seen)
    several = sum(bool(copies) for copies in alone.values()) > 1
    found: dict[Change, Trial] = {}
    for change, copies in alone.items():
        if trial := _find_trial(context, copies or together, own):
            runs = tuple(
                replace(run, command=deps.runtime.redact(run.command)) for run in trial.runs
            )
            others = several or (not copies and len(changes) > 1)
            found[change] = trials.mark_foreign(replace(trial, runs=runs, alone=not others), logs)
        elif whole and trials.is_named(context, _list_paths(change)):
            found[change] = Trial()
    return found


def _find_trial(
    context: Context, copies: Mapping[Checkout, float], own: Collection[str]
) -> Trial | None:
    """Return what has run over the oldest copy that a check has run over, else over the oldest.
    None without copies."""
    oldest = sorted(copies.items(), key=lambda copy: copy[1])[:MAX_COPIES]
    restored = trials.find_restored_until(context, own)
    found = [
        trials.find_trial(context, since if since >= restored else 0.0, place, own)
        for place, since in oldest
    ]
    return max(found, key=lambda trial: bool(trial.runs), default=None)


def _read_logs(context: Context, captures: Captures) -> list[Sequence[str]]:
    """Return the lines of the failing jobs' logs, as far as they can be read."""
    jobs = context.survey.jobs if context.survey else ()
    logs: list[Sequence[str]] = []
    for job in [each for each in jobs if not each.external][:MAX_LOGS]:
        with suppress(SourceError, ArgumentError):
            logs.append(captures.read_lines(JobLog(job.job_id)))
    return logs


def _read_sandbox(
    names: Iterable[str], sandbox: Sandbox, deps: Deps
) -> tuple[Mapping[str, Sequence[_Copy]], bool]:
    """Return the sandbox's files of these names, by the SHA-256 of their content, and whether those
    are all.

    The times are our epoch seconds; if the sandbox's clock differs, they err on the late side.
    """
    # For the shell, and for `find -name`, which takes a pattern.
    quoted = (shlex.quote(_WILDCARD.sub(r"\\\g<0>", name)) for name in sorted(names))
    pattern = " -o ".join(f"-name {name}" for name in quoted)
    before = deps.runtime.clock.now()
    done = sandbox.exec(
        _LOOK.format(names=pattern, most=_MOST_LISTED), timeout=_SECONDS, number=_NUMBER
    )
    after = deps.runtime.clock.now()
    clock, _, listed = done.stdout.preview.partition("\n")
    if not re.fullmatch(r"\d{1,12}\.\d{1,12}", clock):
        return {}, False
    shift = 0.0 if before <= float(clock) <= after else after - float(clock)
    seen: dict[str, list[_Copy]] = {}
    for at, digest, path in _FOUND.findall(listed):
        seen.setdefault(digest, []).append(_Copy(float(at) + shift, PurePosixPath(path)))
    return seen, len(listed) < _MOST_LISTED


def _find_copies(
    fixes: Iterable[Suggestion],
    files: Mapping[str, Sequence[str]],
    seen: Mapping[str, Sequence[_Copy]],
) -> Mapping[Checkout, float]:
    """Return the places where every file is exactly what `fixes` make of it, and since when."""
    by_path: dict[str, list[Suggestion]] = {}
    for fix in fixes:
        by_path.setdefault(fix.path, []).append(fix)
    roots: list[dict[str, _Copy]] = []
    for path, of_file in by_path.items():
        changed = suggestions.apply_suggestions(of_file, files.get(path, ()))
        text = "\n".join(changed or ()).encode()
        digests = [hashlib.sha256(each).hexdigest() for each in (text, text + b"\n")]
        copies = [each for digest in digests for each in seen.get(digest, ())]
        roots.append({each.find_root(path): each for each in copies} if changed is not None else {})
    return {
        Checkout(root, tuple(str(each[root].path) for each in roots)): max(
            each[root].since for each in roots
        )
        for root in (roots[0] if roots else ())
        if all(root in each for each in roots)
    }
