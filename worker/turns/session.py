"""Takes a session's turns, first and later ones: each is claimed, resumed and committed once, or it
is said why a thread is not continued."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from worker.conversation import context_json
from worker.conversation.absorb import charge_helper
from worker.conversation.context import NO_OUTCOME, OF_OTHERS, Context, NoteRef, SessionKey, Subject
from worker.conversation.events import Asking, Event, TurnEnded, ignore_event
from worker.conversation.triggers import Replied, trigger_id
from worker.errors import Busy, ForgeError, LeaseLost, StoreError, TurnTaken
from worker.log import bind_log_fields
from worker.queue.leases import Lease
from worker.sessions import recent
from worker.settings.playbook import Workflow
from worker.turns import (
    contexts,
    earlier_notes,
    incident_notes,
    memory,
    outcomes,
    retries,
    stored_turns,
    tiers,
)
from worker.turns.parts import Attempt, Deps, Ended, Finished, Skipped, Stopped, Turn
from worker.turns.stored_turns import check_address, is_internal, make_key
from worker.turns.turn import TurnResult, explain_unaffordable, take_turn

log = logging.getLogger("sandpiper.job")

CHECK_SECONDS = 20.0
"""The least seconds between two checks whether a run's pipeline is superseded."""

CLAIM_MARGIN = 600.0
"""Seconds that a run may take after the wall-clock limit: final answer, saving, posting."""


BEGAN_IN_PUBLIC = (
    "Job logs are for members only here, and this conversation began in public, where all can read "
    "it. The next failure will be told in an internal note."
)
"""Why a session is not continued: its public note may link to the page of all its turns."""

_INTERNAL = NoteRef(0, internal=True)
"""The place of a note that only members may read."""


def analyse_failure(
    subject: Subject,
    workflow: Workflow,
    deps: Deps,
    run: Attempt,
    *,
    reply: Replied | None = None,
    internal: bool = False,
    superseded: Callable[[], str] = lambda: "",
    unasked: bool = False,
    ended_at: float = 0.0,
) -> Ended:
    """Take the first turn of a session.

    `reply` is the comment that asked for it, if one did. The note goes to the merge request, or if
    the comment was `internal`, to its thread. `superseded` is called now and then during the run;
    if it returns a reason, the run ends. `unasked` says that nobody has asked for the turn, so that
    a known failure may answer it. `ended_at` is when the pipeline ended, as in `Failure`.
    """
    key = make_key(subject, workflow, deps, internal=internal)
    with claim_turn(key, 0, key.session_id, deps) as lease:
        if isinstance(lease, Skipped):
            if not lease.at_work:
                complete_analysis(key, deps)
            return lease
        unfinished = contexts.read_unfinished_analysis(key, subject, deps)
        tier, terms = tiers.choose_tier(subject, workflow.name, deps, run, unfinished=unfinished)
        context = unfinished or contexts.make_first_context(
            key.session_id, subject, terms, deps, tier, ended_at
        )
        if reply and not context.answered_notes:
            note = NoteRef(0, reply.discussion_id) if internal else None
            context = replace(context, answered_notes=(reply.note_id,), note=note)
        hidden = deps.gitlab.permissions.needs_internal_note(subject)
        if hidden and not internal:
            context = replace(context, note=_INTERNAL)
        run = make_stoppable(run, key, 0, deps, superseded)
        is_continued = unfinished is not None
        private = internal or hidden
        turn = Turn(
            key, context, terms, (), lease, is_continued, is_unasked=unasked, is_private=private
        )
        if unasked and not is_continued and (reason := explain_unaffordable(turn, deps)):
            return Skipped(reason)
        list_turn(key, turn.context, deps)
        stored_turns.keep_prompt(turn.context, deps)
        return commit_turn(turn, take_turn(turn, deps, run), deps, run)


