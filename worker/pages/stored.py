"""Reads the store for the pages. Raises StoreError; damaged objects are left out."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress

from worker.conversation import context_json
from worker.conversation.context import Context, SessionKey
from worker.errors import StoreError, Unreadable
from worker.pages.texts import INTERRUPTED
from worker.pages.view import StoredTurn
from worker.sessions.recent import RUNNING
from worker.sessions.store import SessionStore
from worker.verdict.aftermath import load_aftermath, load_feedback

MAX_TURNS = 12
"""The most turns of a session that are shown: the newest."""

MAX_CONTEXT = 24 * 1024 * 1024
"""The most bytes of a `context.json` that is parsed for a page."""


def read_turns(store: SessionStore, key: SessionKey, now: float) -> tuple[list[StoredTurn], int]:
    """Read a session's newest turns, oldest first, and the number of older ones."""
    latest = store.find_latest_turn(key)
    found = []
    first = 0 if latest is None else max(0, latest - MAX_TURNS + 1)
    for number in range(first, -1 if latest is None else latest + 1):
        with suppress(StoreError):  # a turn deleted on request is missing, the rest stays readable
            if context := _parse(key, store.read_context(key, number)):
                found.append(
                    StoredTurn(
                        context,
                        files=store.open_files(key, number) is not None,
                        feedback=load_feedback(store.read_feedback(key, number)),
                        aftermath=load_aftermath(store.read_aftermath(key, number)),
                    )
                )
    if running := _read_running(store, key, 0 if latest is None else latest + 1, now):
        found.append(running)
    return found, first


def _read_running(
    store: SessionStore, key: SessionKey, number: int, now: float
) -> StoredTurn | None:
    """Read the turn that is not committed from its last checkpoint."""
    data = None
    with suppress(Unreadable):
        data = store.read_checkpoint(key, number)
    context = _parse(key, data) if data else None
    return StoredTurn(context, find_state(store, key, number, now)) if context else None


def find_state(store: SessionStore, key: SessionKey, number: int, now: float) -> str:
    """Return whether a turn that is not committed runs, or was interrupted: nobody holds it."""
    return RUNNING if store.find_holder(key, number, now) else INTERRUPTED


def _parse(key: SessionKey, data: bytes) -> Context | None:
    if len(data) > MAX_CONTEXT:
        return None
    with suppress(context_json.HistoryError, RecursionError):
        return context_json.load_context_of(key, data)
    return None


def open_archive(store: SessionStore, key: SessionKey, number: int) -> Iterator[bytes] | None:
    """Open a turn's archive; None if it has none."""
    opened = store.open_files(key, number)
    return _stream(opened) if opened else None


def _stream(opened: AbstractContextManager[Iterator[bytes]]) -> Iterator[bytes]:
    with opened as found:
        yield from found
