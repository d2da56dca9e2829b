"""Answers a comment on a merge request, if it is for us, permitted and within the daily limit.

Users without enough access get no reply, not even a reaction. A comment in an internal note is
answered there, by a separate session.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from worker.conversation import comment_commands
from worker.conversation.comment_commands import Command
from worker.conversation.context import SessionKey, Subject
from worker.conversation.limits import count_cost
from worker.conversation.questions import MOST_TOKENS, TASK, Route, read_route, route_reply
from worker.conversation.triggers import Replied, trigger_id
from worker.errors import Busy, ConfigError, ForgeError, SandpiperError
from worker.gitlab.ports import ThreadNote
from worker.jobs.commands import CommandAnswered, Comment, make_lock_key, run_command
from worker.safety.markdown import Kind, Marker, find_marker
from worker.safety.neutralise import neutralise
from worker.turns import session, stored_turns
from worker.turns.parts import Attempt, Deps, Ended, ReplyRoute, Skipped

log = logging.getLogger("sandpiper.replies")

DAY = 86_400.0


def answer_comment(trigger: Replied, deps: Deps, run: Attempt) -> Ended | CommandAnswered:
    """Answer one comment. Raises SandpiperError; `transient` ones may be handled again."""
    thread = deps.gitlab.merge_requests.read_thread(
        trigger.project_id, trigger.mr_iid, trigger.discussion_id
    )
    comment = _read_comment(trigger, thread, deps)
    if isinstance(comment, Skipped):
        return comment
    if _has_plain_answer(trigger, thread, deps.gitlab.bot.get_user_id()):
        return Skipped(f"note {trigger.note_id} is answered already")
    by_rules = (
        Route.WORK if isinstance(comment.request, Command) else route_reply(comment.note.body)
    )
    if by_rules is Route.THANKS:
        return _take_thanks(trigger, deps)
    is_stop = comment.request == Command("stop")
    used = _count_answers(thread, comment.note, deps.gitlab.bot.get_user_id())
    if used > deps.options.turns_per_day and not is_stop:
        return Skipped(f"the thread has had its {deps.options.turns_per_day} answers of the day")
    is_last = used == deps.options.turns_per_day and not is_stop
    if is_last and _has_turn(comment, deps):
        return Skipped(f"note {trigger.note_id} is answered already")
    reply = ReplyRoute(by_rules) if is_last else _ask_helper(comment, by_rules, deps)
    if reply.route is Route.THANKS:
        return _take_thanks(trigger, deps)
    run = replace(run, reply_route=reply)
    limit = CommandAnswered(
        f"This thread has had its {used} answers of the day; ask again tomorrow."
    )
    return _acknowledge_while(
        lambda: _post_answer(trigger, limit, deps) if is_last else _do_command(comment, deps, run),
        trigger,
        deps,
    )


def _take_thanks(trigger: Replied, deps: Deps) -> Skipped:
    _change_reaction(deps.gitlab.reactions.acknowledge_note, trigger)
    return Skipped("it is thanks, and asks for nothing")


def _raise_if_busy(comment: Comment, deps: Deps) -> None:
    """Raise Busy while the thread's session is at work on something else: the reply is retried
    then, and each retry would pay for a helper's answer."""
    key = comment.session
    if key is None:
        return
    held = deps.queue.leases.find_holder(key, stored_turns.find_next_turn(key, deps))
    if held and held.trigger_id != trigger_id(comment.trigger):
        _change_reaction(deps.gitlab.reactions.acknowledge_note, comment.trigger)
        raise Busy(f"session {key.session_id} is at work on something else")


def _ask_helper(comment: Comment, by_rules: Route, deps: Deps) -> ReplyRoute:
    """Return what a reply needs; if the rules are unsure and no helper answers, it is work."""
    helper, text = deps.runtime.helper, deps.runtime.redact(comment.note.body)
    if by_rules is not Route.UNSURE or helper is None:
        return ReplyRoute(Route.WORK if by_rules is Route.UNSURE else by_rules)
    _raise_if_busy(comment, deps)
    answer = helper.ask(TASK, text, MOST_TOKENS)
    if answer is None:
        return ReplyRoute()
    found = ReplyRoute(read_route(answer.text, text), (answer,))
    if found.route is Route.THANKS:
        project, note = comment.trigger.project_id, f"note {comment.note.note_id}"
        cost = count_cost(deps.runtime.limits, answer.cost_usd)
        deps.storage.budget.add_cost(project, note, 0, cost)
    return found


