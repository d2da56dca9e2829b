"""Judges by later events whether a stored verdict was right, and stores the judgement."""

import logging
from dataclasses import replace

from worker.conversation.context import OF_OTHERS, SessionKey
from worker.conversation.events import VerdictJudged, Watcher
from worker.errors import StoreError
from worker.sessions import recent
from worker.sessions.store import SessionStore
from worker.turns.parts import Deps
from worker.turns.stored_turns import find_aftermath, read_turn
from worker.verdict import aftermath
from worker.verdict.aftermath import Aftermath, Feedback, Judgement, Label, Sequel, judge_verdict
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.feedback")


def judge_turn(
    store: SessionStore, key: SessionKey, turn: int, verdict: str, later_verdict: str, look: int = 0
) -> Judgement:
    """Return whether a turn's verdict was right. Raises StoreError.

    `later_verdict` is a different verdict of a later turn on the same failure, "" if there is none;
    `look` is the turn that was the first on it. The turn itself is
    read only if its text or its survey matters.
    """
    feedback = aftermath.load_feedback(store.read_feedback(key, turn))
    after = find_aftermath(store, key, turn, look)
    return _judge(store, key, turn, verdict, feedback, after, later_verdict)


def _judge(
    store: SessionStore,
    key: SessionKey,
    turn: int,
    verdict: str,
    feedback: Feedback,
    after: Aftermath | None,
    later_verdict: str,
) -> Judgement:
    became = after.became if after else ""
    wants_words = became == "fixed" and verdict == Verdict.CHANGE
    needs_turn = wants_words or verdict == Verdict.TARGET
    context = read_turn(store, key, turn) if needs_turn else None
    groups = context.survey.groups if context and context.survey else ()
    answer = context.outcome if context else None
    paths = after.changed_paths if after else None
    touches_named = None
    if wants_words and answer is not None and paths is not None:
        touches_named = any(path in answer.text for path in paths)
    sequel = Sequel(
        verdict,
        became,
        touches_named=touches_named,
        is_target_red=bool(groups) and all(each.hard_verdict == Verdict.TARGET for each in groups),
        upvotes=feedback.upvotes,
        downvotes=feedback.downvotes,
        later_verdict=later_verdict,
    )
    return judge_verdict(sequel)


def update_judgement(
    key: SessionKey,
    turn: int,
    deps: Deps,
    watch: Watcher,
    *,
    votes_before: Feedback | None = None,
    newest_verdict: str = "",
) -> None:
    """Store and count what is known by now about a turn's verdict. Raises nothing.

    Nothing changes if the votes are all that is new, and `votes_before` said the same, or if a
    later turn has the same verdict, `newest_verdict`.
    """
    store = deps.storage.sessions
    try:
        context = read_turn(store, key, turn)
        if context is None or not context.verdict or newest_verdict == context.verdict:
            return
        if context.found_by in OF_OTHERS:  # what the branch said is judged where the branch is
            return
        feedback = aftermath.load_feedback(store.read_feedback(key, turn))
        after = find_aftermath(store, key, turn, context.look)
        arguments = (store, key, turn, context.verdict)
        now = _judge(*arguments, feedback, after, newest_verdict)
        if votes_before is not None and _judge(*arguments, votes_before, after, "") == now:
            return
        row = replace(
            recent.make_row(context, deps.runtime.redact),
            label=str(now.label),
            label_reason=now.reason,
        )
        deps.storage.recent.put_row(key, context.turn, row.started_at, recent.dump_row(row))
    except StoreError as error:
        log.warning("session %s: its verdict is not judged: %s", key.session_id, error)
        return
    if now.label is not Label.OPEN:
        watch(VerdictJudged(context.verdict, now.label))
