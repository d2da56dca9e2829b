"""Judges by later events whether a stored verdict was right, and stores the judgement."""

import logging
from dataclasses import replace

from worker.conversation.context import Context, SessionKey
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
    sequel = Sequel(
        verdict,
        became,
        touches_named=_touches_named(context, after) if wants_words else None,
        is_target_red=context is not None and _has_red_target(context),
        upvotes=feedback.upvotes,
        downvotes=feedback.downvotes,
        later_verdict=later_verdict,
    )
    return judge_verdict(sequel)


def _touches_named(context: Context | None, after: Aftermath | None) -> bool | None:
    if context is None or context.outcome is None or after is None or after.changed_paths is None:
        return None
    return any(path in context.outcome.text for path in after.changed_paths)


def _has_red_target(context: Context) -> bool:
    """Whether GitLab's record shows each of the errors on the target branch."""
    groups = context.survey.groups if context.survey else ()
    return bool(groups) and all(group.hard_verdict == Verdict.TARGET for group in groups)


# -------------------------------------------------------------------------------- on later events


def judge_by_later_verdict(key: SessionKey, context: Context, deps: Deps, watch: Watcher) -> None:
    """Store and count what a turn's verdict says about earlier verdicts on the same failure, unless
    it was asked for in a terminal, where nobody can confirm it. Raises nothing."""
    for turn in (
        range(context.look, context.turn) if context.verdict and not context.dry_run else ()
    ):
        update_judgement(key, turn, deps, watch, newest_verdict=context.verdict)


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
        feedback = aftermath.load_feedback(store.read_feedback(key, turn))
        after = find_aftermath(store, key, turn, context.look)
        arguments = (store, key, turn, context.verdict)
        now = _judge(*arguments, feedback, after, newest_verdict)
        if votes_before is not None and _judge(*arguments, votes_before, after, "") == now:
            return
        _store_judgement(key, context, now, deps)
    except StoreError as error:
        log.warning("session %s: its verdict is not judged: %s", key.session_id, error)
        return
    if now.label is not Label.OPEN:
        watch(VerdictJudged(context.verdict, now.label))


def _store_judgement(key: SessionKey, context: Context, judgement: Judgement, deps: Deps) -> None:
    """Write the judgement into the turn's row of the operators' list."""
    row = replace(
        recent.make_row(context, deps.runtime.redact),
        label=str(judgement.label),
        label_reason=judgement.reason,
    )
    deps.storage.recent.put_row(key, context.turn, row.started_at, recent.dump_row(row))