def _read_comment(trigger: Replied, thread: Sequence[ThreadNote], deps: Deps) -> Comment | Skipped:
    """Return the comment, or why it is not answered."""
    bot = deps.gitlab.bot.get_user_id()
    note = next((each for each in thread if each.note_id == trigger.note_id), None)
    if note is None or note.system or note.author_id == bot:
        return Skipped(f"note {trigger.note_id} is gone or not a person's")
    request = comment_commands.parse_comment(
        note.body, deps.gitlab.bot.get_user_name(), deps.runtime.playbook.commands()
    )
    first = thread[0]
    is_ours = first.author_id == bot and find_marker(first.body) is not None
    if request is None and not is_ours:
        return Skipped("the thread was not begun by Sandpiper, and the note is not addressed to it")
    if reason := deps.gitlab.permissions.explain_unserved(trigger.project_id):
        return Skipped(reason)
    if deps.gitlab.permissions.is_bot(note.author_id):
        return Skipped(f"user {note.author_id} is a bot")
    if not deps.gitlab.permissions.may_command(trigger.project_id, note.author_id):
        return Skipped(f"user {note.author_id} is below the access level that may ask")
    begins = first.body if first.author_id != bot and first.note_id != note.note_id else ""
    return Comment(trigger, note, request, _find_session(trigger, thread, bot), begins)


def _find_session(trigger: Replied, thread: Sequence[ThreadNote], bot: int) -> SessionKey | None:
    """Return the session of our newest note in the thread; other people's markers are ignored."""
    for note in reversed(thread):
        marker = find_marker(note.body) if note.author_id == bot else None
        if marker and marker.kind is not Kind.COMMAND:
            return SessionKey(trigger.project_id, trigger.mr_iid, marker.session_id)
    return None


def _count_answers(thread: Sequence[ThreadNote], comment: ThreadNote, bot: int) -> int:
    """Count our answers in the thread in the day before `comment`."""
    since = comment.written_at - DAY
    return sum(note.author_id == bot and note.written_at > since for note in thread[1:])


def _has_plain_answer(trigger: Replied, thread: Sequence[ThreadNote], bot: int) -> bool:
    """Whether a command was answered already: a repeated trigger must not act twice."""
    marker = _make_marker(trigger)
    return any(note.author_id == bot and find_marker(note.body) == marker for note in thread)


def _has_turn(comment: Comment, deps: Deps) -> bool:
    """Whether the thread's session has a turn that answers the comment."""
    key = comment.session
    latest = deps.storage.sessions.find_latest_turn(key) if key else None
    stored = None if key is None or latest is None else stored_turns.load_newest(key, latest, deps)
    return stored is not None and comment.note.note_id in stored.answered_notes


def _do_command(comment: Comment, deps: Deps, run: Attempt) -> Ended | CommandAnswered:
    """Do what is asked for, or answer which of the operator's settings prevents it."""
    try:
        ended = run_command(comment, deps, run)
    except ConfigError as error:
        log.error("note %d is not answered: %s", comment.note.note_id, error)
        ended = CommandAnswered(f"Not possible as Sandpiper is set up here: {error}.")
    return (
        _post_answer(comment.trigger, ended, deps) if isinstance(ended, CommandAnswered) else ended
    )


# ---------------------------------------------------------------------------- reactions and answers


def _acknowledge_while(
    answer: Callable[[], Ended | CommandAnswered], trigger: Replied, deps: Deps
) -> Ended | CommandAnswered:
    """Call `answer` with our reaction on the note; it stays if a worker is or will be at work."""
    _change_reaction(deps.gitlab.reactions.acknowledge_note, trigger)
    try:
        ended = answer()
    except SandpiperError as error:
        if not error.transient:
            _change_reaction(deps.gitlab.reactions.remove_acknowledgement, trigger)
        raise
    if not (isinstance(ended, Skipped) and ended.at_work):
        _change_reaction(deps.gitlab.reactions.remove_acknowledgement, trigger)
    return ended


def _change_reaction(change: Callable[[int, int, int], None], trigger: Replied) -> None:
    try:
        change(trigger.project_id, trigger.mr_iid, trigger.note_id)
    except ForgeError as error:
        log.warning("no reaction on note %d: %s", trigger.note_id, error)


def _post_answer(
    trigger: Replied, answer: CommandAnswered, deps: Deps
) -> CommandAnswered | Skipped:
    """Post a plain answer in the thread, once for each note, even if this worker dies."""
    name, marker = trigger_id(trigger), _make_marker(trigger)
    place = Subject(
        deps.gitlab.url, trigger.project_id, "", trigger.mr_iid, 0, 0, "", deps.gitlab.url
    )
    with session.claim_turn(make_lock_key(trigger, deps), 0, name, deps) as lease:
        if isinstance(lease, Skipped):
            return lease
        if deps.gitlab.notes.find_note(place, marker, trigger.discussion_id):
            return Skipped(f"note {trigger.note_id} is answered already")
        body = (
            f"{marker.text()}\n\n{neutralise(deps.runtime.redact(answer.text), deps.gitlab.hosts)}"
        )
        deps.gitlab.notes.post_note(place, body, trigger.discussion_id)
    return answer


def _make_marker(trigger: Replied) -> Marker:
    """Make the marker of the plain answer to a comment."""
    name = hashlib.sha256(f"said\n{trigger_id(trigger)}".encode()).hexdigest()
    return Marker(name[:20], kind=Kind.COMMAND)
