"""Reads the committed turns of a session, also of one that is damaged in part."""

import logging
from dataclasses import replace
from itertools import islice

from worker.conversation import context_json
from worker.conversation.context import Context
from worker.conversation.session_id import SessionKey
from worker.errors import StoreError
from worker.sessions.store import SessionStore
from worker.turns.parts import Deps
from worker.verdict.aftermath import Aftermath, load_aftermath

log = logging.getLogger("sandpiper.job")

ALL_LOST = "this conversation's earlier turns cannot be read any more: it begins anew"


def load_turn(store: SessionStore, key: SessionKey, turn: int) -> Context:
    """Return a committed turn. Raises StoreError, also if it cannot be decoded."""
    try:
        return context_json.load_context_of(key, store.read_context(key, turn))
    except context_json.HistoryError as error:
        raise StoreError(f"{store.describe_location(key, turn)}: {error}") from error


def read_turn(store: SessionStore, key: SessionKey, turn: int) -> Context | None:
    """Return a committed turn, None if it is damaged or missing. Raises transient StoreErrors."""
    try:
        return load_turn(store, key, turn)
    except StoreError as error:
        if error.transient:
            raise
        return None


def find_next_turn(key: SessionKey, deps: Deps) -> int:
    """Return the number of the turn after a session's last committed one; 0 if there is none."""
    latest = deps.storage.sessions.find_latest_turn(key)
    return 0 if latest is None else latest + 1


def load_newest(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the newest readable turn, as turn `latest`; its `losses` name the unreadable ones.

    Returns None if no turn is readable. Raises transient StoreErrors.
    """
    lost: list[str] = []
    for turn in range(latest, -1, -1):
        try:
            stored = load_turn(deps.storage.sessions, key, turn)
        except StoreError as error:
            if error.transient:
                raise
            log.error("session %s: turn %d is lost: %s", key.session_id, turn, error)
            lost.append(f"turn {turn} of this conversation cannot be read any more")
        else:
            return replace(stored, turn=latest, losses=tuple(lost))
    return None


MOST_FILES = 2
"""The most turns whose files may be restored: the older one if the newest one's cannot be."""

MOST_TURNS = 20
"""The most turns that are searched for files, the newest first."""


def find_files(key: SessionKey, latest: int, deps: Deps) -> tuple[int, ...]:
    """List the newest turns up to `latest` whose files are stored, the newest first.

    A turn that failed, or in which no tool was used, has left none. Raises StoreError.
    """
    turns = range(latest, max(-1, latest - MOST_TURNS), -1)
    stored = (turn for turn in turns if deps.storage.sessions.open_files(key, turn) is not None)
    return tuple(islice(stored, MOST_FILES))


def find_verdict(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the newest turn up to `latest` that has a verdict and is readable, or None.

    A verdict that was asked for in a terminal is not that of a session whose notes are in GitLab:
    nobody has seen it there. Raises transient StoreErrors.
    """
    turns = (read_turn(deps.storage.sessions, key, turn) for turn in range(latest, -1, -1))
    judged = (stored for stored in turns if stored and stored.verdict)
    return next((stored for stored in judged if stored.began_dry or not stored.dry_run), None)


def is_unexplained(key: SessionKey, stored: Context, deps: Deps, look: int = 0) -> bool:
    """Whether nothing was found in a session from the turn `look` up to `stored`, its newest one.
    Raises transient StoreErrors."""
    if not stored.has_failed:
        return False
    found = find_verdict(key, stored.turn, deps)
    return found is None or found.turn < look


def find_aftermath(store: SessionStore, key: SessionKey, turn: int, look: int) -> Aftermath | None:
    """Return what became of the failure that a turn is about, which the turn `look` was the first
    to look at; None if that is not known. Raises StoreError.

    That a pipeline passed, or a new commit came, stands with the session's first turn, and is of no
    failure that came later; that the failure came again in the same way stands with the turn whose
    verdict that has ended.
    """
    after = load_aftermath(store.read_aftermath(key, 0))
    if after and after.became != "failed_again" and look:
        first = read_turn(store, key, look)
        after = after if first and after.became_at >= first.turn_usage.started_at else None
    if turn and (after is None or after.became == "failed_again"):
        return load_aftermath(store.read_aftermath(key, turn))
    return after


def has_moved_on(key: SessionKey, deps: Deps) -> bool:
    """Whether another commit of the merge request has failed or passed since a session's turns."""
    after = load_aftermath(deps.storage.sessions.read_aftermath(key, 0))
    return after is not None and after.became in ("superseded", "fixed")


def find_newest_look(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the turn whose text stands in the session's first note: the newest up to `latest` that
    looked at a failure of the commit, or said that it came again. None if it is damaged.

    Raises transient StoreErrors.
    """
    first = read_turn(deps.storage.sessions, key, 0)
    if first is None or first.note is None:
        return first
    turns = (read_turn(deps.storage.sessions, key, turn) for turn in range(latest, 0, -1))
    same = (each for each in turns if each and each.note_text and each.note and not each.dry_run)
    own = first.note.note_id
    return next((each for each in same if each.note and each.note.note_id == own), first)


def read_stop_reason(key: SessionKey, turn: int, deps: Deps) -> str:
    """Return why somebody wants the turn to end; "" also if the store is unavailable."""
    try:
        return deps.storage.sessions.read_stop_reason(key, turn)
    except StoreError as error:
        if not error.transient:
            raise
        log.warning("session %s: %s", key.session_id, error)
        return ""
