"""One function for each request in a comment.

It returns how a turn ended, or the text of an answer; a NotDone is an answer, too.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from worker.conversation import comment_commands, prompts
from worker.conversation.comment_commands import Command, CommentRequest
from worker.conversation.context import (
    WITHOUT_MODEL,
    Context,
    SessionKey,
    Subject,
    make_session_id,
)
from worker.conversation.tiers import TierModel
from worker.conversation.triggers import PipelineFailed, Replied, trigger_id
from worker.errors import Busy, Unreadable
from worker.gitlab.ports import ThreadNote
from worker.jobs import retention
from worker.jobs.model_commands import (
    LIST,
    NOT_ALLOWED,
    Asker,
    NotDone,
    change_models,
    change_tier,
    describe_tier,
    find_model,
    may_use_model,
)
from worker.jobs.pipeline import find_looked_at
from worker.settings.models import TIERS
from worker.turns import contexts, memory, session, stored_turns
from worker.turns.parts import Attempt, Deps, Ended, Skipped

STOPPED = "stopped on request"

_NOT_YET = "Pipeline {} has not been looked at yet. Write `/sandpiper analyze` to start."
_UNREADABLE = "What was found cannot be read any more. Write `/sandpiper analyze` to begin anew."

_WAITS = "A run has begun and is not finished; nothing is at work on it now."
_RECOVERY_SECONDS = 120.0
"""In less time another worker continues what a dead one left."""
_REMOVED = "This conversation is not stored any more. Write `/sandpiper analyze` to start anew."
_NOTHING_STORED = "Nothing is stored of this merge request now."


@dataclass(frozen=True, slots=True)
class Comment:
    """A note addressed to us, by somebody who may ask.

    `session` is that of our newest note in its thread, None if there is none. `begins` is the text
    of the thread's first note if other people began the thread.
    """

    trigger: Replied
    note: ThreadNote
    request: CommentRequest | None
    session: SessionKey | None
    begins: str = ""


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """A command was answered with a plain note."""

    text: str


def run_command(comment: Comment, deps: Deps, run: Attempt) -> Ended | CommandAnswered:
    """Do what a comment asks for. Raises SandpiperError."""
    try:
        match comment.request:
            case Command(name, argument) if name in COMMANDS:
                ended = COMMANDS[name](comment, argument, deps, run)
            case Command(name):
                ended = _run_workflow(comment, name, deps, run)
            case _:
                key, text = _find_session(comment, deps), deps.runtime.redact(comment.note.body)
                ended = _answer_in_session(comment, key, text, deps, run)
    except NotDone as reason:
        return CommandAnswered(str(reason))
    return CommandAnswered(ended) if isinstance(ended, str) else ended


def _explain_unknown(comment: Comment, written: str, deps: Deps, run: Attempt) -> str:
    word = re.sub(r"[^\w-]", "", written.split()[0])[:20] or "?"
    return f"There is no command `{word}`:\n\n{_write_usage(deps)}"


def _list_commands(comment: Comment, argument: str, deps: Deps, run: Attempt) -> str:
    return f"Write one of these lines:\n\n{_write_usage(deps)}"


def _write_usage(deps: Deps) -> str:
    return comment_commands.list_commands(deps.runtime.playbook.commands())


def _run_workflow(comment: Comment, command: str, deps: Deps, run: Attempt) -> Ended | str:
    """Run the command's workflow on the newest failure, or answer with that failure's state."""
    subject = _find_failure(comment, deps)
    key = _find_key(comment, subject, deps, command)
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is not None:
        return _look_again(comment, key, latest, deps, run)
    if deps.queue.leases.find_holder(key, 0):
        return f"Pipeline {subject.pipeline_id} is being looked at now."
    workflow = deps.runtime.playbook.for_trigger(f"command:{command}")
    ran = PipelineFailed(subject.pipeline_project_id, subject.pipeline_id, subject.sha, "")
    return session.analyse_failure(
        subject,
        workflow,
        deps,
        run,
        reply=comment.trigger,
        internal=comment.note.internal,
        ended_at=deps.gitlab.pipelines.find_end_time(ran),
    )


def _look_again(
    comment: Comment, key: SessionKey, latest: int, deps: Deps, run: Attempt
) -> Ended | str:
    stored = stored_turns.load_newest(key, latest, deps)
    if stored is None:
        return _answer_in_session(comment, key, prompts.LOOK_AGAIN, deps, run, first_look=True)
    if comment.note.note_id in stored.answered_notes:
        session.complete_analysis(key, deps)
        return Skipped(f"note {comment.note.note_id} is answered already")
    found = stored_turns.find_verdict(key, latest, deps)
    explained = found is not None and found.found_by not in WITHOUT_MODEL  # by a model
    if stored.has_failed:
        return _answer_in_session(
            comment, key, prompts.LOOK_AGAIN, deps, run, first_look=not explained
        )
    if not explained:
        return _answer_in_session(comment, key, prompts.LOOK, deps, run, first_look=True)
    return f"{_describe_analysis(stored)} Reply there to ask more."


def _change_tier(comment: Comment, argument: str, deps: Deps, run: Attempt) -> str:
    return change_tier(_make_asker(comment), argument, deps)


def _change_model(comment: Comment, argument: str, deps: Deps, run: Attempt) -> Ended | str:
    """Change the models, or have the failure looked at with the one that is named."""
    words, asker = argument.split(), _make_asker(comment)
    if len(words) != 1 or words[0].lower() in (LIST, *TIERS):
        return change_models(asker, argument, deps)
    name = find_model(words[0], deps)
    if not may_use_model(asker, name, deps):
        return NOT_ALLOWED
    model = deps.runtime.choices.get(name) or partial(deps.runtime.make_model, TierModel(name))
    chosen = replace(run, model=model)
    try:
        key = _find_session(comment, deps)
    except NotDone:
        return _run_workflow(comment, "analyze", deps, chosen)
    return _answer_in_session(comment, key, prompts.LOOK_WITH_FRESH_EYES, deps, chosen)


def _make_asker(comment: Comment) -> Asker:
    trigger = comment.trigger
    return Asker(trigger.project_id, trigger.mr_iid, comment.note.author_id)


def _write_status(comment: Comment, argument: str, deps: Deps, run: Attempt) -> str:
    tier = describe_tier(_make_asker(comment), deps)
    return "\n\n".join(filter(None, (_describe_state(comment, deps), tier)))


def _describe_state(comment: Comment, deps: Deps) -> str:
    try:
        key = _find_session(comment, deps)
    except NotDone as reason:
        waits = any(_has_checkpoint(each, 0, deps) for each in _list_unfinished(comment, deps))
        return _WAITS if waits else f"Nothing is running. {reason}"
    turn = stored_turns.find_next_turn(key, deps)
    if deps.queue.leases.find_holder(key, turn):
        return _write_progress(key, turn, deps)
    if _has_checkpoint(key, turn, deps):
        return _WAITS
    if turn == 0:
        return "Nothing is running."
    stored = stored_turns.load_newest(key, turn - 1, deps)
    return f"Nothing is running. {_describe_analysis(stored) if stored else _UNREADABLE}"


def _write_progress(key: SessionKey, turn: int, deps: Deps) -> str:
    try:
        context = contexts.read_unfinished(key, turn, deps)
    except Unreadable:
        context = None
    if context is None:
        return "At work, at the very beginning."
    spent = context.turn_usage
    minutes = (deps.runtime.clock.now() - spent.started_at) / 60
    return (
        f"At work for {minutes:.1f} minutes, with {spent.iterations} answers of the model so far."
    )


def _stop_runs(comment: Comment, argument: str, deps: Deps, run: Attempt) -> str:
    stopped = 0
    for key in _list_sessions(comment, deps):
        turn = stored_turns.find_next_turn(key, deps)
        if deps.queue.leases.find_holder(key, turn) or _has_checkpoint(key, turn, deps):
            deps.storage.sessions.request_stop(key, turn, STOPPED)
            stopped += 1
    return "Stopping after the present step." if stopped else "Nothing is running."


def _forget_merge_request(comment: Comment, argument: str, deps: Deps, run: Attempt) -> str:
    name, unfinished = trigger_id(comment.trigger), _list_unfinished(comment, deps)
    # First turns end first, so that what they commit is deleted too.
    at_work = [key for key in unfinished if deps.queue.leases.find_holder(key, 0)]
    for key in at_work:
        deps.storage.sessions.request_stop(key, 0, STOPPED)
    if at_work:
        raise Busy(f"session {at_work[0].session_id} is still at its first turn")
    for key in unfinished:
        session.end_first_turn(key, name, deps, replace(run, give_up_reason=STOPPED))
    removed = sum(session.forget_session(key, name, deps) for key in _list_sessions(comment, deps))
    project, iid = comment.trigger.project_id, comment.trigger.mr_iid
    removed += memory.forget_merge_request(project, iid, deps)
    removed += deps.storage.sessions.preferences.remove(project, iid)
    removed += retention.forget_merge_request(project, iid, deps, comment.trigger)
    # An earlier attempt may have deleted it and died before it could answer.
    answer = "Deleted: what was said, and every file." if removed else _NOTHING_STORED
    return f"{answer} The notes stay until somebody deletes them."


COMMANDS: Mapping[str, Callable[[Comment, str, Deps, Attempt], Ended | str]] = MappingProxyType(
    {
        "status": _write_status,
        "stop": _stop_runs,
        "model": _change_model,
        "tier": _change_tier,
        "forget": _forget_merge_request,
        "help": _list_commands,
        "unknown": _explain_unknown,
    }
)
"""The function of each command; any other name is a workflow's command."""