def answer_reply(
    key: SessionKey,
    text: str,
    deps: Deps,
    run: Attempt,
    reply: Replied | None = None,
    *,
    first_look: bool = False,
    internal: bool = False,
    asker: str = "",
) -> Ended:
    """Take the next turn of a stored session, to answer an `internal` or a public question.

    `asker` says who asks, and in which thread; "" means an operator at the terminal. `first_look`
    says that no model has looked into the failure yet, and that this turn is to do so. If not all
    readers of the question may read the logs, the answer is a separate internal note.
    """
    latest = _find_last_turn(key, reply, deps)
    if isinstance(latest, Skipped):
        return latest
    asked_by = trigger_id(reply) if reply else f"terminal:{deps.queue.owner}"
    with claim_turn(key, latest + 1, asked_by, deps) as lease:
        if isinstance(lease, Skipped):
            return lease
        stored = contexts.load_session(key, latest, deps)
        if isinstance(stored, Skipped):
            return stored
        stored = stored_turns.restore_prompt(check_address(key, stored, deps), deps)
        if reply and reply.note_id in stored.answered_notes:
            memory.update_memory(key, deps)
            return Skipped(f"note {reply.note_id} is answered already")
        unfinished = contexts.read_unfinished_answer(key, stored, reply, deps)
        files_of = stored_turns.find_files(key, latest, deps)
        tier, terms = tiers.choose_tier(
            stored.subject, stored.workflow, deps, run, unfinished=unfinished, before=stored
        )
        context = unfinished or contexts.make_next_context(
            stored,
            text,
            reply,
            terms,
            deps,
            first_look=first_look,
            files_of=files_of,
            asker=asker,
            tier=tier,
        )
        if not unfinished:
            chosen = tiers.choose_reply_by(context, stored, terms, deps, run)
            context = replace(context, reply_by=chosen)
        context = charge_helper(context, f"route: {run.reply_route.route}", run.reply_route.answers)
        run = make_stoppable(run, key, latest + 1, deps, lambda: "")
        hidden = deps.gitlab.permissions.needs_internal_note(stored.subject)
        was_internal = is_internal(key, stored, deps)
        if hidden and not was_internal:
            return Skipped(BEGAN_IN_PUBLIC)
        if hidden and not internal:
            context = replace(context, note=_INTERNAL)
        private = internal or was_internal or hidden
        turn = Turn(
            key, context, terms, files_of, lease, unfinished is not None, is_private=private
        )
        list_turn(key, turn.context, deps)
        stored_turns.keep_prompt(turn.context, deps)
        return commit_turn(turn, take_turn(turn, deps, run), deps, run)


def _find_last_turn(key: SessionKey, reply: Replied | None, deps: Deps) -> int | Skipped:
    """Return the number of the turn that a question follows, or why there is none.

    Raises Busy while the first turn, or an older question of the thread, comes before it.
    """
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        if deps.queue.leases.find_holder(key, 0):
            raise Busy(f"session {key.session_id} is still at its first turn")
        return Skipped(f"session {key.session_id} has no stored turn to continue")
    if reply and deps.queue.journal.has_earlier_reply(reply):
        raise Busy(f"session {key.session_id} has an older question to answer first")
    return latest


def complete_analysis(key: SessionKey, deps: Deps) -> None:
    """Repeat what follows a first turn's commit, as its worker may have died in between.

    Raises nothing; doing it twice changes nothing.
    """
    try:
        context = stored_turns.load_turn(deps.storage.sessions, key, 0)
    except StoreError as error:
        log.info("session %s: nothing is done again: %s", key.session_id, error)
        return
    earlier_notes.fold_older_notes(context, deps)
    incident_notes.tell_again(context, deps)
    retries.retry_jobs(context, deps, ignore_event)
    memory.update_memory(key, deps)


def end_first_turn(key: SessionKey, on_behalf_of: str, deps: Deps, run: Attempt) -> None:
    """End a first turn that another run left unfinished, so that no run continues it.

    `run.give_up_reason` is the reason that its note gives.
    """
    with claim_turn(key, 0, on_behalf_of, deps) as lease:
        context = contexts.read_unfinished(key, 0, deps)
        subject = deps.gitlab.merge_requests.confirm_subject(context.subject) if context else ""
        if context is None or isinstance(subject, str) or isinstance(lease, Skipped):
            return
        context = replace(context, subject=subject)
        private = is_internal(key, context, deps)
        workflow = deps.runtime.playbook.get(context.workflow)
        terms = tiers.make_terms(subject, workflow, deps)
        turn = Turn(key, context, terms, (), lease, is_continued=True, is_private=private)
        commit_turn(turn, take_turn(turn, deps, run), deps, run)


def forget_session(key: SessionKey, on_behalf_of: str, deps: Deps) -> bool:
    """Delete what a session has stored, readable or not, except its subject.

    A turn without a history replaces it, so that nothing runs again. Returns False if there is
    nothing to delete.
    """
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        return False
    with claim_turn(key, latest + 1, on_behalf_of, deps) as lease:
        if isinstance(lease, Skipped):
            return False
        newest = stored_turns.load_newest(key, latest, deps)
        stored = newest or contexts.begin_anew(key, latest, deps)
        if isinstance(stored, Skipped):
            deps.storage.sessions.remove_session(key)
        elif contexts.is_forgotten(stored) and not stored.losses:
            return False
        else:
            emptied = contexts.make_emptied_context(stored, deps)
            deps.storage.sessions.commit_turn(key, latest + 1, context_json.dump_context(emptied))
            deps.storage.sessions.erase_session(key, latest + 1)
    log.info("session %s: %s", key.session_id, contexts.FORGOTTEN)
    return True


