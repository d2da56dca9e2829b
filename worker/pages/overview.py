"""Builds the operators' list of turns. Pure except for reading the rows."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from worker.core.conversation.turn_row import (
    RUNNING,
    Row,
    RowError,
    load_row_of,
    matches_project,
    parse_project_id,
)
from worker.core.ports import RecentTurns, SessionKey, SessionStore
from worker.core.ports.sessions import TurnClaims
from worker.core.text.untrusted import one_line

ROWS = 50
MAX_ROWS_READ = 400
"""The most rows that are read in search of one project's rows."""

MAX_PARKED = 10
"""The most parked triggers that the page shows."""

INTERRUPTED = "interrupted"
_STATES = (RUNNING, INTERRUPTED, "done", "partial", "failed")


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of the list: each turn's row and state, and how many turns are in each state.

    `older` is the cursor of the next page, "" if there is none.
    """

    rows: list[tuple[Row, str]]
    states: list[tuple[str, int]]
    cost: float
    project: str
    older: str
    first: bool


def build_overview(
    recent: RecentTurns,
    store: SessionStore,
    now: float,
    *,
    before: str,
    project: str,
) -> Overview:
    """List the newest turns after the cursor in projects that match `project` (id or glob)."""
    rows, older = _read_page(recent, before, project)
    shown = [(row, _find_state(row, store, now)) for row in rows]
    states = Counter(state for _, state in shown)
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Overview(
        rows=shown,
        states=[(state, states[state]) for state in _STATES if states[state]],
        cost=math.fsum(cost for cost in costs if math.isfinite(cost)),
        project=project,
        older=older,
        first=not before,
    )


def list_parked(lines: Iterable[str]) -> list[str]:
    """Return the lines about parked triggers at the top of the first page."""
    shown = [one_line(line, 300) for line in islice(lines, MAX_PARKED + 1)]
    return shown if len(shown) <= MAX_PARKED else [*shown[:MAX_PARKED], "and more"]


def _read_page(recent: RecentTurns, before: str, project: str) -> tuple[list[Row], str]:
    """Return the rows of a page, and the cursor of the next page ("" if there is none)."""
    number = parse_project_id(project)
    searched = ROWS if number or not project else MAX_ROWS_READ
    rows: list[Row] = []
    cursor, read = "", 0
    # Reading one more row than is shown reveals whether there are older ones.
    for place, data in islice(recent.list_newest(searched + 1, before, number), searched + 1):
        if len(rows) == ROWS or read == searched:
            return rows, cursor
        cursor, read = place, read + 1
        row = _parse_row(place, data)
        if row and (number or matches_project(project, row.project)):
            rows.append(row)
    return rows, ""


def _parse_row(place: str, data: bytes) -> Row | None:
    try:
        return load_row_of(place, data)
    except RowError:
        return None


def _find_state(row: Row, store: TurnClaims, now: float) -> str:
    """Return a turn's state; a running turn that the store has no holder for is interrupted."""
    if row.status != RUNNING:
        return row.status if row.status in _STATES else "failed"
    key = SessionKey(row.project_id, row.mr_iid, row.session_id)
    return RUNNING if store.find_holder(key, row.turn, now) else INTERRUPTED
