"""Runs one trigger and records in the journal what came of it: done, again later, or parked."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

from worker.clock import Clock
from worker.conversation.context import GIVEN_UP
from worker.conversation.events import TriggerBegun, TriggerLeft, Watcher
from worker.conversation.triggers import (
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
    trigger_id,
)
from worker.errors import Interrupted, Postponed, SandpiperError, StoreError, collect_doubts
from worker.jobs.commands import CommandAnswered
from worker.jobs.comment import answer_comment
from worker.jobs.pipeline import DebounceNotOver, analyse_pipeline, mark_notes
from worker.jobs.reaction import VotesCounted, count_votes
from worker.log import bind_log_fields
from worker.queue.journal import DOUBT, Entry, get_project_id
from worker.queue.project_slots import ProjectSlots
from worker.turns.parts import Attempt, Busy, Deps, Ended, Finished, NotesMarked, Skipped
from worker.turns.placeholder import UnfinishedNote

log = logging.getLogger("sandpiper.queue")

MAX_TRIES = 60
LONGEST_WAIT = 60.0
PATIENT_TRIES = 57
"""Tries (most of an hour) that wait for a model that does not answer; the next one reports it."""

LONGEST_ASKED_WAIT = 600.0
"""The most seconds that a provider may ask to be left alone between two tries."""

FIRST_LOOK, LONGEST_LOOK = 15.0, 180.0
"""Seconds until an answer that may pass is looked at again: doubled each time, to the longest."""

BUSY_WAIT = 3.0
LONGEST_BUSY_WAIT = 15.0
"""Seconds between two checks whether a session is free: a tenth of the wait so far, within these.
They do not count as tries."""


Result = Ended | CommandAnswered | NotesMarked | VotesCounted


class SteadyClock:
    """The clock of one run. Its epoch seconds go on evenly from the run's beginning, so that a
    machine whose clock is set meanwhile neither ends the run nor gives it more time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shift = clock.now() - clock.monotonic()

    def now(self) -> float:
        """Epoch seconds."""
        return self._clock.monotonic() + self._shift

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._clock.sleep(seconds)


def run_trigger(trigger: Trigger, deps: Deps, run: Attempt) -> Result:
    """Do what a trigger asks for, by a SteadyClock.

    Raises SandpiperError; after a `transient` one it may be called again.
    """
    clock = SteadyClock(deps.runtime.clock)
    deps = replace(deps, runtime=replace(deps.runtime, clock=clock))
    match trigger:
        case PipelineFailed():
            return analyse_pipeline(trigger, deps, run)
        case PipelinePassed():
            return mark_notes(trigger, deps, run.watch)
        case Replied():
            return answer_comment(trigger, deps, run)
        case Reacted():
            return count_votes(trigger, deps, run.watch)


def deliver_trigger(
    trigger: Trigger,
    deps: Deps,
    watch: Watcher,
    later: Callable[[Trigger, float], None],
    waited: float | None = None,
    slots: ProjectSlots | None = None,
) -> None:
    """Attempt a trigger unless another worker is running it.

    `later` queues it again after a number of seconds. `waited` is how many seconds it was on the
    queue. `slots` limits how many failures of its project run at the same time. Raises StoreError
    if the journal could not be read or written before the run.
    """
    log_fields = bind_log_fields(trigger=trigger_id(trigger), project=get_project_id(trigger))
    with (
        log_fields,
        _watch_delivery(trigger, watch, waited) as delivery,
        _take_entry(trigger, deps, waited or 0.0, slots, delivery) as entry,
    ):
        if entry is None:
            return
        delivery.ran = True
        log.info("trigger %s begins", trigger_id(trigger))
        result: Result | None = None
        note = UnfinishedNote(watch)
        run = Attempt(
            watch=note.watch,
            gives_up=_explain_giving_up(entry),
            patient=entry.tries < PATIENT_TRIES,
            is_last_look=entry.is_confirmed(deps.runtime.clock.now()),
        )
        with collect_doubts() as doubts, _handle_errors(entry, deps, later, delivery, note):
            result = run_trigger(trigger, deps, run)
        is_open = isinstance(result, Skipped) and not (result.is_certain or run.is_last_look)
        if isinstance(result, Skipped) and doubts and is_open and _may_pass(trigger, doubts, deps):
            delivery.outcome = _look_again(entry, f"{result.reason} ({doubts[0]})", deps, later)
        elif result is not None:
            delivery.outcome = _close_entry(entry, result, run.gives_up, deps)


@dataclass(slots=True)
class _Delivery:
    """A delivery: its outcome, as the word that metrics use, and whether the job was run."""

    outcome: str = "error"
    ran: bool = False


@contextmanager
def _watch_delivery(trigger: Trigger, watch: Watcher, waited: float | None) -> Iterator[_Delivery]:
    delivery = _Delivery()
    watch(TriggerBegun(trigger, waited))
    try:
        yield delivery
    finally:
        watch(TriggerLeft(trigger, delivery.outcome, delivery.ran))