def make_stoppable(
    run: Attempt, key: SessionKey, turn: int, deps: Deps, superseded: Callable[[], str]
) -> Attempt:
    """Return `run` with a watcher that raises Stopped before a request nobody wants any more."""
    checked = deps.runtime.clock.monotonic()

    def watch(event: Event) -> None:
        nonlocal checked
        if isinstance(event, Asking):
            reason = stored_turns.read_stop_reason(key, turn, deps)
            if not reason and deps.runtime.clock.monotonic() - checked >= CHECK_SECONDS:
                checked, reason = deps.runtime.clock.monotonic(), superseded()
            if reason:
                raise Stopped(reason)
        run.watch(event)

    return replace(run, watch=watch)


@contextmanager
def claim_turn(key: SessionKey, turn: int, trigger: str, deps: Deps) -> Iterator[Lease | Skipped]:
    """Hold the turn; yield the lease, or the reason why there is nothing to do. Raises Busy.

    `trigger` names what the turn is for: two claims with the same one are the same work.
    """
    if done := _find_done(key, turn, deps):
        deps.storage.sessions.remove_leftovers(key, turn)
        yield done
        return
    with (
        bind_log_fields(session=key.session_id),
        deps.queue.leases.claim_turn(key, turn, trigger) as held,
    ):
        if isinstance(held, Lease):
            if turn:  # the worker of the turn before may have died right after its commit
                deps.storage.sessions.remove_leftovers(key, turn - 1)
            # Its last holder may just have committed.
            yield _find_done(key, turn, deps) or held
        elif held.trigger_id != trigger:
            raise Busy(f"session {key.session_id} is at work on something else")
        else:
            name = f"turn {turn} of session {key.session_id}"
            reason = f"{name} is being worked on already"
            yield Skipped(reason, at_work=True, is_certain=True)


def _find_done(key: SessionKey, turn: int, deps: Deps) -> Skipped | None:
    latest = deps.storage.sessions.find_latest_turn(key)
    done = latest is not None and latest >= turn
    reason = f"turn {turn} of session {key.session_id} is done already"
    return Skipped(reason, is_certain=True) if done else None


def list_turn(key: SessionKey, context: Context, deps: Deps) -> None:
    """Put the turn on the operators' list. If that fails, the turn continues."""
    row = recent.make_row(context, deps.runtime.redact)
    try:
        deps.storage.recent.put_row(key, context.turn, row.started_at, recent.dump_row(row))
    except StoreError as error:
        log.warning("session %s: not listed: %s", context.session_id, error)


def commit_turn(turn: Turn, result: TurnResult, deps: Deps, run: Attempt) -> Finished:
    """Store a turn that was taken, and do what follows from it. Raises LeaseLost and StoreError."""
    # A committed turn is never continued.
    context, number = replace(result.context, handed_over=False), result.context.turn
    outcome = context.outcome or NO_OUTCOME
    turn.lease.check_held()
    try:
        data = context_json.dump_context(context)
        turn.lease.retry_while_away(
            lambda: deps.storage.sessions.commit_turn(turn.key, number, data)
        )
    except TurnTaken as error:
        raise LeaseLost(str(error)) from error
    list_turn(turn.key, context, deps)
    note = context.note or NoteRef(0)
    # What is posted at once is not waited for; the sweep removes what copies it may have.
    if note.note_id and not (number == 0 and context.found_by in OF_OTHERS):
        # A POST that GitLab carried out late has left copies. What comes later still, or cannot be
        # removed now, is the sweep's.
        try:
            deps.gitlab.notes.remove_copies(context.subject, turn.marker, note)
        except ForgeError as error:
            log.warning("session %s: copies of its note: %s", context.session_id, error)
    if number == 0:
        earlier_notes.fold_older_notes(context, deps)
    incident_notes.tell_again(context, deps)
    if context.verdict and not context.dry_run:  # nobody can confirm a verdict in a terminal
        for earlier in range(context.look, number):
            outcomes.update_judgement(
                turn.key, earlier, deps, run.watch, newest_verdict=context.verdict
            )
    location = deps.storage.sessions.describe_location(turn.key, number)
    run.watch(TurnEnded(number, outcome, result.body, location, context, result.finding))
    retries.retry_jobs(context, deps, run.watch)
    log.info(
        "session %s turn %d: %s %s", context.session_id, number, outcome.status, outcome.reason
    )
    if result.finding and not turn.is_private:
        memory.remember_finding(context, result.finding, deps)
        memory.update_memory(turn.key, deps, context)
    return Finished(turn.key, number, outcome, result.body, note, location)
