"""A session's turns: the first one, and the next ones. Claimed, resumed, committed once."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex

from worker.core import history, prompts
from worker.core.context import Context, NoteRef, Outcome, Status, Subject
from worker.core.identity import session_id
from worker.core.limits import Spent
from worker.core.messages import User
from worker.core.ports import Claim, SessionKey
from worker.core.progress import Asking, Event, TurnEnded, Watcher, unwatched
from worker.core.triggers import Replied, trigger_id
from worker.deps import Deps
from worker.errors import SandpiperError, StoreError
from worker.playbook import Workflow
from worker.turn import Turn, take

log = logging.getLogger("sandpiper.job")

CHECK_SECONDS = 20.0
"""How often a run looks whether its pipeline still matters."""

FORGOTTEN = "deleted on request"
"""The reason of a turn that stands for a deleted conversation."""

CLAIM_MARGIN = 600.0
"""Seconds a claim outlives the wall-clock limit: the final answer, saving and posting."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be done; the reason is recorded. `at_work` says that somebody else does it."""

    reason: str
    at_work: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn was taken: what came out, the note's body, and where the session lies."""

    key: SessionKey
    turn: int
    outcome: Outcome
    body: str
    note: NoteRef
    location: str


class Busy(SandpiperError):
    """Another trigger is at work on the session: come back later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


Ended = Skipped | Finished


class Stopped(SandpiperError):
    """The run is to end with what there is; the message is the reason that is posted."""


def key_of(
    subject: Subject, workflow: Workflow, deps: Deps, *, internal: bool = False
) -> SessionKey:
    """The session of a pipeline's failure.

    What is asked and answered in internal notes is a session of its own: one that also answers in
    public could tell there what it has read here.
    """
    name = session_id(
        deps.gitlab_url,
        subject.project_id,
        subject.mr_iid,
        subject.pipeline_id,
        workflow.name,
        deps.salt + ("internal" if internal else ""),
    )
    return SessionKey(subject.project_id, subject.mr_iid, name)


def analyse(
    subject: Subject,
    workflow: Workflow,
    deps: Deps,
    watch: Watcher = unwatched,
    *,
    reply: Replied | None = None,
    internal: bool = False,
    superseded: Callable[[], str] = lambda: "",
) -> Ended:
    """The first turn of a session.

    `reply` is the comment that asked for it, if one did. The note goes to the merge request, or if
    the comment was `internal`, to its thread. `superseded` is asked now and then while it runs; a
    reason ends it.
    """
    key = key_of(subject, workflow, deps, internal=internal)
    with claimed(key, 0, key.session_id, deps) as taken:
        if taken:
            return taken
        context = _unfinished(key, 0, deps) or _fresh(key.session_id, subject, workflow, deps)
        if reply and not context.answered:
            note = NoteRef(0, reply.discussion_id) if internal else None
            context = replace(context, answered=(reply.note_id,), note=note)
        watched = _stoppable(watch, key, 0, deps, superseded)
        return _finish(Turn(key, context, files_of=None), deps, watched)


def answer(
    key: SessionKey, text: str, deps: Deps, watch: Watcher = unwatched, reply: Replied | None = None
) -> Ended:
    """The next turn of a stored session: somebody asks back."""
    latest = deps.store.latest(key)
    if latest is None:
        if deps.store.holder(key, 0, deps.clock.now()):
            raise Busy(f"session {key.session_id} is still at its first turn")
        return Skipped(f"session {key.session_id} has no stored turn to continue")
    asked_by = trigger_id(reply) if reply else f"terminal:{deps.owner}"
    with claimed(key, latest + 1, asked_by, deps) as taken:
        if taken:
            return taken
        stored = load(key, latest, deps)
        if reply and reply.note_id in stored.answered:
            return Skipped(f"note {reply.note_id} is answered already")
        said = _continuation(text, stored, key, deps)
        context = _unfinished(key, latest + 1, deps) or _resumed(stored, said, reply, deps)
        watched = _stoppable(watch, key, latest + 1, deps, lambda: "")
        return _finish(Turn(key, context, files_of=latest), deps, watched)


def forget(key: SessionKey, on_behalf_of: str, deps: Deps) -> bool:
    """Delete what a session has stored; what it was about stays known, so that nothing runs again.

    A turn without a history takes its place. False if there is nothing to delete.
    """
    latest = deps.store.latest(key)
    if latest is None:
        return False
    with claimed(key, latest + 1, on_behalf_of, deps) as taken:
        stored = load(key, latest, deps)
        if taken or is_forgotten(stored):
            return False
        deps.store.commit(key, latest + 1, history.dump(_emptied(stored, deps)))
        deps.store.erase(key, latest + 1)
    log.info("session %s: %s", key.session_id, FORGOTTEN)
    return True


def load(key: SessionKey, turn: int, deps: Deps) -> Context:
    """A committed turn. Raises StoreError, also for one that cannot be understood."""
    try:
        return history.load(deps.store.read_context(key, turn))
    except history.HistoryError as error:
        where = deps.store.location(key, turn)
        raise StoreError(f"{where}: {error}") from error


def is_forgotten(context: Context) -> bool:
    """Whether the turn stands for a deleted conversation."""
    return context.outcome is not None and context.outcome.reason == FORGOTTEN


def _emptied(stored: Context, deps: Deps) -> Context:
    return Context(
        session_id=stored.session_id,
        subject=stored.subject,
        workflow=stored.workflow,
        model="",
        system=stored.system,
        tools=stored.tools,
        messages=(_event(stored.session_id, stored.subject),),
        spent=Spent(started_at=deps.clock.now()),
        turn=stored.turn + 1,
        turn_start=1,
        note=stored.note,
        answered=stored.answered,
        outcome=Outcome(Status.FAILED, "", FORGOTTEN),
    )


def _stoppable(
    watch: Watcher, key: SessionKey, turn: int, deps: Deps, superseded: Callable[[], str]
) -> Watcher:
    """A watcher that raises Stopped before a request to the model that nobody wants any more."""
    checked = deps.clock.monotonic()

    def watched(event: Event) -> None:
        nonlocal checked
        if isinstance(event, Asking):
            reason = deps.store.stopped(key, turn)
            if not reason and deps.clock.monotonic() - checked >= CHECK_SECONDS:
                checked, reason = deps.clock.monotonic(), superseded()
            if reason:
                raise Stopped(reason)
        watch(event)

    return watched


@contextmanager
def claimed(key: SessionKey, turn: int, trigger: str, deps: Deps) -> Iterator[Skipped | None]:
    """Hold the turn; yields None, or the reason why there is nothing to do. Raises Busy.

    `trigger` says on behalf of what: the same one twice is the same work.
    """
    now = deps.clock.now()
    # Two threads of one worker may have been handed the same trigger: each claims for itself.
    owner = f"{deps.owner}/{token_hex(4)}"
    claim = Claim(owner, trigger, now + deps.limits.wall_clock + CLAIM_MARGIN)
    latest = deps.store.latest(key)
    if latest is not None and latest >= turn:
        yield Skipped(f"turn {turn} of session {key.session_id} is done already")
        return
    holder = deps.store.claim(key, turn, claim, now)
    if holder is not None and holder.trigger_id != trigger:
        raise Busy(f"session {key.session_id} is at work on something else")
    if holder is not None:
        name = f"turn {turn} of session {key.session_id}"
        yield Skipped(f"{name} is being worked on already", at_work=True)
        return
    try:
        yield _done_meanwhile(key, turn, deps)
    finally:
        deps.store.release(key, turn, claim)


def _done_meanwhile(key: SessionKey, turn: int, deps: Deps) -> Skipped | None:
    """The check repeated under the claim: its last holder may just have committed."""
    latest = deps.store.latest(key)
    done = latest is not None and latest >= turn
    return Skipped(f"turn {turn} of session {key.session_id} is done already") if done else None


def _unfinished(key: SessionKey, turn: int, deps: Deps) -> Context | None:
    """What a worker that died left of this turn."""
    data = deps.store.read_checkpoint(key, turn)
    if data is None:
        return None
    try:
        return history.load(data)
    except history.HistoryError as error:
        log.warning("session %s: checkpoint dropped: %s", key.session_id, error)
        return None


def _fresh(name: str, subject: Subject, workflow: Workflow, deps: Deps) -> Context:
    kit = deps.kit(subject, workflow)
    return Context(
        session_id=name,
        subject=subject,
        workflow=workflow.name,
        model="",
        system="\n".join([prompts.BASE, kit.notes, workflow.text]),
        tools=kit.specs,
        messages=(_event(name, subject),),
        spent=Spent(started_at=deps.clock.now()),
    )


def _event(name: str, subject: Subject) -> User:
    event = {
        "project": subject.project,
        "iid": subject.mr_iid,
        "sha": subject.sha,
        "pipeline_id": subject.pipeline_id,
        "session_id": name,
    }
    return User(json.dumps(event))


def _resumed(stored: Context, said: str, reply: Replied | None, deps: Deps) -> Context:
    context = replace(
        stored,
        turn=stored.turn + 1,
        turn_start=len(stored.messages),
        spent=Spent(started_at=deps.clock.now()),
        note=NoteRef(0, reply.discussion_id) if reply else NoteRef(0),
        answered=stored.answered + ((reply.note_id,) if reply else ()),
        outcome=None,
        gave_way="",
    )
    return context.add(User(said))


def _continuation(text: str, stored: Context, key: SessionKey, deps: Deps) -> str:
    deleted = ["The conversation until now was deleted on request."] if is_forgotten(stored) else []
    return prompts.continuation(
        text,
        files=_has_files(key, stored.turn, deps),
        seconds=deps.clock.now() - stored.spent.started_at,
        changes=[*deleted, *(deps.redact(line) for line in deps.desk.since(stored.subject))],
    )


def _has_files(key: SessionKey, turn: int, deps: Deps) -> bool:
    stored = deps.store.open_files(key, turn)
    if stored is None:
        return False
    with stored:
        return True


def _finish(turn: Turn, deps: Deps, watch: Watcher) -> Finished:
    taken = take(turn, deps, watch)
    context, number = taken.context, taken.context.turn
    outcome = context.outcome or Outcome(Status.FAILED, "", "the run ended without an outcome")
    deps.store.commit(turn.key, number, history.dump(context))
    location = deps.store.location(turn.key, number)
    watch(TurnEnded(number, outcome, taken.body, location))
    log.info(
        "session %s turn %d: %s %s", context.session_id, number, outcome.status, outcome.reason
    )
    note = context.note or NoteRef(0)
    return Finished(turn.key, number, outcome, taken.body, note, location)
