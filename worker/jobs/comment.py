"""A comment on a merge request: is it for us, may they ask, and what is it they want?

Nobody but a member of enough access gets as much as a sign. Whatever is said in an internal note is
answered there, by a session of its own.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from worker.core import comment_commands
from worker.core.comment_commands import Asked, Command
from worker.core.conversation import context_json, prompts
from worker.core.conversation.context import KNOWN, RULE, Context, Status, Subject
from worker.core.events import Watcher
from worker.core.ports import SessionKey
from worker.core.ports.gitlab import ThreadNote
from worker.core.session_id import Marker, find_marker, session_id
from worker.core.triggers import Replied, trigger_id
from worker.errors import ConfigError, ForgeError, SandpiperError
from worker.forge.defence.neutralise import neutralise
from worker.jobs.results import Told
from worker.maintenance import retention
from worker.turns import contexts, memory, salvage, session
from worker.turns.parts import Deps
from worker.turns.results import Ended, Skipped

log = logging.getLogger("sandpiper.replies")

DAY = 86_400.0
STOPPED = "stopped on request"

SAID = 999_999
"""The "turn" in the marker of a note that is no turn: a plain answer to a command."""

_AGAIN = "Look at the failure again: the last attempt to explain it did not succeed."
_INDEED = "Look into the failure."
_OTHER_MODEL = (
    "Look at the failure again with fresh eyes, and say where you come to another conclusion."
)
_NOT_YET = "Pipeline {} has not been looked at yet. Write `/sandpiper analyze` to start."


@dataclass(frozen=True, slots=True)
class _Heard:
    """A note that is for us, by somebody who may ask.

    `session` is that of the newest of our own notes in its thread, if there is one. `begins` is the
    first note of a thread that other people began.
    """

    trigger: Replied
    note: ThreadNote
    asked: Asked | None
    session: str
    begins: str = ""


def answer_comment(trigger: Replied, deps: Deps, watch: Watcher) -> Ended | Told:
    """Deal with one comment. Raises SandpiperError; `transient` ones may be handled again."""
    thread = deps.desk.thread(trigger.project_id, trigger.mr_iid, trigger.discussion_id)
    heard = _hear(trigger, thread, deps)
    if isinstance(heard, str):
        return Skipped(heard)
    used = _turns(thread, heard.note, deps.forge.me())
    if used > deps.turns_per_day:
        return Skipped(f"the thread has had its {deps.turns_per_day} answers of the day")
    over = used == deps.turns_per_day and heard.asked != Command("stop")
    limit = f"This thread has had its {used} answers of the day; ask again tomorrow."
    return _acknowledged(
        lambda: _say(heard, limit, deps) if over else _obey(heard, deps, watch), trigger, deps
    )


def _hear(trigger: Replied, thread: Sequence[ThreadNote], deps: Deps) -> _Heard | str:
    me = deps.forge.me()
    said = next((note for note in thread if note.note_id == trigger.note_id), None)
    if said is None or said.system or said.author_id == me:
        return f"note {trigger.note_id} is gone or not a person's"
    asked = comment_commands.parse(said.body, deps.forge.handle(), deps.playbook.commands())
    ours = thread[0].author_id == me and find_marker(thread[0].body) is not None
    if asked is None and not ours:
        return "the thread was not begun by Sandpiper, and the note is not addressed to it"
    if reason := deps.desk.unserved(trigger.project_id):
        return reason
    if deps.desk.is_bot(said.author_id):
        return f"user {said.author_id} is a bot"
    if not deps.desk.may_command(trigger.project_id, said.author_id):
        return f"user {said.author_id} is below the access level that may ask"
    first = thread[0]
    begins = first.body if first.author_id != me and first.note_id != said.note_id else ""
    return _Heard(trigger, said, asked, _session(thread, me), begins)


def _session(thread: Sequence[ThreadNote], me: int) -> str:
    """The session that has last spoken in the thread: a marker is believed on our notes only."""
    for note in reversed(thread):
        marker = find_marker(note.body) if note.author_id == me else None
        if marker and marker.turn != SAID:
            return marker.session_id
    return ""


def _turns(thread: Sequence[ThreadNote], said: ThreadNote, me: int) -> int:
    """How often we have answered in the thread in the day before `said`."""
    return sum(note.author_id == me and note.at > said.at - DAY for note in thread[1:])


# ------------------------------------------------------------------------------- what is asked for


def _obey(heard: _Heard, deps: Deps, watch: Watcher) -> Ended | Told:
    """Do what is asked for, or say which of the operator's settings stands against it."""
    try:
        return _run_command(heard, deps, watch)
    except ConfigError as error:
        log.error("note %d is not answered: %s", heard.note.note_id, error)
        return _say(heard, f"Not possible as Sandpiper is set up here: {error}.", deps)


