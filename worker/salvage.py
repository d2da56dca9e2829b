"""Stored sessions that are not whole or not there for a while: what can be said all the same."""

import logging
from dataclasses import replace

from worker.core import history
from worker.core.context import Context
from worker.core.ports import SessionKey
from worker.deps import Deps
from worker.errors import StoreError

log = logging.getLogger("sandpiper.job")

NOTHING = "this conversation's earlier turns cannot be read any more: it begins anew"


def load(key: SessionKey, turn: int, deps: Deps) -> Context:
    """A committed turn. Raises StoreError, also for one that cannot be understood."""
    try:
        return history.load(deps.store.read_context(key, turn))
    except history.HistoryError as error:
        where = deps.store.location(key, turn)
        raise StoreError(f"{where}: {error}") from error


def newest(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """The newest turn that can be read, as turn `latest`; `lost` names what cannot.

    None if none can. Raises transient StoreErrors.
    """
    lost: list[str] = []
    for turn in range(latest, -1, -1):
        try:
            stored = load(key, turn, deps)
        except StoreError as error:
            if error.transient:
                raise
            log.error("session %s: turn %d is lost: %s", key.session_id, turn, error)
            lost.append(f"turn {turn} of this conversation cannot be read any more")
        else:
            return replace(stored, turn=latest, lost=tuple(lost))
    return None


def stopped(key: SessionKey, turn: int, deps: Deps) -> str:
    """Why somebody wants the turn to end; a store that is away does not end it."""
    try:
        return deps.store.stopped(key, turn)
    except StoreError as error:
        if not error.transient:
            raise
        log.warning("session %s: %s", key.session_id, error)
        return ""
