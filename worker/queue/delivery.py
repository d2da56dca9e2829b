"""Runs one trigger and records in the journal what came of it: done, again later, or parked."""

import logging
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from types import TracebackType

from worker.core.events import Begun, Left, Watcher
from worker.core.triggers import Trigger, trigger_id
from worker.errors import Interrupted, Postponed, SandpiperError, StoreError
from worker.jobs import dispatch, results
from worker.jobs.results import CommandAnswered, VotesCounted
from worker.log import bound
from worker.queue.journal import MOST_DEATHS, Entry, get_project_id
from worker.queue.project_slots import ProjectSlots
from worker.turns.parts import Deps, Run
from worker.turns.results import Busy, Finished, NotesMarked, Skipped

log = logging.getLogger("sandpiper.queue")

MAX_TRIES = 60
LONGEST_WAIT = 60.0
PATIENT_TRIES = 15
"""Tries, about eleven minutes, that wait for a model that is down; the next one reports it."""

BUSY_WAIT = 3.0
"""Seconds between two checks whether a session is free. They do not count as tries."""


def deliver_trigger(
    trigger: Trigger,
    deps: Deps,
    watch: Watcher,
    later: Callable[[Trigger, float], None],
    waited: float | None = None,
    slots: ProjectSlots | None = None,
) -> None:
    """Run a trigger unless another worker is running it.

    `later` queues it again after a number of seconds. `waited` is how many seconds it was on the
    queue. `slots` limits how many failures of its project are looked at together. Raises StoreError
    if the journal could not be read or written before the run.
    """
    outcome = "error"
    with bound(trigger=trigger_id(trigger), project=get_project_id(trigger)):
        watch(Begun(trigger, waited))
        try:
            outcome = _take_and_run(trigger, deps, watch, later, waited or 0.0, slots)
        finally:
            watch(Left(trigger, outcome))


def _take_and_run(
    trigger: Trigger,
    deps: Deps,
    watch: Watcher,
    later: Callable[[Trigger, float], None],
    waited: float,
    slots: ProjectSlots | None,
) -> str:
    """Take the trigger in the journal and run it. Returns the outcome in a word."""
    with deps.queue.leases.register_work() as (owner, _):
        entry = deps.queue.journal.take_trigger(trigger, owner, waited)
        if isinstance(entry, str):
            log.info("trigger %s skipped: %s", trigger_id(trigger), entry)
            return "skipped"
        if entry.deaths > MOST_DEATHS:
            deps.queue.journal.park_entry(
                entry, f"{_describe_failed_runs(entry)}, the last while giving up"
            )
            return "parked"
        with slots.hold_slot(entry) if slots else nullcontext(True) as free:
            return _run_entry(entry, deps, watch, later) if free else "held"


def _run_entry(
    entry: Entry, deps: Deps, watch: Watcher, later: Callable[[Trigger, float], None]
) -> str:
    trigger, gives_up = entry.trigger, _reason_to_give_up(entry)
    patient = entry.tries < PATIENT_TRIES
    try:
        with ExitStack() as ending:
            ending.push(partial(_record_unexpected_error, entry, deps))
            ended = dispatch.run_trigger(trigger, deps, Run(watch, None, gives_up, patient))
    except Postponed as error:
        return _handle_failure(entry, error, deps, later)
    except Interrupted as error:
        log.warning("trigger %s: %s", trigger_id(trigger), error)
        deps.queue.journal.release_entry(entry)
        later(trigger, 0.0)
        return "handed_over"
    except SandpiperError as error:
        return _handle_failure(entry, error, deps, later)
    if isinstance(ended, Skipped):
        log.info("trigger %s skipped: %s", trigger_id(trigger), ended.reason)
    if gives_up:
        deps.queue.journal.park_entry(entry, gives_up)
        return "parked"
    deps.queue.journal.remove_trigger(trigger)
    return _name_outcome(ended)


def _name_outcome(ended: dispatch.Result) -> str:
    match ended:
        case Skipped():
            return "skipped"
        case Finished(outcome=outcome):
            return str(outcome.status)
        case CommandAnswered():
            return "told"
        case NotesMarked():
            return "settled"
        case VotesCounted():
            return "counted"


def _reason_to_give_up(entry: Entry) -> str:
    """What is posted instead of a result when another try would be useless; "" before that."""
    if entry.deaths < MOST_DEATHS:
        return ""
    return f"given up: {_describe_failed_runs(entry)}"


def _describe_failed_runs(entry: Entry) -> str:
    """Say why the runs so far did not end."""
    if not entry.broke:
        return f"{entry.deaths} workers died while they were at it"
    return f"{entry.deaths} runs broke off, at least one by an unforeseen error ({entry.broke})"


def _record_unexpected_error(
    entry: Entry,
    deps: Deps,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Write the name of an unexpected exception into the entry, for the reason to give up."""
    if not isinstance(error, Exception) or isinstance(error, SandpiperError):
        return
    try:
        deps.queue.journal.record_unexpected_error(entry, type(error).__name__)
    except StoreError as away:
        log.warning("trigger %s: not noted why it broke off: %s", trigger_id(entry.trigger), away)


def _handle_failure(
    entry: Entry, error: SandpiperError, deps: Deps, later: Callable[[Trigger, float], None]
) -> str:
    name = trigger_id(entry.trigger)
    busy = isinstance(error, Busy | results.DebounceNotOver)
    if not error.transient or entry.tries >= MAX_TRIES:
        deps.queue.journal.park_entry(entry, str(error))
        return "parked"
    wait = _retry_delay(entry, error)
    level = logging.INFO if busy else logging.WARNING
    log.log(level, "trigger %s again in %.0f s: %s", name, wait, error)
    deps.queue.journal.postpone_entry(entry, wait, str(error), failed=not busy)
    later(entry.trigger, wait)
    return "retried"


def _retry_delay(entry: Entry, error: SandpiperError) -> float:
    """Seconds until the trigger is tried again."""
    if isinstance(error, results.DebounceNotOver):
        return error.seconds
    return BUSY_WAIT if isinstance(error, Busy) else min(2.0 ** (entry.tries + 1), LONGEST_WAIT)
