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
from worker.core.ports import SessionKey
from worker.core.ports.gitlab import ThreadNote
from worker.core.session_id import Kind, Marker, find_marker, make_session_id
from worker.core.triggers import Replied, trigger_id
from worker.errors import ConfigError, ForgeError, SandpiperError
from worker.forge.defence.neutralise import neutralise
from worker.jobs.results import CommandAnswered
from worker.maintenance import retention
from worker.turns import contexts, memory, salvage, session
from worker.turns.parts import Deps, Run
from worker.turns.results import Ended, Skipped

log = logging.getLogger("sandpiper.replies")

DAY = 86_400.0
STOPPED = "stopped on request"

_AGAIN = "Look at the failure again: the last attempt to explain it did not succeed."
_INDEED = "Look into the failure."
_OTHER_MODEL = (
    "Look at the failure again with fresh eyes, and say where you come to another conclusion."
)
_NOT_YET = "Pipeline {} has not been looked at yet. Write `/sandpiper analyze` to start."


@dataclass(frozen=True, slots=True)
class _Comment:
    """A note that is for us, by somebody who may ask.

    `session` is that of the newest of our own notes in its thread, if there is one. `begins` is the
    first note of a thread that other people began.
    """

    trigger: Replied
    note: ThreadNote
    asked: Asked | None
    session: str
    begins: str = ""


def answer_comment(trigger: Replied, deps: Deps, run: Run) -> Ended | CommandAnswered:
    """Deal with one comment. Raises SandpiperError; `transient` ones may be handled again."""
    thread = deps.gitlab.merge_requests.thread(
        trigger.project_id, trigger.mr_iid, trigger.discussion_id
    )
    heard = _read_comment(trigger, thread, deps)
    if isinstance(heard, str):
        return Skipped(heard)
    used = _count_answers(thread, heard.note, deps.gitlab.bot.me())
    if used > deps.options.turns_per_day:
        return Skipped(f"the thread has had its {deps.options.turns_per_day} answers of the day")
    over = used == deps.options.turns_per_day and heard.asked != Command("stop")
    limit = f"This thread has had its {used} answers of the day; ask again tomorrow."
    return _acknowledge_while(
        lambda: _post_answer(heard, limit, deps) if over else _do_command(heard, deps, run),
        trigger,
        deps,
    )


def _read_comment(trigger: Replied, thread: Sequence[ThreadNote], deps: Deps) -> _Comment | str:
    me = deps.gitlab.bot.me()
    said = next((note for note in thread if note.note_id == trigger.note_id), None)
    if said is None or said.system or said.author_id == me:
        return f"note {trigger.note_id} is gone or not a person's"
    asked = comment_commands.parse_comment(
        said.body, deps.gitlab.bot.handle(), deps.runtime.playbook.commands()
    )
    ours = thread[0].author_id == me and find_marker(thread[0].body) is not None
    if asked is None and not ours:
        return "the thread was not begun by Sandpiper, and the note is not addressed to it"
    if reason := deps.gitlab.permissions.explain_unserved(trigger.project_id):
        return reason
    if deps.gitlab.permissions.is_bot(said.author_id):
        return f"user {said.author_id} is a bot"
    if not deps.gitlab.permissions.may_command(trigger.project_id, said.author_id):
        return f"user {said.author_id} is below the access level that may ask"
    first = thread[0]
    begins = first.body if first.author_id != me and first.note_id != said.note_id else ""
    return _Comment(trigger, said, asked, _find_session(thread, me), begins)


def _find_session(thread: Sequence[ThreadNote], me: int) -> str:
    """The session that has last spoken in the thread: a marker is believed on our notes only."""
    for note in reversed(thread):
        marker = find_marker(note.body) if note.author_id == me else None
        if marker and marker.kind is not Kind.COMMAND:
            return marker.session_id
    return ""


def _count_answers(thread: Sequence[ThreadNote], said: ThreadNote, me: int) -> int:
    """How often we have answered in the thread in the day before `said`."""
    return sum(
        note.author_id == me and note.written_at > said.written_at - DAY for note in thread[1:]
    )


# ------------------------------------------------------------------------------- what is asked for


def _do_command(heard: _Comment, deps: Deps, run: Run) -> Ended | CommandAnswered:
    """Do what is asked for, or say which of the operator's settings stands against it."""
    try:
        return _run_command(heard, deps, run)
    except ConfigError as error:
        log.error("note %d is not answered: %s", heard.note.note_id, error)
        return _post_answer(heard, f"Not possible as Sandpiper is set up here: {error}.", deps)


def _run_command(heard: _Comment, deps: Deps, run: Run) -> Ended | CommandAnswered:
    match heard.asked:
        case Command("status"):
            return _post_answer(heard, _write_status(heard, deps), deps)
        case Command("stop"):
            return _post_answer(heard, _stop_runs(heard, deps), deps)
        case Command("model", name):
            return _answer_with_model(heard, name, deps, run)
        case Command("forget"):
            return _post_answer(heard, _forget_merge_request(heard, deps), deps)
        case Command("unknown", written):
            word = re.sub(r"[^\w-]", "", written.split()[0])[:20] or "?"
            return _post_answer(
                heard, f"There is no command `{word}`:\n\n{_write_usage(deps)}", deps
            )
        case Command("help"):
            return _post_answer(heard, f"Write one of these lines:\n\n{_write_usage(deps)}", deps)
        case Command(name):
            return _analyze(heard, deps, run, name)
        case _:
            return _answer_question(heard, deps, run)


