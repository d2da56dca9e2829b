"""One trigger from the queue to its end: noted, begun by one, and ended or begun again later."""

import logging
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from types import TracebackType

from worker import job
from worker.core.progress import Begun, Left, Watcher
from worker.core.triggers import Trigger, trigger_id
from worker.deps import Deps
from worker.errors import Interrupted, Postponed, SandpiperError, StoreError
from worker.log import bound
from worker.queue.journal import MOST_DEATHS, Entry, project_of
from worker.queue.project_slots import Gate

log = logging.getLogger("sandpiper.queue")

MAX_TRIES = 60
LONGEST_WAIT = 60.0
PATIENT_TRIES = 15
"""Tries, some eleven minutes, that wait for a model that is down; the next one says so."""

BUSY_WAIT = 3.0
"""Seconds between two looks whether a session is free; they are no tries."""


def perform(
    trigger: Trigger,
    deps: Deps,
    watch: Watcher,
    later: Callable[[Trigger, float], None],
    waited: float | None = None,
    gate: Gate | None = None,
) -> None:
    """Do what the trigger asks for, unless somebody does or has done.

    `later` is asked to queue it again after so many seconds; `waited` is how long it was on the
    queue. `gate` holds what would starve other projects. Raises StoreError if it could not even be
    noted that it is begun.
    """
    outcome = "error"
    with bound(trigger=trigger_id(trigger), project=project_of(trigger)):
        watch(Begun(trigger, waited))
        try:
            outcome = _perform(trigger, deps, watch, later, waited or 0.0, gate)
        finally:
            watch(Left(trigger, outcome))


def _perform(
    trigger: Trigger,
    deps: Deps,
    watch: Watcher,
    later: Callable[[Trigger, float], None],
    waited: float,
    gate: Gate | None,
) -> str:
    """What came of it, in a word."""
    with deps.leases.entered() as (owner, _):
        entry = deps.journal.begin(trigger, owner, waited)
        if isinstance(entry, str):
            log.info("trigger %s skipped: %s", trigger_id(trigger), entry)
            return "skipped"
        if entry.deaths > MOST_DEATHS:
            deps.journal.park(entry, f"{_story(entry)}, the last while giving up")
            return "parked"
        with gate.entered(entry) if gate else nullcontext(True) as free:
            return _run(entry, deps, watch, later) if free else "held"


def _run(entry: Entry, deps: Deps, watch: Watcher, later: Callable[[Trigger, float], None]) -> str:
    trigger, gives_up = entry.trigger, _last_words(entry)
    patient = entry.tries < PATIENT_TRIES
    try:
        with ExitStack() as ending:
            ending.push(partial(_broken_off, entry, deps))
            ended = job.run(trigger, replace(deps, gives_up=gives_up, patient=patient), watch)
    except Postponed as error:
        return _failed(entry, error, deps, later)
    except Interrupted as error:
        log.warning("trigger %s: %s", trigger_id(trigger), error)
        deps.journal.hand_over(entry)
        later(trigger, 0.0)
        return "handed_over"
    except SandpiperError as error:
        return _failed(entry, error, deps, later)
    if isinstance(ended, job.Skipped):
        log.info("trigger %s skipped: %s", trigger_id(trigger), ended.reason)
    if gives_up:
        deps.journal.park(entry, gives_up)
        return "parked"
    deps.journal.settle(trigger)
    return _word(ended)


def _word(ended: job.Result) -> str:
    match ended:
        case job.Skipped():
            return "skipped"
        case job.Finished(outcome=outcome):
            return str(outcome.status)
        case job.Told():
            return "told"
        case job.Settled():
            return "settled"
        case job.Counted():
            return "counted"


def _last_words(entry: Entry) -> str:
    """The reason that is posted in place of a result, where trying again would be no use."""
    if entry.deaths < MOST_DEATHS:
        return ""
    return f"given up: {_story(entry)}"


def _story(entry: Entry) -> str:
    """What became of its runs so far."""
    if not entry.broke:
        return f"{entry.deaths} workers died while they were at it"
    return f"{entry.deaths} runs broke off, at least one by an unforeseen error ({entry.broke})"


def _broken_off(
    entry: Entry,
    deps: Deps,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Keep what ended the run if nobody has foreseen it, for whoever reads why it was given up."""
    if not isinstance(error, Exception) or isinstance(error, SandpiperError):
        return
    try:
        deps.journal.break_off(entry, type(error).__name__)
    except StoreError as away:
        log.warning("trigger %s: not noted why it broke off: %s", trigger_id(entry.trigger), away)


def _failed(
    entry: Entry, error: SandpiperError, deps: Deps, later: Callable[[Trigger, float], None]
) -> str:
    name = trigger_id(entry.trigger)
    busy = isinstance(error, job.Busy | job.Early)
    if not error.transient or entry.tries >= MAX_TRIES:
        deps.journal.park(entry, str(error))
        return "parked"
    wait = _pause(entry, error)
    level = logging.INFO if busy else logging.WARNING
    log.log(level, "trigger %s again in %.0f s: %s", name, wait, error)
    deps.journal.wait(entry, wait, str(error), failed=not busy)
    later(entry.trigger, wait)
    return "retried"


def _pause(entry: Entry, error: SandpiperError) -> float:
    """Seconds until it is begun again."""
    if isinstance(error, job.Early):
        return error.seconds
    return BUSY_WAIT if isinstance(error, job.Busy) else min(2.0 ** (entry.tries + 1), LONGEST_WAIT)
