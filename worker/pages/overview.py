"""Builds the operators' list of turns. Pure except for reading the rows and the clock."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from urllib.parse import urlencode

from worker.conversation.context import SessionKey
from worker.pages.stored import find_state
from worker.pages.texts import DRY_RUN, GIVEN_UP, STATES, VERDICTS
from worker.safety.untrusted import one_line
from worker.sessions.recent import (
    RUNNING,
    RecentTurns,
    Row,
    RowError,
    load_row_of,
    matches_project,
    parse_project_id,
)
from worker.sessions.store import SessionStore

ROWS = 50

MAX_ROWS_READ = 10_000
"""The most rows that are read in search of a page's rows."""

SEARCH_SECONDS = 1.5
"""Seconds after which a search ends, so that a slow store answers too; a page of rows is always
read."""

RUNNING_SECONDS = 3600.0
"""Turns that began in the last so many seconds are looked at in search of running ones."""

MAX_PARKED = 10
"""The most parked triggers that the page shows."""

CURSOR = "before"
"""The cursor's name in an address."""

_CURSOR = re.compile(r"[0-9a-f-]{0,160}", re.ASCII)
_MOST_WORDS = 10

State = tuple[Row, str]
"""A turn's row and its state."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which turns are asked for: all that match each of the fields that is not "".

    `cursor` is that of a page, `project` an id, a path or a glob, `verdict` and `state` keys
    of VERDICTS and STATES; each word of `text` has to be in the row.
    """

    cursor: str = ""
    project: str = ""
    verdict: str = ""
    state: str = ""
    text: str = ""

    @property
    def is_filter(self) -> bool:
        """Whether some turns are left out."""
        return bool(self.project or self.verdict or self.state or self.text)

    def link(self, **changes: str) -> str:
        """Return the address of the same query with changes, relative to the list."""
        fields = {**asdict(self), "cursor": "", **changes}
        named = {CURSOR if name == "cursor" else name: fields[name] for name in fields}
        return "?" + urlencode({name: value for name, value in named.items() if value})

    def matches(self, row: Row) -> bool:
        """Whether a row matches everything but the state."""
        return (
            (not self.verdict or row.verdict == self.verdict)
            and (parse_project_id(self.project) > 0 or matches_project(self.project, row.project))
            and self._matches_text(row)
        )

    def matches_state(self, row: Row, state: str) -> bool:
        """Whether a row in this state is asked for."""
        return self.state in ("", state) or (self.state == DRY_RUN and row.dry_run)

    def _matches_text(self, row: Row) -> bool:
        if not self.text:
            return True
        number = f"{row.project}!{row.mr_iid}"
        names = (row.title, row.author, number, row.jobs, row.cause, row.session_id, row.model)
        content = "\n".join((*names, str(row.pipeline_id))).casefold()
        return all(word in content for word in self.text.casefold().split()[:_MOST_WORDS])


def parse_query(read: Callable[[str], str]) -> Query | None:
    """Make the query from what `read` returns for each name; None for an impossible cursor.

    Unknown verdicts and states are as none.
    """
    if not _CURSOR.fullmatch(cursor := read(CURSOR)):
        return None
    verdict, state = read("verdict"), read("state")
    return Query(
        cursor=cursor,
        project=one_line(read("project"), 200),
        verdict=verdict if verdict in {str(each) for each in VERDICTS} else "",
        state=state if state in STATES else "",
        text=one_line(read("text"), 100),
    )


@dataclass(slots=True)
class Overview:
    """A page of the list; turns that run stand on the first one, in `running_rows`.

    `older` is the cursor of the next page, "" if there is none. The search for matching rows ended
    at `searched_to` (epoch seconds); with `is_cut` before the page was full.
    """

    query: Query
    running_rows: list[State] = field(default_factory=list)
    rows: list[State] = field(default_factory=list)
    older: str = ""
    is_cut: bool = False
    searched_to: float = 0.0

    @property
    def first(self) -> bool:
        """Whether it is the first page."""
        return not self.query.cursor

    @property
    def verdicts(self) -> Mapping[str, str]:
        """The verdicts that can be asked for, in words."""
        return {str(verdict): words for verdict, words in VERDICTS.items()}

    @property
    def states(self) -> Mapping[str, str]:
        """The states that can be asked for, in words."""
        return STATES


def build_overview(
    recent: RecentTurns,
    store: SessionStore,
    now: float,
    query: Query,
    tick: Callable[[], float] = time.monotonic,
) -> Overview:
    """List the newest turns that match the query; on the first page those that run come first."""
    page, cursor, end = Overview(query), "", tick() + SEARCH_SECONDS
    for read, (place, row) in enumerate(_read_rows(recent, query)):
        is_full = len(page.rows) == ROWS
        seeks_running = page.first and row is not None and row.started_at > now - RUNNING_SECONDS
        is_late = read >= MAX_ROWS_READ or (read >= ROWS and tick() > end)
        if (is_full and not seeks_running) or is_late:
            page.older, page.is_cut = cursor, not is_full
            break
        if row and query.matches(row):
            state = _find_state(row, store, now)
            if query.matches_state(row, state):
                if page.first and state == RUNNING:
                    page.running_rows.append((row, state))
                elif not is_full:
                    page.rows.append((row, state))
                else:
                    page.older = cursor
        if not is_full:
            cursor, page.searched_to = place, row.started_at if row else page.searched_to
    return page


def list_parked(lines: Iterable[str]) -> list[str]:
    """Return the lines about parked triggers at the top of the first page."""
    shown = [one_line(line, 300) for line in islice(lines, MAX_PARKED + 1)]
    return shown if len(shown) <= MAX_PARKED else [*shown[:MAX_PARKED], "and more"]


def _read_rows(recent: RecentTurns, query: Query) -> Iterator[tuple[str, Row | None]]:
    """Yield the cursors and rows after the query's cursor, None for what is no row."""
    number = parse_project_id(query.project)
    for place, data in recent.list_newest(MAX_ROWS_READ + 1, query.cursor, number):
        try:
            yield place, load_row_of(place, data)
        except RowError:
            yield place, None


def _find_state(row: Row, store: SessionStore, now: float) -> str:
    """Return a turn's state; a running turn that the store has no holder for is interrupted."""
    if row.status == RUNNING:
        key = SessionKey(row.project_id, row.mr_iid, row.session_id)
        return find_state(store, key, row.turn, now)
    if row.given_up:
        return GIVEN_UP
    return row.status if row.status in STATES else "failed"
