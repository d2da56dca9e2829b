"""Finds triggers that no worker runs, and unfinished turns without a worker and a trigger.

Running workers find the triggers themselves (`worker.queue.recovery`); the sweep also finds them
while no worker runs, and finds turns whose trigger's record was lost from the store.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from worker.conversation import context_json
from worker.conversation.context import Context, SessionKey
from worker.conversation.triggers import PipelineFailed, Replied, Trigger, trigger_id
from worker.errors import Unreadable
from worker.queue.journal import State, StoredEntry
from worker.turns.parts import Deps

STALE = 600.0
"""Seconds that a trigger may wait in the queue before it counts as abandoned."""

DOUBTED = 7 * 86_400.0
"""Seconds after its acceptance in which a trigger that was parked in doubt is begun again."""

_DRY = "it was a dry run: whoever began it in a terminal has ended it there"

_CHECKPOINT = re.compile(
    r"sessions/([1-9]\d{0,18})/([1-9]\d{0,18})/([0-9a-f]{4,64})/(\d{4})/checkpoint\.json"
)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What was found, and why it was not begun again ("" if it was)."""

    what: str
    reason: str = ""


def resume_abandoned(
    deps: Deps, begin: Callable[[Trigger], None], *, act: bool = True
) -> Iterator[Abandoned]:
    """Call `begin` for each abandoned trigger and turn, and yield them; without `act` only yield.

    A trigger that was parked because GitLab or the store refused it for long is begun again too:
    what they say may be otherwise by now, and a finished analysis waits in its checkpoint. Raises
    StoreError and what `begin` raises.
    """
    for name in list(deps.queue.journal.list_names()):
        stored = deps.queue.journal.read_entry(name)
        if stored and _is_doubted(stored, deps):
            if not act or deps.queue.journal.reopen_doubted(stored):
                if act:
                    begin(stored.entry.trigger)
                yield Abandoned(f"parked trigger {trigger_id(stored.entry.trigger)}")
            continue
        if (
            stored
            and _is_abandoned(stored, deps)
            and (not act or deps.queue.journal.reopen_entry(stored))
        ):
            if act:
                begin(stored.entry.trigger)
            yield Abandoned(f"trigger {trigger_id(stored.entry.trigger)}")
    for key, turn in list(_find_unfinished_turns(deps)):
        what = f"turn {turn} of session {key.session_id}"
        trigger = _restore_trigger(key, turn, deps)
        if isinstance(trigger, str):
            if trigger != _DRY:
                yield Abandoned(what, trigger)
            continue
        if isinstance(trigger, PipelineFailed) and deps.queue.journal.has_failure(trigger):
            # A branch pipeline's trigger names no merge request, so its entry is elsewhere.
            continue
        if act:
            begin(trigger)
        yield Abandoned(what)


def _is_doubted(stored: StoredEntry, deps: Deps) -> bool:
    """Whether a trigger was parked for an answer that may have passed, and is young enough."""
    entry = stored.entry
    age = deps.runtime.clock.now() - entry.accepted_at
    return entry.state is State.PARKED and entry.doubts > 0 and age < DOUBTED


def _is_abandoned(stored: StoredEntry, deps: Deps) -> bool:
    """Whether no worker runs a trigger, and no message in the queue will start it."""
    entry = stored.entry
    if entry.state in (State.PARKED, State.HELD):
        return False
    if entry.owner:
        return not deps.queue.leases.is_alive(entry.owner)
    return deps.runtime.clock.now() - max(entry.accepted_at, entry.due) > STALE


def _find_unfinished_turns(deps: Deps) -> Iterator[tuple[SessionKey, int]]:
    """Yield the turns that have a checkpoint but no commit, no worker and no trigger."""
    for name in deps.storage.sessions.records.list_names("sessions/"):
        found = _CHECKPOINT.fullmatch(name)
        if not found:
            continue
        key, turn = SessionKey(int(found[1]), int(found[2]), found[3]), int(found[4])
        latest = deps.storage.sessions.find_latest_turn(key)
        if latest is not None and latest >= turn:
            continue
        if deps.queue.leases.find_holder(key, turn):
            continue
        if not any(True for _ in deps.queue.journal.list_names(key.project_id, key.mr_iid)):
            yield key, turn


def _restore_trigger(key: SessionKey, turn: int, deps: Deps) -> Trigger | str:
    """Return the trigger that began a turn, or why it cannot be restored."""
    try:
        data = deps.storage.sessions.read_checkpoint(key, turn)
        context = context_json.load_context_of(key, data or b"")
    except (context_json.HistoryError, Unreadable) as error:
        return f"its checkpoint cannot be read: {error}"
    if context.dry_run:
        return _DRY
    return _restore_reply(context) or _restore_failure(context)


def _restore_reply(context: Context) -> Replied | None:
    """Return the comment that a turn answers, if its note and id are known."""
    if not context.answered_notes or not context.note or not context.note.discussion_id:
        return None
    subject, note = context.subject, context.note
    return Replied(
        subject.project_id, subject.mr_iid, note.discussion_id, context.answered_notes[-1]
    )


def _restore_failure(context: Context) -> PipelineFailed | str:
    if not context.is_look:
        return "which comment it was to answer is not known any more: ask again"
    subject = context.subject
    return PipelineFailed(
        *(subject.pipeline_project_id, subject.pipeline_id, subject.sha, ""),
        *(subject.mr_iid, subject.project_id),
        finished_at=int(context.ended_at) if context.turn else 0,
    )