@contextmanager
def _take_entry(
    trigger: Trigger, deps: Deps, waited: float, slots: ProjectSlots | None, delivery: _Delivery
) -> Iterator[Entry | None]:
    """Take over the trigger's entry; yields None and sets the outcome if it is not to run now."""
    with deps.queue.leases.register_work() as (owner, _):
        entry = deps.queue.journal.take_trigger(trigger, owner, waited)
        if isinstance(entry, str):
            log.info("trigger %s skipped: %s", trigger_id(trigger), entry)
            delivery.outcome = "skipped"
            yield None
            return
        if entry.has_given_up():
            deps.queue.journal.park_entry(
                entry, f"{_describe_failed_runs(entry)}, the last while giving up"
            )
            delivery.outcome = "parked"
            yield None
            return
        with slots.hold_slot(entry) if slots else nullcontext(True) as free:
            delivery.outcome = delivery.outcome if free else "held"
            yield entry if free else None


@contextmanager
def _handle_errors(
    entry: Entry,
    deps: Deps,
    later: Callable[[Trigger, float], None],
    delivery: _Delivery,
    note: UnfinishedNote,
) -> Iterator[None]:
    """Postpone, hand over or park an entry whose run raises SandpiperError."""
    try:
        with ExitStack() as ending:
            ending.push(partial(_record_unexpected_error, entry, deps))
            yield
    except Postponed as error:  # an Interrupted, but one that is tried again like a failure
        delivery.outcome = _handle_failure(entry, error, deps, later, note)
    except Interrupted as error:
        log.warning("trigger %s: %s", trigger_id(entry.trigger), error)
        deps.queue.journal.release_entry(entry)
        later(entry.trigger, 0.0)
        delivery.outcome = "handed_over"
    except SandpiperError as error:
        delivery.outcome = _handle_failure(entry, error, deps, later, note)


def _close_entry(entry: Entry, result: Result, gives_up: str, deps: Deps) -> str:
    """Remove the entry from the journal, or park it. Returns the outcome in a word."""
    if isinstance(result, Skipped):
        log.info("trigger %s skipped: %s", trigger_id(entry.trigger), result.reason)
    if gives_up:
        deps.queue.journal.park_entry(entry, gives_up)
        return "parked"
    deps.queue.journal.remove_trigger(entry.trigger)
    return _name_outcome(result)


def _name_outcome(result: Result) -> str:
    match result:
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


def _explain_giving_up(entry: Entry) -> str:
    """Return why no further try is made, to be posted instead of a result; "" if one is."""
    if not entry.has_to_give_up():
        return ""
    return f"{GIVEN_UP}{_describe_failed_runs(entry)}"


def _describe_failed_runs(entry: Entry) -> str:
    """Say why the runs so far did not finish."""
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
        log.warning(
            "trigger %s: why it broke off is not recorded: %s", trigger_id(entry.trigger), away
        )


def _handle_failure(
    entry: Entry,
    error: SandpiperError,
    deps: Deps,
    later: Callable[[Trigger, float], None],
    note: UnfinishedNote,
) -> str:
    name = trigger_id(entry.trigger)
    busy = isinstance(error, Busy | DebounceNotOver)
    is_confirmed = entry.is_confirmed(deps.runtime.clock.now())
    if error.doubtful and not is_confirmed:
        return _look_again(entry, str(error), deps, later)
    if error.doubtful or not error.transient or entry.tries >= MAX_TRIES:
        deps.queue.journal.park_entry(entry, str(error))
        note.write_reason(str(error), deps)
        return "parked"
    wait = _compute_retry_delay(entry, error, deps.runtime.clock.now())
    level = logging.INFO if busy else logging.WARNING
    log.log(level, "trigger %s again in %.0f s: %s", name, wait, error)
    deps.queue.journal.postpone_entry(entry, wait, str(error), failed=not busy)
    later(entry.trigger, wait)
    return "retried"


def _may_pass(trigger: Trigger, doubts: Sequence[str], deps: Deps) -> bool:
    """Whether a "not found" may pass: what is missing is of a served project, or GitLab does not
    know the bot's own user now either. Strangers, who are no members, and their projects are not
    looked at again and again."""
    project = get_project_id(trigger)
    is_of_people = all(each.startswith("member ") for each in doubts)
    try:
        if not is_of_people and not deps.gitlab.permissions.explain_unserved(project):
            return True
        with collect_doubts() as again:
            deps.gitlab.permissions.is_bot(deps.gitlab.bot.get_user_id())
    except SandpiperError:
        return True
    return bool(again)


def _look_again(
    entry: Entry, reason: str, deps: Deps, later: Callable[[Trigger, float], None]
) -> str:
    """Postpone an entry whose run ended in an answer that may pass: one odd answer is no end."""
    since = entry.doubted_at if entry.doubts else deps.runtime.clock.now()
    left = max(FIRST_LOOK, since + DOUBT - deps.runtime.clock.now())
    wait = min(FIRST_LOOK * 2.0**entry.doubts, LONGEST_LOOK, left)
    log.warning(
        "trigger %s: in doubt, again in %.0f s: %s", trigger_id(entry.trigger), wait, reason
    )
    deps.queue.journal.doubt_entry(entry, wait, reason)
    later(entry.trigger, wait)
    return "retried"


def _compute_retry_delay(entry: Entry, error: SandpiperError, now: float) -> float:
    """Return the seconds until the trigger is tried again."""
    if isinstance(error, DebounceNotOver):
        return error.seconds
    if isinstance(error, Busy):
        return min(max(BUSY_WAIT, (now - entry.accepted_at) / 10), LONGEST_BUSY_WAIT)
    wait = min(2.0 ** (entry.tries + 1), LONGEST_WAIT)
    asked = error.retry_after if isinstance(error, Postponed) else None
    return max(wait, min(asked or 0.0, LONGEST_ASKED_WAIT))