def _write_usage(deps: Deps) -> str:
    return comment_commands.list_commands(deps.runtime.playbook.commands())


def _answer_question(heard: _Comment, deps: Deps, run: Run) -> Ended | CommandAnswered:
    key = _find_current_session(heard, deps)
    if isinstance(key, str):
        return _post_answer(heard, key, deps)
    return _answer_in_session(heard, key, deps.runtime.redact(heard.note.body), deps, run)


def _answer_in_session(
    heard: _Comment,
    key: SessionKey,
    text: str,
    deps: Deps,
    run: Run,
    *,
    first_look: bool = False,
) -> Ended | CommandAnswered:
    ended = session.answer_reply(
        key,
        text,
        deps,
        run,
        heard.trigger,
        first_look=first_look,
        internal=heard.note.internal,
        asker=_describe_asker(heard),
    )
    if isinstance(ended, Skipped) and ended.reason == session.BEGAN_IN_PUBLIC:
        return _post_answer(heard, ended.reason, deps)
    return ended


def _describe_asker(heard: _Comment) -> str:
    """Who asks, and where, for the model."""
    note = heard.note
    user = note.author or f"user {note.author_id}"
    return prompts.tell_asker(
        user, ours=bool(heard.session), internal=note.internal, begins=heard.begins
    )


def _find_current_session(heard: _Comment, deps: Deps) -> SessionKey | str:
    """The session a comment is about, or why there is none: the thread's, else the newest one's."""
    trigger = heard.trigger
    if heard.session:
        return SessionKey(trigger.project_id, trigger.mr_iid, heard.session)
    subject = _find_failure(heard, deps)
    if isinstance(subject, str):
        return subject
    key = _make_key(heard, subject, deps)
    begun = deps.storage.sessions.latest(key) is not None or deps.queue.leases.find_holder(key, 0)
    return key if begun else _NOT_YET.format(subject.pipeline_id)


def _find_failure(heard: _Comment, deps: Deps) -> Subject | str:
    return deps.gitlab.pipelines.find(str(heard.trigger.project_id), heard.trigger.mr_iid, None)


def _make_key(
    heard: _Comment, subject: Subject, deps: Deps, command: str = "analyze"
) -> SessionKey:
    workflow = deps.runtime.playbook.for_trigger(f"command:{command}")
    return session.make_key(subject, workflow, deps, internal=heard.note.internal)


def _analyze(
    heard: _Comment, deps: Deps, run: Run, command: str = "analyze"
) -> Ended | CommandAnswered:
    """Run the workflow of the command on the newest failure, or say what became of that."""
    subject = _find_failure(heard, deps)
    if isinstance(subject, str):
        return _post_answer(heard, subject, deps)
    key = _make_key(heard, subject, deps, command)
    latest = deps.storage.sessions.latest(key)
    if latest is None:
        if deps.queue.leases.find_holder(key, 0):
            return _post_answer(
                heard, f"Pipeline {subject.pipeline_id} is being looked at now.", deps
            )
        workflow = deps.runtime.playbook.for_trigger(f"command:{command}")
        return session.analyse_failure(
            subject, workflow, deps, run, reply=heard.trigger, internal=heard.note.internal
        )
    stored = session.load_turn(key, latest, deps)
    if heard.note.note_id in stored.answered_notes:
        return Skipped(f"note {heard.note.note_id} is answered already")
    explained = _is_explained(key, latest, deps)
    if _is_failed(stored):
        return _answer_in_session(heard, key, _AGAIN, deps, run, first_look=not explained)
    if not explained:
        return _answer_in_session(heard, key, _INDEED, deps, run, first_look=True)
    return _post_answer(heard, f"{_tell_looked_at(stored)} Reply there to ask more.", deps)


def _answer_with_model(heard: _Comment, name: str, deps: Deps, run: Run) -> Ended | CommandAnswered:
    if name not in deps.runtime.choices:
        known = ", ".join(f"`{each}`" for each in deps.runtime.choices) or "no other"
        return _post_answer(heard, f"That model is not on offer here. There is: {known}.", deps)
    chosen = replace(run, model=deps.runtime.choices[name])
    key = _find_current_session(heard, deps)
    if isinstance(key, str):
        return _analyze(heard, deps, chosen)
    return _answer_in_session(heard, key, _OTHER_MODEL, deps, chosen)


def _write_status(heard: _Comment, deps: Deps) -> str:
    key = _find_current_session(heard, deps)
    if isinstance(key, str):
        return f"Nothing is running. {key}"
    latest = deps.storage.sessions.latest(key)
    turn = 0 if latest is None else latest + 1
    if deps.queue.leases.find_holder(key, turn):
        return _write_progress(key, turn, deps)
    if latest is None:
        return "Nothing is running."
    return f"Nothing is running. {_tell_looked_at(session.load_turn(key, latest, deps))}"