def _run_command(heard: _Heard, deps: Deps, watch: Watcher) -> Ended | Told:
    match heard.asked:
        case Command("status"):
            return _say(heard, _status(heard, deps), deps)
        case Command("stop"):
            return _say(heard, _stop(heard, deps), deps)
        case Command("model", name):
            return _with_model(heard, name, deps, watch)
        case Command("forget"):
            return _say(heard, _forget(heard, deps), deps)
        case Command("unknown", written):
            word = re.sub(r"[^\w-]", "", written.split()[0])[:20] or "?"
            return _say(heard, f"There is no command `{word}`:\n\n{_usage(deps)}", deps)
        case Command("help"):
            return _say(heard, f"Write one of these lines:\n\n{_usage(deps)}", deps)
        case Command(name):
            return _analyze(heard, deps, watch, name)
        case _:
            return _question(heard, deps, watch)


def _usage(deps: Deps) -> str:
    return comment_commands.usage(deps.playbook.commands())


def _question(heard: _Heard, deps: Deps, watch: Watcher) -> Ended | Told:
    key = _current(heard, deps)
    if isinstance(key, str):
        return _say(heard, key, deps)
    return _answer(heard, key, deps.redact(heard.note.body), deps, watch)


def _answer(
    heard: _Heard,
    key: SessionKey,
    text: str,
    deps: Deps,
    watch: Watcher,
    *,
    first_look: bool = False,
) -> Ended | Told:
    ended = session.answer(
        key,
        text,
        deps,
        watch,
        heard.trigger,
        first_look=first_look,
        internal=heard.note.internal,
        asker=_asker(heard),
    )
    if isinstance(ended, Skipped) and ended.reason == session.BEGAN_IN_PUBLIC:
        return _say(heard, ended.reason, deps)
    return ended


def _asker(heard: _Heard) -> str:
    """Who asks, and where, for the model."""
    note = heard.note
    user = note.author or f"user {note.author_id}"
    return prompts.tell_asker(
        user, ours=bool(heard.session), internal=note.internal, begins=heard.begins
    )


def _current(heard: _Heard, deps: Deps) -> SessionKey | str:
    """The session a comment is about, or why there is none: the thread's, else the newest one's."""
    trigger = heard.trigger
    if heard.session:
        return SessionKey(trigger.project_id, trigger.mr_iid, heard.session)
    subject = _failure(heard, deps)
    if isinstance(subject, str):
        return subject
    key = _key(heard, subject, deps)
    begun = deps.store.latest(key) is not None or deps.leases.find_holder(key, 0)
    return key if begun else _NOT_YET.format(subject.pipeline_id)


def _failure(heard: _Heard, deps: Deps) -> Subject | str:
    return deps.desk.find(str(heard.trigger.project_id), heard.trigger.mr_iid, None)


def _key(heard: _Heard, subject: Subject, deps: Deps, command: str = "analyze") -> SessionKey:
    workflow = deps.playbook.for_trigger(f"command:{command}")
    return session.key_of(subject, workflow, deps, internal=heard.note.internal)


def _analyze(heard: _Heard, deps: Deps, watch: Watcher, command: str = "analyze") -> Ended | Told:
    """Run the workflow of the command on the newest failure, or say what became of that."""
    subject = _failure(heard, deps)
    if isinstance(subject, str):
        return _say(heard, subject, deps)
    key = _key(heard, subject, deps, command)
    latest = deps.store.latest(key)
    if latest is None:
        if deps.leases.find_holder(key, 0):
            return _say(heard, f"Pipeline {subject.pipeline_id} is being looked at now.", deps)
        workflow = deps.playbook.for_trigger(f"command:{command}")
        return session.analyse(
            subject, workflow, deps, watch, reply=heard.trigger, internal=heard.note.internal
        )
    stored = session.load(key, latest, deps)
    if heard.note.note_id in stored.answered:
        return Skipped(f"note {heard.note.note_id} is answered already")
    explained = _is_explained(key, latest, deps)
    if _failed(stored):
        return _answer(heard, key, _AGAIN, deps, watch, first_look=not explained)
    if not explained:
        return _answer(heard, key, _INDEED, deps, watch, first_look=True)
    return _say(heard, f"{_looked_at(stored)} Reply there to ask more.", deps)


def _with_model(heard: _Heard, name: str, deps: Deps, watch: Watcher) -> Ended | Told:
    if name not in deps.choices:
        known = ", ".join(f"`{each}`" for each in deps.choices) or "no other"
        return _say(heard, f"That model is not on offer here. There is: {known}.", deps)
    chosen = replace(deps, model=deps.choices[name])
    key = _current(heard, deps)
    if isinstance(key, str):
        return _analyze(heard, chosen, watch)
    return _answer(heard, key, _OTHER_MODEL, chosen, watch)