# ---------------------------------------------------------------------------------------- sessions


def _answer_in_session(
    comment: Comment,
    key: SessionKey,
    text: str,
    deps: Deps,
    run: Attempt,
    *,
    first_look: bool = False,
) -> Ended:
    _require_session(comment, key, deps)
    note = comment.note
    asker = prompts.tell_asker(
        note.author or f"user {note.author_id}",
        ours=bool(comment.session),
        internal=note.internal,
        begins=comment.begins,
    )
    internal = note.internal
    ended = session.answer_reply(
        key, text, deps, run, comment.trigger, first_look=first_look, internal=internal, asker=asker
    )
    if isinstance(ended, Skipped) and ended.reason == session.BEGAN_IN_PUBLIC:
        raise NotDone(ended.reason)
    return ended


def _require_session(comment: Comment, key: SessionKey, deps: Deps) -> None:
    """Raise NotDone if a session cannot be replied to, Busy if it soon can: its worker has died,
    perhaps after it posted the note that is replied to."""
    if _has_begun(key, deps):
        return
    if not _has_checkpoint(key, 0, deps):
        raise NotDone(_REMOVED)
    # A time that lies far ahead, as owners of a project can set it, must not make it wait for ever.
    if abs(deps.runtime.clock.now() - comment.note.written_at) < _RECOVERY_SECONDS:
        raise Busy(f"session {key.session_id} waits for another worker")
    raise NotDone(_WAITS)


