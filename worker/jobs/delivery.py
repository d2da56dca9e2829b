"""Runs one trigger and records in the journal what came of it: done, again later, or parked."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from types import TracebackType

from worker.clock import Clock
from worker.conversation.context import GIVEN_UP
from worker.conversation.events import TriggerBegun, TriggerLeft, Watcher
from worker.conversation.triggers import (
    BranchEnded,
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
    trigger_id,
)
from worker.errors import (
    Busy,
    DebounceNotOver,
    NotFinished,
    Postponed,
    SandpiperError,
    StoreError,
    collect_doubts,
)
from worker.jobs.branch import watch_branch
from worker.jobs.branch_follow_up import BranchWatched
from worker.jobs.commands import CommandAnswered
from worker.jobs.comment import answer_comment
from worker.jobs.pipeline import analyse_pipeline, mark_notes
from worker.jobs.reaction import VotesCounted, count_votes
from worker.log import bind_log_fields
from worker.queue.journal import DOUBT, Entry, NotTaken, get_project_id
from worker.queue.project_slots import ProjectSlots
from worker.turns.parts import Attempt, Deps, Ended, Finished, NotesMarked, Skipped
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


Result = Ended | CommandAnswered | NotesMarked | VotesCounted | BranchWatched


class _SteadyClock:
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
    """Do what a trigger asks for, by a clock that nobody sets meanwhile.

    Raises SandpiperError; after a `transient` one it may be called again.
    """
    clock = _SteadyClock(deps.runtime.clock)
    deps = replace(deps, runtime=replace(deps.runtime, clock=clock))
    match trigger:
        case PipelineFailed():
            return analyse_pipeline(trigger, deps, run)
        case PipelinePassed():
            return mark_notes(trigger, deps, run)
        case BranchEnded():
            return watch_branch(trigger, deps, run)
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
    """Run a trigger unless another worker is running it.

    `later` queues it again after a number of seconds. `waited` is how many seconds it was on the
    queue. `slots` limits how many failures of its project run at the same time, and how many
    analyses of its branches. Raises StoreError if the journal could not be read or written before
    the run.
    """
    with bind_log_fields(trigger=trigger_id(trigger), project=get_project_id(trigger)):
        watch(TriggerBegun(trigger, waited))
        delivery = _Delivery(trigger, deps, later)
        try:
            delivery.deliver(watch, waited or 0.0, slots)
        finally:
            watch(TriggerLeft(trigger, delivery.outcome, delivery.ran))


class _Delivery:
    """One delivery of a trigger.

    `outcome` is the word that metrics use, `ran` says whether the trigger's run has begun.
    """

    def __init__(
        self, trigger: Trigger, deps: Deps, later: Callable[[Trigger, float], None]
    ) -> None:
        self.outcome, self.ran = "error", False
        self._trigger, self._deps, self._later = trigger, deps, later
        self._name, self._journal = trigger_id(trigger), deps.queue.journal

    def deliver(self, watch: Watcher, waited: float, slots: ProjectSlots | None) -> None:
        """Take the trigger over, and run it if nothing is against that now."""
        with self._deps.queue.leases.register_work() as (owner, _):
            try:
                entry = self._journal.take_trigger(self._trigger, owner, waited)
            except NotTaken as reason:
                log.info("trigger %s skipped: %s", self._name, reason)
                self.outcome = "skipped"
                return
            if entry.has_given_up():
                self._park(entry, f"{_describe_failed_runs(entry)}, the last while giving up")
                return
            if slots and isinstance(self._trigger, BranchEnded):
                with slots.hold_branch_slot(entry) as may_pay:
                    self._run(entry, watch, may_pay=may_pay)
                return
            with slots.hold_slot(entry) if slots else nullcontext(True) as is_free:
                if is_free:
                    self._run(entry, watch)
                else:
                    self.outcome = "held"

    def _run(self, entry: Entry, watch: Watcher, *, may_pay: bool = True) -> None:
        """Run the trigger, and record what came of it in the journal."""
        self.ran = True
        log.info("trigger %s begins", self._name)
        note = UnfinishedNote(watch)
        give_up_reason = (
            f"{GIVEN_UP}{_describe_failed_runs(entry)}" if entry.has_to_give_up() else ""
        )
        run = Attempt(
            watch=note.watch,
            give_up_reason=give_up_reason,
            may_postpone=entry.tries < PATIENT_TRIES,
            may_pay=may_pay,
            begin=self._begin,
            is_last_look=entry.is_confirmed(self._now()),
        )
        try:
            with collect_doubts() as doubts, ExitStack() as ending:
                ending.push(partial(self._record_unexpected_error, entry))
                result = run_trigger(self._trigger, self._deps, run)
        except (Busy, DebounceNotOver, Postponed) as error:
            self._handle_failure(entry, error, note)
        except NotFinished as error:
            log.warning("trigger %s: %s", self._name, error)
            self._journal.release_entry(entry)
            self._later(self._trigger, 0.0)
            self.outcome = "handed_over"
        except SandpiperError as error:
            self._handle_failure(entry, error, note)
        else:
            if isinstance(result, Skipped):
                is_certain = result.is_certain or run.is_last_look
                if doubts and not is_certain and self._may_pass(doubts):
                    self._look_again(entry, f"{result.reason} ({doubts[0]})")
                    return
                log.info("trigger %s skipped: %s", self._name, result.reason)
            if run.give_up_reason:
                self._park(entry, run.give_up_reason)
                return
            self._journal.remove_trigger(self._trigger)
            self.outcome = _name_outcome(result)

    def _begin(self, trigger: Trigger) -> None:
        """Begin another trigger: once it is in the journal, it is not lost. Raises StoreError."""
        self._journal.add_trigger(trigger)
        self._later(trigger, 0.0)

    def _handle_failure(self, entry: Entry, error: SandpiperError, note: UnfinishedNote) -> None:
        """Try the trigger again later, or park it if that does not help."""
        if error.doubtful and not entry.is_confirmed(self._now()):
            self._look_again(entry, str(error))
        elif error.doubtful or not error.transient or entry.tries >= MAX_TRIES:
            self._park(entry, str(error))
            note.write_reason(str(error), self._deps)
        else:
            is_busy = isinstance(error, Busy | DebounceNotOver)
            wait = _compute_retry_delay(entry, error, self._now())
            level = logging.INFO if is_busy else logging.WARNING
            log.log(level, "trigger %s again in %.0f s: %s", self._name, wait, error)
            self._journal.postpone_entry(entry, wait, str(error), failed=not is_busy)
            self._later(self._trigger, wait)
            self.outcome = "retried"

    def _look_again(self, entry: Entry, reason: str) -> None:
        """Postpone an entry whose run ended in an answer that may pass: one odd answer is no
        end."""
        now = self._now()
        left = max(FIRST_LOOK, (entry.doubted_at if entry.doubts else now) + DOUBT - now)
        wait = min(FIRST_LOOK * 2.0**entry.doubts, LONGEST_LOOK, left)
        log.warning("trigger %s: in doubt, again in %.0f s: %s", self._name, wait, reason)
        self._journal.doubt_entry(entry, wait, reason)
        self._later(self._trigger, wait)
        self.outcome = "retried"

    def _park(self, entry: Entry, reason: str) -> None:
        self._journal.park_entry(entry, reason)
        self.outcome = "parked"

    def _may_pass(self, doubts: Sequence[str]) -> bool:
        """Whether a "not found" may pass: what is missing is of a served project, or GitLab does
        not know the bot's own user now either. Strangers, who are no members, and their projects
        are not looked at again and again."""
        gitlab, project = self._deps.gitlab, get_project_id(self._trigger)
        is_of_people = all(each.startswith("member ") for each in doubts)
        try:
            if not is_of_people and not gitlab.permissions.explain_unserved(project):
                return True
            with collect_doubts() as again:
                gitlab.permissions.is_bot(gitlab.bot.get_user_id())
        except SandpiperError:
            return True
        return bool(again)

    def _record_unexpected_error(
        self,
        entry: Entry,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the name of an unexpected exception into the entry, for the reason to give up."""
        if not isinstance(error, Exception) or isinstance(error, SandpiperError):
            return
        try:
            self._journal.record_unexpected_error(entry, type(error).__name__)
        except StoreError as away:
            log.warning("trigger %s: why it broke off is not recorded: %s", self._name, away)

    def _now(self) -> float:
        return self._deps.runtime.clock.now()


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
        case BranchWatched():
            return "watched"


def _describe_failed_runs(entry: Entry) -> str:
    """Say why the runs so far did not finish."""
    if not entry.broke:
        return f"{entry.deaths} workers died while they were at it"
    return f"{entry.deaths} runs broke off, at least one by an unforeseen error ({entry.broke})"


def _compute_retry_delay(entry: Entry, error: SandpiperError, now: float) -> float:
    """Return the seconds until the trigger is tried again."""
    if isinstance(error, DebounceNotOver):
        return error.retry_after or 0.0
    if isinstance(error, Busy):
        return min(max(BUSY_WAIT, (now - entry.accepted_at) / 10), LONGEST_BUSY_WAIT)
    wait = min(2.0 ** (entry.tries + 1), LONGEST_WAIT)
    asked = error.retry_after if isinstance(error, Postponed) else None
    return max(wait, min(asked or 0.0, LONGEST_ASKED_WAIT))
