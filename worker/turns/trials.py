"""Finds out which of the changes that an answer advises were run in the turn's sandbox."""

import hashlib
import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from sandbox.base import Sandbox, SandboxError
from worker.core.conversation import quote_repair
from worker.core.conversation.context import Context, Status
from worker.core.finding import parse_finding, suggestions, trials
from worker.core.finding.suggestions import Change, Suggestion
from worker.core.finding.trials import Trial
from worker.core.ports import Captures
from worker.core.ports.evidence import RepoFile
from worker.errors import ArgumentError, SourceError
from worker.turns.parts import Deps

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
_FOUND = re.compile(r"(\d{1,12}\.\d{1,12}) \\?([0-9a-f]{64}) ")


def find_trials(context: Context, sandbox: Sandbox, captures: Captures, deps: Deps) -> Trials:
    """Return which of the changes in the turn's answer the sandbox has run, before it is closed.

    A change is left out if that cannot be known. Raises nothing.
    """
    changes = _read_changes(context, deps)
    touched = {change for change in changes if trials.is_named(context, _list_paths(change))}
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
    outcome = context.outcome
    if not context.investigates or outcome is None or outcome.status is Status.FAILED:
        return ()
    for text in (outcome.text, quote_repair.find_first_answer(context)):
        _, found = suggestions.read_suggestions(parse_finding(deps.runtime.redact(text)).to_do)
        if found:
            changes = suggestions.group_changes(found)
            return changes if len(changes) <= MAX_CHANGES else ()
    return ()


def _list_paths(fixes: Iterable[Suggestion]) -> set[str]:
    return {PurePosixPath(fix.path).name for fix in fixes}


def _find_applied(
    context: Context, changes: Sequence[Change], sandbox: Sandbox, captures: Captures, deps: Deps
) -> Trials:
    every = [fix for change in changes for fix in change]
    paths = list(dict.fromkeys(fix.path for fix in every))[:MAX_FILES]
    files = {path: captures.read_lines(RepoFile(path)) for path in paths}
    seen, whole = _read_sandbox(_list_paths(every), sandbox, deps)
    alone = {change: _find_applied_time(change, files, seen) for change in changes}
    together = _find_applied_time(every, files, seen)
    several = sum(at is not None for at in alone.values()) > 1
    found: dict[Change, Trial] = {}
    for change, at in alone.items():
        since = together if at is None else at
        runs = trials.find_runs(context, since) if since is not None else ()
        if runs:
            runs = tuple(replace(run, command=deps.runtime.redact(run.command)) for run in runs)
            others = several or (at is None and len(changes) > 1)
            found[change] = Trial(runs, alone=not others)
        elif since is not None or (whole and trials.is_named(context, _list_paths(change))):
            found[change] = Trial()
    return found


def _read_sandbox(
    names: Iterable[str], sandbox: Sandbox, deps: Deps
) -> tuple[Mapping[str, float], bool]:
    """Return since when the sandbox has had files of these names, by the SHA-256 of their content,
    and whether those are all.

    The times are our epoch seconds; if the sandbox's clock differs, they are rather too late.
    """
    wanted = " -o ".join(f"-name {_quote_name(name)}" for name in sorted(names))
    before = deps.runtime.clock.now()
    done = sandbox.exec(
        _LOOK.format(names=wanted, most=_MOST_LISTED), timeout=_SECONDS, number=_NUMBER
    )
    after = deps.runtime.clock.now()
    clock, _, listed = done.stdout.preview.partition("\n")
    if not re.fullmatch(r"\d{1,12}\.\d{1,12}", clock):
        return {}, False
    shift = 0.0 if before <= float(clock) <= after else after - float(clock)
    seen: dict[str, float] = {}
    for at, digest in _FOUND.findall(listed):
        seen[digest] = min(float(at) + shift, seen.get(digest, float("inf")))
    return seen, len(listed) < _MOST_LISTED


def _quote_name(name: str) -> str:
    """The name for a shell's `find -name`, which takes a pattern."""
    return shlex.quote(_WILDCARD.sub(r"\\\g<0>", name))


def _find_applied_time(
    fixes: Iterable[Suggestion], files: Mapping[str, Sequence[str]], seen: Mapping[str, float]
) -> float | None:
    """Return since when every file has been exactly what `fixes` make of it; None if one is not."""
    by_path: dict[str, list[Suggestion]] = {}
    for fix in fixes:
        by_path.setdefault(fix.path, []).append(fix)
    times: list[float] = []
    for path, of_file in by_path.items():
        changed = suggestions.apply_suggestions(of_file, files.get(path, ()))
        text = "\n".join(changed or ()).encode()
        digests = [hashlib.sha256(each).hexdigest() for each in (text, text + b"\n")]
        found = [seen[digest] for digest in digests if digest in seen]
        if changed is None or not found:
            return None
        times.append(min(found))
    return max(times, default=None)
