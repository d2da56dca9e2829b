"""Work that was begun and that nobody will end: triggers without a worker, turns without either.

Workers find the first kind by themselves (`worker.queue.recovery`); this is for what was left while
none was there, or by a store that lost a record.
"""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from worker.core import history
from worker.core.context import Context
from worker.core.ports import SessionKey
from worker.core.triggers import PipelineFailed, Replied, Trigger, trigger_id
from worker.deps import Deps
from worker.queue.journal import Noted, State

log = logging.getLogger("sandpiper.sweep")

STALE = 600.0
"""Seconds for which a trigger that nobody has begun may still be on the queue."""

_CHECKPOINT = re.compile(
    r"sessions/([1-9]\d{0,18})/([1-9]\d{0,18})/([0-9a-f]{4,64})/(\d{4})/checkpoint\.json"
)


@dataclass(frozen=True, slots=True)
class Stranded:
    """What was found, and why it was not begun again ("" if it was)."""

    what: str
    reason: str = ""


def again(deps: Deps, begin: Callable[[Trigger], None], *, act: bool = True) -> Iterator[Stranded]:
    """Hand what is stranded to `begin`; without `act` only tell of it.

    Raises StoreError and what `begin` raises.
    """
    for name in list(deps.journal.names()):
        noted = deps.journal.read(name)
        if noted and _left(noted, deps) and (not act or deps.journal.revive(noted)):
            if act:
                begin(noted.entry.trigger)
            yield Stranded(f"trigger {trigger_id(noted.entry.trigger)}")
    for key, turn in list(_unfinished(deps)):
        what = f"turn {turn} of session {key.session_id}"
        trigger = _trigger(key, turn, deps)
        if isinstance(trigger, str):
            yield Stranded(what, trigger)
            continue
        if act:
            begin(trigger)
        yield Stranded(what)


def _left(noted: Noted, deps: Deps) -> bool:
    """Whether nobody works on a trigger, and no message may be there that would change that."""
    entry = noted.entry
    if entry.state in (State.PARKED, State.HELD):
        return False
    if entry.owner:
        return not deps.leases.alive(entry.owner)
    return deps.clock.now() - max(entry.accepted_at, entry.due) > STALE


def _unfinished(deps: Deps) -> Iterator[tuple[SessionKey, int]]:
    """Turns with a checkpoint, but no commit, nobody at work and no trigger that would go on."""
    for name in deps.store.records.names("sessions/"):
        found = _CHECKPOINT.fullmatch(name)
        if not found:
            continue
        key, turn = SessionKey(int(found[1]), int(found[2]), found[3]), int(found[4])
        latest = deps.store.latest(key)
        if latest is not None and latest >= turn:
            continue
        if deps.leases.holder(key, turn):
            continue
        if not any(True for _ in deps.journal.names(key.project_id, key.mr_iid)):
            yield key, turn


def _trigger(key: SessionKey, turn: int, deps: Deps) -> Trigger | str:
    """What began the turn, or why that cannot be told."""
    data = deps.store.read_checkpoint(key, turn)
    try:
        context = history.load(data or b"")
    except history.HistoryError as error:
        return f"its checkpoint cannot be read: {error}"
    return _asked(context) or _failed(context)


def _asked(context: Context) -> Replied | None:
    """The comment that the turn answers, if it can still be told which."""
    if not context.answered or not context.note or not context.note.discussion_id:
        return None
    subject, note = context.subject, context.note
    return Replied(subject.project_id, subject.mr_iid, note.discussion_id, context.answered[-1])


def _failed(context: Context) -> PipelineFailed | str:
    if context.turn:
        return "which comment it was to answer is not known any more: ask again"
    subject = context.subject
    return PipelineFailed(
        *(subject.pipeline_project_id, subject.pipeline_id, subject.sha, ""),
        *(subject.mr_iid, subject.project_id),
    )
