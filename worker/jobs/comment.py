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
    answered = Skipped(f"note {trigger.note_id} is answered already")
    bot, marker = deps.gitlab.bot.get_user_id(), _make_marker(trigger)
    if any(note.author_id == bot and find_marker(note.body) == marker for note in thread):
        return answered  # by a command: a repeated trigger must not act twice
    by_rules = (
        Route.WORK if isinstance(comment.request, Command) else route_reply(comment.note.body)
    )
    if by_rules is Route.THANKS:
        return _take_thanks(trigger, deps)
    is_stop = comment.request == Command("stop")
    since = comment.note.written_at - DAY
    used = sum(note.author_id == bot and note.written_at > since for note in thread[1:])
    if used > deps.options.turns_per_day and not is_stop:
        return Skipped(f"the thread has had its {deps.options.turns_per_day} answers of the day")
    is_last = used == deps.options.turns_per_day and not is_stop
    if is_last:
        key = comment.session
        latest = deps.storage.sessions.find_latest_turn(key) if key else None
        if key and latest is not None:
            stored = stored_turns.load_newest(key, latest, deps)
            if stored and trigger.note_id in stored.answered_notes:
                return answered
        text = f"This thread has had its {used} answers of the day; ask again tomorrow."
        return _answer(comment, CommandAnswered(text), deps, run)
    reply = _ask_helper(comment, by_rules, deps)
    if reply.route is Route.THANKS:
        return _take_thanks(trigger, deps)
    return _answer(comment, None, deps, replace(run, reply_route=reply))


def _take_thanks(trigger: Replied, deps: Deps) -> Skipped:
    _change_reaction(deps.gitlab.reactions.acknowledge_note, trigger)
    return Skipped("it is thanks, and asks for nothing")


def _ask_helper(comment: Comment, by_rules: Route, deps: Deps) -> ReplyRoute:
    """Return what a reply needs; if the rules are unsure and no helper answers, it is work."""
    helper, text = deps.runtime.helper, deps.runtime.redact(comment.note.body)
    if by_rules is not Route.UNSURE or helper is None:
        return ReplyRoute(Route.WORK if by_rules is Route.UNSURE else by_rules)
    key = comment.session
    next_turn = stored_turns.find_next_turn(key, deps) if key else 0
    held = deps.queue.leases.find_holder(key, next_turn) if key else None
    if key and held and held.trigger_id != trigger_id(comment.trigger):
        # The reply is retried then, and each retry would pay for a helper's answer.
        _change_reaction(deps.gitlab.reactions.acknowledge_note, comment.trigger)
        raise Busy(f"session {key.session_id} is at work on something else")
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
    # Other people's markers are ignored.
    found = (find_marker(each.body) for each in reversed(thread) if each.author_id == bot)
    newest = next((each for each in found if each and each.kind is not Kind.COMMAND), None)
    key = SessionKey(trigger.project_id, trigger.mr_iid, newest.session_id) if newest else None
    return Comment(trigger, note, request, key, begins)


# ---------------------------------------------------------------------------- reactions and answers


def _answer(
    comment: Comment, answer: CommandAnswered | None, deps: Deps, run: Attempt
) -> Ended | CommandAnswered:
    """Post `answer`, or do what is asked for, or answer which of the operator's settings prevents
    that. Our reaction is on the note meanwhile; it stays if a worker is or will be at work."""
    trigger = comment.trigger
    _change_reaction(deps.gitlab.reactions.acknowledge_note, trigger)
    try:
        try:
            ended = answer or run_command(comment, deps, run)
        except ConfigError as error:
            log.error("note %d is not answered: %s", trigger.note_id, error)
            ended = CommandAnswered(f"Not possible as Sandpiper is set up here: {error}.")
        if isinstance(ended, CommandAnswered):
            ended = _post_answer(trigger, ended, deps)
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
