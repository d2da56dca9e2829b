"""The story of one trigger: prepare → run → report → save."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex

from worker.core import history, prompts
from worker.core.context import Context, NoteRef, Outcome, Status, Subject
from worker.core.identity import find_marker, session_id
from worker.core.limits import Spent
from worker.core.messages import User
from worker.core.ports import Claim, SessionKey
from worker.core.progress import TurnEnded, Watcher, unwatched
from worker.core.triggers import PipelineFailed, Replied, Trigger, trigger_id
from worker.deps import Deps
from worker.errors import SandpiperError
from worker.playbook import Workflow
from worker.turn import Turn, take

log = logging.getLogger("sandpiper.job")

CLAIM_MARGIN = 600.0
"""Seconds a claim outlives the wall-clock limit: the final answer, saving and posting."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be done; the reason is recorded."""

    reason: str


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


def run(trigger: Trigger, deps: Deps, watch: Watcher = unwatched) -> Ended:
    """Deal with one trigger. Raises SandpiperError; `transient` ones may be run again."""
    match trigger:
        case PipelineFailed():
            subject = deps.desk.subject(trigger)
            if isinstance(subject, str):
                return Skipped(subject)
            workflow = deps.playbook.for_trigger("pipeline_failed")
            return analyse(subject, workflow, deps, watch)
        case Replied():
            return _reply(trigger, deps, watch)


def analyse(subject: Subject, workflow: Workflow, deps: Deps, watch: Watcher = unwatched) -> Ended:
    """The first turn of a session."""
    name = session_id(
        deps.gitlab_url,
        subject.project_id,
        subject.mr_iid,
        subject.pipeline_id,
        workflow.name,
        deps.salt,
    )
    key = SessionKey(subject.project_id, subject.mr_iid, name)
    with _claimed(key, 0, name, deps) as taken:
        if taken:
            return Skipped(taken)
        context = _unfinished(key, 0, deps) or _fresh(name, subject, workflow, deps)
        return _finish(Turn(key, context, files_of=None), deps, watch)


def answer(
    key: SessionKey, text: str, deps: Deps, watch: Watcher = unwatched, reply: Replied | None = None
) -> Ended:
    """The next turn of a stored session: somebody asks back."""
    latest = deps.store.latest(key)
    if latest is None:
        return Skipped(f"session {key.session_id} has no stored turn to continue")
    asked_by = trigger_id(reply) if reply else f"terminal:{deps.owner}"
    with _claimed(key, latest + 1, asked_by, deps) as taken:
        if taken:
            return Skipped(taken)
        stored = history.load(deps.store.read_context(key, latest))
        if reply and reply.note_id in stored.answered:
            return Skipped(f"note {reply.note_id} is answered already")
        said = _continuation(text, stored, key, deps)
        context = _unfinished(key, latest + 1, deps) or _resumed(stored, said, reply, deps)
        return _finish(Turn(key, context, files_of=latest), deps, watch)


def _reply(trigger: Replied, deps: Deps, watch: Watcher) -> Ended:
    thread = deps.desk.thread(trigger.project_id, trigger.mr_iid, trigger.discussion_id)
    me = deps.forge.me()
    marker = find_marker(thread[0].body) if thread and thread[0].author_id == me else None
    if marker is None:
        return Skipped("the thread was not begun by Sandpiper")
    said = next((note for note in thread if note.note_id == trigger.note_id), None)
    if said is None or said.system or said.author_id == me:
        return Skipped(f"note {trigger.note_id} is gone or not a person's")
    if not deps.desk.may_command(trigger.project_id, said.author_id):
        return Skipped(f"user {said.author_id} is below the access level that may ask")
    key = SessionKey(trigger.project_id, trigger.mr_iid, marker.session_id)
    return answer(key, deps.redact(said.body), deps, watch, trigger)


@contextmanager
def _claimed(key: SessionKey, turn: int, trigger: str, deps: Deps) -> Iterator[str]:
    """Hold the turn; yields "" or the reason why there is nothing to do. Raises Busy."""
    now = deps.clock.now()
    # Two threads of one worker may have been handed the same trigger: each claims for itself.
    owner = f"{deps.owner}/{token_hex(4)}"
    claim = Claim(owner, trigger, now + deps.limits.wall_clock + CLAIM_MARGIN)
    latest = deps.store.latest(key)
    if latest is not None and latest >= turn:
        yield f"turn {turn} of session {key.session_id} is done already"
        return
    holder = deps.store.claim(key, turn, claim, now)
    if holder is not None and holder.trigger_id != trigger:
        raise Busy(f"session {key.session_id} is at work on something else")
    if holder is not None:
        yield f"turn {turn} of session {key.session_id} is being worked on already"
        return
    try:
        yield _done_meanwhile(key, turn, deps)
    finally:
        deps.store.release(key, turn, claim)


def _done_meanwhile(key: SessionKey, turn: int, deps: Deps) -> str:
    """The check repeated under the claim: its last holder may just have committed."""
    latest = deps.store.latest(key)
    done = latest is not None and latest >= turn
    return f"turn {turn} of session {key.session_id} is done already" if done else ""


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
    event = {
        "project": subject.project,
        "iid": subject.mr_iid,
        "sha": subject.sha,
        "pipeline_id": subject.pipeline_id,
        "session_id": name,
    }
    return Context(
        session_id=name,
        subject=subject,
        workflow=workflow.name,
        model="",
        system="\n".join([prompts.BASE, kit.notes, workflow.text]),
        tools=kit.specs,
        messages=(User(json.dumps(event)),),
        spent=Spent(started_at=deps.clock.now()),
    )


def _resumed(stored: Context, said: str, reply: Replied | None, deps: Deps) -> Context:
    context = replace(
        stored,
        turn=stored.turn + 1,
        turn_start=len(stored.messages),
        spent=Spent(started_at=deps.clock.now()),
        note=NoteRef(0, reply.discussion_id) if reply else NoteRef(0),
        answered=stored.answered + ((reply.note_id,) if reply else ()),
        outcome=None,
    )
    return context.add(User(said))


def _continuation(text: str, stored: Context, key: SessionKey, deps: Deps) -> str:
    return prompts.continuation(
        text,
        files=_has_files(key, stored.turn, deps),
        seconds=deps.clock.now() - stored.spent.started_at,
        changes=[deps.redact(line) for line in deps.desk.since(stored.subject)],
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
