"""Handles reactions to our notes: the current votes on a note are stored with its session.

An event only says that something has changed. The votes are read from GitLab, so that a lost, a
repeated or a forged event does no harm, and a withdrawn vote needs no special handling.
"""

import logging
from dataclasses import dataclass

from worker.conversation.context import SessionKey
from worker.conversation.events import VotesChanged, Watcher
from worker.conversation.triggers import Reacted
from worker.gitlab.ports import Votes
from worker.log import bind_log_fields
from worker.turns.memory import update_memory
from worker.turns.outcomes import update_judgement
from worker.turns.parts import Deps, Skipped
from worker.verdict import aftermath
from worker.verdict.aftermath import DOWN, MOST_VOTERS, UP, Feedback

log = logging.getLogger("sandpiper.feedback")


@dataclass(frozen=True, slots=True)
class VotesCounted:
    """The votes on a session's note as they stand now."""

    key: SessionKey
    turn: int
    feedback: Feedback


def count_votes(trigger: Reacted, deps: Deps, watch: Watcher) -> VotesCounted | Skipped:
    """Store the votes, or say why there are none to store. Raises ForgeError and StoreError."""
    votes = deps.gitlab.reactions.read_votes(trigger.project_id, trigger.mr_iid, trigger.note_id)
    if votes is None:
        return Skipped(f"note {trigger.note_id} is gone or not one of ours")
    key = SessionKey(trigger.project_id, trigger.mr_iid, votes.marker.session_id)
    with bind_log_fields(session=key.session_id):
        return _store_votes(key, votes, trigger, deps, watch)


def _store_votes(
    key: SessionKey, votes: Votes, trigger: Reacted, deps: Deps, watch: Watcher
) -> VotesCounted | Skipped:
    turn, latest = votes.marker.turn, deps.storage.sessions.find_latest_turn(key)
    if turn is None or latest is None or turn > latest:
        return Skipped(f"note {trigger.note_id} belongs to no stored turn")
    before = after = Feedback()

    def change(stored: bytes | None) -> bytes | None:
        # Read GitLab after `stored`: of two workers at once, the one with older votes must retry.
        nonlocal before, after
        before = aftermath.load_feedback(stored)
        found = deps.gitlab.reactions.read_votes(
            trigger.project_id, trigger.mr_iid, trigger.note_id
        )
        voted = sorted((found or votes).by_user.items())[:MOST_VOTERS]
        by_voter = {
            aftermath.make_pseudonym(key.session_id, user): UP if up else DOWN for user, up in voted
        }
        after = Feedback(by_voter, deps.runtime.clock.now())
        return aftermath.dump_feedback(after) if after.votes != before.votes else None

    deps.storage.sessions.change_feedback(key, turn, change)
    if after.votes != before.votes:
        watch(VotesChanged(_subtract_votes(after, before), _subtract_votes(before, after)))
        log.info("turn %d: %d 👍, %d 👎", turn, after.upvotes, after.downvotes)
        update_judgement(key, turn, deps, watch, votes_before=before)
    update_memory(key, deps)
    return VotesCounted(key, turn, after)


def _subtract_votes(ours: Feedback, theirs: Feedback) -> tuple[str, ...]:
    """Return the votes of `ours` that `theirs` does not have."""
    return tuple(
        vote for voter, vote in sorted(ours.votes.items()) if theirs.votes.get(voter) != vote
    )