def _write_progress(key: SessionKey, turn: int, deps: Deps) -> str:
    data = deps.storage.sessions.read_checkpoint(key, turn)
    if data is None:
        return "At work, at the very beginning."
    spent = context_json.load_context(data).turn_usage
    minutes = (deps.runtime.clock.now() - spent.started_at) / 60
    return (
        f"At work for {minutes:.1f} minutes, with {spent.iterations} answers of the model so far."
    )


def _stop_runs(heard: _Comment, deps: Deps) -> str:
    stopped = 0
    for key in _list_sessions(heard, deps):
        latest = deps.storage.sessions.latest(key)
        turn = 0 if latest is None else latest + 1
        if deps.queue.leases.find_holder(key, turn):
            deps.storage.sessions.stop(key, turn, STOPPED)
            stopped += 1
    return "Stopping after the present step." if stopped else "Nothing is running."


def _forget_merge_request(heard: _Comment, deps: Deps) -> str:
    name = trigger_id(heard.trigger)
    done = sum(session.forget_session(key, name, deps) for key in _list_sessions(heard, deps))
    project, iid = heard.trigger.project_id, heard.trigger.mr_iid
    done += memory.forget_merge_request(project, iid, deps)
    done += retention.forget_merge_request(project, iid, deps, heard.trigger)
    if not done:
        return "Nothing is stored of this merge request."
    return "Deleted: what was said, and every file. The notes stay until somebody deletes them."


def _list_sessions(heard: _Comment, deps: Deps) -> list[SessionKey]:
    trigger = heard.trigger
    found = deps.storage.sessions.sessions(trigger.project_id, trigger.mr_iid)
    return [key for key in found if key != _make_lock_key(heard, deps)]


def _is_failed(context: Context) -> bool:
    return context.outcome is None or context.outcome.status is Status.FAILED


def _is_explained(key: SessionKey, latest: int, deps: Deps) -> bool:
    """Whether a model has explained the failure in one of the session's turns."""
    found = salvage.find_verdict(key, latest, deps)
    return found is not None and found.found_by not in (RULE, KNOWN)


def _tell_looked_at(context: Context) -> str:
    pipeline = context.subject.pipeline_id
    if contexts.is_forgotten(context):
        return f"What was found on pipeline {pipeline} was deleted."
    if _is_failed(context):
        return f"Pipeline {pipeline} could not be explained. Write `/sandpiper analyze` to retry."
    where = f": {context.note.url}" if context.note and context.note.url else ""
    return f"Pipeline {pipeline} was looked at{where}."


# -------------------------------------------------------------------------------- signs and answers


def _acknowledge_while(
    deal: Callable[[], Ended | CommandAnswered], trigger: Replied, deps: Deps
) -> Ended | CommandAnswered:
    """`deal` with a note that has a sign on it; it stays while somebody is or will be at work."""
    _change_sign(deps.gitlab.reactions.acknowledge, trigger)
    try:
        ended = deal()
    except SandpiperError as error:
        if not error.transient:
            _change_sign(deps.gitlab.reactions.forget, trigger)
        raise
    if not (isinstance(ended, Skipped) and ended.at_work):
        _change_sign(deps.gitlab.reactions.forget, trigger)
    return ended


def _change_sign(change: Callable[[int, int, int], None], trigger: Replied) -> None:
    try:
        change(trigger.project_id, trigger.mr_iid, trigger.note_id)
    except ForgeError as error:
        log.warning("no sign on note %d: %s", trigger.note_id, error)


def _post_answer(heard: _Comment, text: str, deps: Deps) -> CommandAnswered | Skipped:
    """Post a plain answer in the thread, once for each note whatever becomes of this worker."""
    trigger, name = heard.trigger, trigger_id(heard.trigger)
    place = Subject(
        deps.gitlab.url, trigger.project_id, "", trigger.mr_iid, 0, 0, "", deps.gitlab.url
    )
    marker = Marker(hashlib.sha256(f"said\n{name}".encode()).hexdigest()[:20], kind=Kind.COMMAND)
    with session.claim_turn(_make_lock_key(heard, deps), 0, name, deps) as taken:
        if isinstance(taken, Skipped):
            return taken
        if deps.gitlab.notes.find(place, marker, trigger.discussion_id):
            return Skipped(f"note {trigger.note_id} is answered already")
        body = f"{marker.text()}\n\n{neutralise(deps.runtime.redact(text), deps.gitlab.hosts)}"
        deps.gitlab.notes.post(place, body, trigger.discussion_id)
    return CommandAnswered(text)


def _make_lock_key(heard: _Comment, deps: Deps) -> SessionKey:
    """What stands in the store for "somebody is answering a command on this merge request"."""
    project, iid = heard.trigger.project_id, heard.trigger.mr_iid
    return SessionKey(
        project, iid, make_session_id(deps.gitlab.url, project, iid, 0, "say", deps.options.salt)
    )