def _has_begun(key: SessionKey, deps: Deps) -> bool:
    """Whether a session has a committed turn, or a worker is at its first one."""
    return bool(stored_turns.find_next_turn(key, deps) or deps.queue.leases.find_holder(key, 0))


def _has_checkpoint(key: SessionKey, turn: int, deps: Deps) -> bool:
    """Whether an uncommitted turn has a checkpoint, from which its trigger will continue it."""
    try:
        return deps.storage.sessions.read_checkpoint(key, turn) is not None
    except Unreadable:
        return True


def _find_session(comment: Comment, deps: Deps) -> SessionKey:
    """Return the thread's session, else the newest failure's. Raises NotDone if there is none."""
    if comment.session:
        return comment.session
    subject = _find_failure(comment, deps)
    key = _find_key(comment, subject, deps)
    if not _has_begun(key, deps):
        raise NotDone(_NOT_YET.format(subject.pipeline_id))
    return key


def _find_failure(comment: Comment, deps: Deps) -> Subject:
    """Return the merge request's newest failed pipeline. Raises NotDone if there is none."""
    project, iid = comment.trigger.project_id, comment.trigger.mr_iid
    subject = deps.gitlab.pipelines.find_named_subject(str(project), iid, None)
    if isinstance(subject, str):
        raise NotDone(subject)
    return subject


def _find_key(
    comment: Comment, subject: Subject, deps: Deps, command: str = "analyze"
) -> SessionKey:
    """Return the session of a failed pipeline: its own, or if an earlier one of the commit has
    looked at it as well, that one."""
    workflow = deps.runtime.playbook.for_trigger(f"command:{command}")
    key = stored_turns.make_key(subject, workflow, deps, internal=comment.note.internal)
    if _has_begun(key, deps) or comment.note.internal:
        return key
    looked = find_looked_at(subject, workflow, deps)
    latest = deps.storage.sessions.find_latest_turn(looked) if looked else None
    stored = looked and stored_turns.load_newest(looked, latest or 0, deps)
    is_about = stored and stored.subject.pipeline_id == subject.pipeline_id
    return looked if looked and is_about else key


def _list_sessions(comment: Comment, deps: Deps) -> list[SessionKey]:
    trigger = comment.trigger
    found = deps.storage.sessions.list_sessions(trigger.project_id, trigger.mr_iid)
    return [key for key in found if key != make_lock_key(trigger, deps)]


def _list_unfinished(comment: Comment, deps: Deps) -> list[SessionKey]:
    """List the merge request's sessions whose first turn is not committed."""
    found = _list_sessions(comment, deps)
    return [key for key in found if deps.storage.sessions.find_latest_turn(key) is None]


def make_lock_key(trigger: Replied, deps: Deps) -> SessionKey:
    """Return the session key that is claimed while a command on this merge request is answered."""
    project, iid = trigger.project_id, trigger.mr_iid
    return SessionKey(
        project, iid, make_session_id(deps.gitlab.url, project, iid, 0, "say", deps.options.salt)
    )


def _describe_analysis(context: Context) -> str:
    pipeline = context.subject.pipeline_id
    if contexts.is_forgotten(context):
        return f"What was found on pipeline {pipeline} was deleted."
    if context.has_failed:
        return f"Pipeline {pipeline} could not be explained. Write `/sandpiper analyze` to retry."
    where = f": {context.note.url}" if context.note and context.note.url else ""
    return f"Pipeline {pipeline} was looked at{where}."