def _status(heard: _Heard, deps: Deps) -> str:
    key = _current(heard, deps)
    if isinstance(key, str):
        return f"Nothing is running. {key}"
    latest = deps.store.latest(key)
    turn = 0 if latest is None else latest + 1
    if deps.leases.find_holder(key, turn):
        return _progress(key, turn, deps)
    if latest is None:
        return "Nothing is running."
    return f"Nothing is running. {_looked_at(session.load(key, latest, deps))}"


def _progress(key: SessionKey, turn: int, deps: Deps) -> str:
    data = deps.store.read_checkpoint(key, turn)
    if data is None:
        return "At work, at the very beginning."
    spent = context_json.load(data).spent
    minutes = (deps.clock.now() - spent.started_at) / 60
    return (
        f"At work for {minutes:.1f} minutes, with {spent.iterations} answers of the model so far."
    )


def _stop(heard: _Heard, deps: Deps) -> str:
    stopped = 0
    for key in _sessions(heard, deps):
        latest = deps.store.latest(key)
        turn = 0 if latest is None else latest + 1
        if deps.leases.find_holder(key, turn):
            deps.store.stop(key, turn, STOPPED)
            stopped += 1
    return "Stopping after the present step." if stopped else "Nothing is running."


def _forget(heard: _Heard, deps: Deps) -> str:
    name = trigger_id(heard.trigger)
    done = sum(session.forget(key, name, deps) for key in _sessions(heard, deps))
    project, iid = heard.trigger.project_id, heard.trigger.mr_iid
    done += memory.forget(project, iid, deps)
    done += retention.forget_merge_request(project, iid, deps, heard.trigger)
    if not done:
        return "Nothing is stored of this merge request."
    return "Deleted: what was said, and every file. The notes stay until somebody deletes them."


def _sessions(heard: _Heard, deps: Deps) -> list[SessionKey]:
    trigger = heard.trigger
    found = deps.store.sessions(trigger.project_id, trigger.mr_iid)
    return [key for key in found if key != _lock(heard, deps)]


def _failed(context: Context) -> bool:
    return context.outcome is None or context.outcome.status is Status.FAILED


def _is_explained(key: SessionKey, latest: int, deps: Deps) -> bool:
    """Whether a model has explained the failure in one of the session's turns."""
    found = salvage.find_verdict(key, latest, deps)
    return found is not None and found.found_by not in (RULE, KNOWN)


def _looked_at(context: Context) -> str:
    pipeline = context.subject.pipeline_id
    if contexts.is_forgotten(context):
        return f"What was found on pipeline {pipeline} was deleted."
    if _failed(context):
        return f"Pipeline {pipeline} could not be explained. Write `/sandpiper analyze` to retry."
    where = f": {context.note.url}" if context.note and context.note.url else ""
    return f"Pipeline {pipeline} was looked at{where}."


# -------------------------------------------------------------------------------- signs and answers


def _acknowledged(deal: Callable[[], Ended | Told], trigger: Replied, deps: Deps) -> Ended | Told:
    """`deal` with a note that has a sign on it; it stays while somebody is or will be at work."""
    _sign(deps.forge.acknowledge, trigger)
    try:
        ended = deal()
    except SandpiperError as error:
        if not error.transient:
            _sign(deps.forge.forget, trigger)
        raise
    if not (isinstance(ended, Skipped) and ended.at_work):
        _sign(deps.forge.forget, trigger)
    return ended


def _sign(change: Callable[[int, int, int], None], trigger: Replied) -> None:
    try:
        change(trigger.project_id, trigger.mr_iid, trigger.note_id)
    except ForgeError as error:
        log.warning("no sign on note %d: %s", trigger.note_id, error)


def _say(heard: _Heard, text: str, deps: Deps) -> Told | Skipped:
    """Post a plain answer in the thread, once for each note whatever becomes of this worker."""
    trigger, name = heard.trigger, trigger_id(heard.trigger)
    place = Subject(
        deps.gitlab_url, trigger.project_id, "", trigger.mr_iid, 0, 0, "", deps.gitlab_url
    )
    marker = Marker(hashlib.sha256(f"said\n{name}".encode()).hexdigest()[:20], SAID)
    with session.claimed(_lock(heard, deps), 0, name, deps) as taken:
        if isinstance(taken, Skipped):
            return taken
        if deps.forge.find(place, marker, trigger.discussion_id):
            return Skipped(f"note {trigger.note_id} is answered already")
        body = f"{marker.text()}\n\n{neutralise(deps.redact(text), deps.hosts)}"
        deps.forge.post(place, body, trigger.discussion_id)
    return Told(text)


def _lock(heard: _Heard, deps: Deps) -> SessionKey:
    """What stands in the store for "somebody is answering a command on this merge request"."""
    project, iid = heard.trigger.project_id, heard.trigger.mr_iid
    return SessionKey(project, iid, session_id(deps.gitlab_url, project, iid, 0, "say", deps.salt))
