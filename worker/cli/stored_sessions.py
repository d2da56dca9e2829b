"""Stored sessions: found by time, project or id, as rows of a list, and as a shell completes them.

While a shell completes, nothing is offered, and nothing said, where there are no settings, or the
store does not answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, islice, repeat
from typing import Any

import click
from click.shell_completion import CompletionItem

from worker import wiring
from worker.conversation.context import Context, SessionKey
from worker.errors import SandpiperError, StoreError
from worker.safety.untrusted import one_line
from worker.sessions import recent
from worker.sessions.recent import RecentTurns
from worker.sessions.store import SessionStore
from worker.settings import Settings
from worker.turns.stored_turns import load_turn, read_turn

_SEARCHED = 10_000
"""The most turns that are read, newest first."""

Row = dict[str, Any]
"""One session as `--json` shows it."""


def find_verdict(turns: Sequence[Context]) -> str:
    """Return the newest verdict of a session's turns, the oldest of which is the first; or ""."""
    return next((each.verdict for each in reversed(turns) if each.verdict), "")


Listed = tuple[SessionKey, recent.Row | None]
"""A session, and the row of its newest turn in the list of turns, if it is there."""


def read_rows(store: SessionStore, listed: Iterable[Listed], path: str = "") -> Iterator[Row]:
    """Yield a row for each session with a committed turn, or one at work, in projects that match
    `path`.

    A session that cannot be read has a row with the reason. Raises transient StoreErrors.
    """
    for key, newest in listed:
        is_running = newest is not None and newest.status == recent.RUNNING
        try:
            latest = store.find_latest_turn(key)
            context = None if latest is None else load_turn(store, key, latest)
        except StoreError as error:
            if error.transient:
                raise
            known = {"session": key.session_id, "mr": f"{key.project_id}!{key.place}"}
            nothing = dict.fromkeys(("pipeline", "turns", "model", "cost_usd", "date"))
            empty = {"verdict": "", "title": "", "dry_run": False, "url": ""}
            yield {**known, **nothing, **empty, "status": "damaged", "reason": str(error)}
            continue
        if context is None:
            if newest is not None and is_running and recent.matches_project(path, newest.project):
                yield _make_running_row(newest)
        elif recent.matches_project(path, context.subject.project):
            verdict = context.verdict
            # The newest look at the failure has one if a reply does not.
            if (
                not verdict
                and not context.is_look
                and (look := read_turn(store, key, context.look))
            ):
                verdict = look.verdict
            row = _make_row(key, context, verdict)
            is_ahead = newest is not None and newest.turn > context.turn
            yield row | {"status": recent.RUNNING} if is_running and is_ahead else row


def find_sessions(
    store: SessionStore, turns: RecentTurns, project: str = "", *, everything: bool = False
) -> Iterator[Listed]:
    """Yield each session once: first those of the newest turns, then all other stored ones.

    Only the list of turns has the projects' paths. With a path, the other sessions are therefore
    left out unless `everything` is set.
    """
    number, seen = recent.parse_project_id(project), set[SessionKey]()
    listed = list_by_turns(turns, number, "" if number else project)
    others = store.list_sessions(number) if everything or number or not project else ()
    for key, row in chain(listed, zip(others, repeat(None))):
        if key not in seen:
            seen.add(key)
            yield key, row


def list_by_turns(
    turns: RecentTurns, number: int, path: str
) -> Iterator[tuple[SessionKey, recent.Row]]:
    """Yield the newest turns of the project with this id, 0 for all, whose path matches."""
    for place, data in turns.list_newest(_SEARCHED, project_id=number):
        with suppress(recent.RowError):
            row = recent.load_row_of(place, data)
            if recent.matches_project(path, row.project):
                yield row.key, row


def find_latest(store: SessionStore, session: str) -> tuple[SessionKey, int]:
    """Return the key and the newest turn of the session with this id or unique id prefix.

    Raises SandpiperError or StoreError.
    """
    key = store.find_session(session)
    latest = store.find_latest_turn(key) if key else None
    if key is None or latest is None:
        raise SandpiperError(f"there is no session {session!r}; see `sandpiper sessions list`")
    return key, latest


def _make_row(key: SessionKey, context: Context, verdict: str) -> Row:
    subject = context.subject
    return {
        "session": key.session_id,
        "mr": subject.name,
        "pipeline": subject.pipeline_id,
        "turns": context.turn + 1,
        "status": context.outcome.status.value if context.outcome else "unknown",
        "model": context.model,
        "cost_usd": context.cost_usd,
        "date": format_time(context.turn_usage.started_at),
        "verdict": verdict,
        "title": subject.title,
        "dry_run": context.began_dry,
        "url": subject.web_url,
    }


def _make_running_row(row: recent.Row) -> Row:
    return {
        "session": row.session_id,
        "mr": row.name,
        "pipeline": row.pipeline_id,
        "turns": row.turn,
        "status": row.status,
        "model": row.model,
        "cost_usd": row.cost_usd,
        "date": format_time(row.started_at),
        "verdict": row.verdict,
        "title": row.title,
        "dry_run": row.began_dry,
        "url": row.web_url,
    }


def format_time(at: float) -> str:
    """Write epoch seconds as UTC; "" for what is no time, as a stored number may be."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


_MOST = 50
"""The most ids that are offered, the newest first."""

_LONGEST = 60


def complete_session(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest sessions, each with its merge request."""
    found: list[CompletionItem] = []
    with suppress(SandpiperError, OSError):
        store = wiring.open_session_store(_load_settings(context))
        listed = find_sessions(store, store.recent_turns)
        offered = (each for each in listed if each[0].session_id.startswith(incomplete))
        for key, row in islice(offered, _MOST):
            about = f"{row.name} {row.title}" if row else ""
            found.append(CompletionItem(key.session_id, help=one_line(about, _LONGEST) or None))
    return found


def complete_model(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the models that the settings name."""
    names: set[str] = set()
    with suppress(SandpiperError, OSError):
        names |= {each.spec for each in wiring.list_chosen_models(_load_settings(context))}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _load_settings(context: click.Context) -> Settings:
    # While a shell completes, no command runs that would hand on what --config says.
    return wiring.load_settings(context.find_root().params.get("config"), quiet=True)
