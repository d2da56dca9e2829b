"""Counts what each project, and all together, cost in a UTC day, and checks the day's budgets.

spend/{project_id}/{YYYY-MM-DD}.json     dollars by turn, so that a turn recorded twice counts once
spend/0/{YYYY-MM-DD}.json                the same for all projects: none has the id 0

A turn counts when it ends, so that turns begun below the cap may take the day above it.
"""

import json
import logging
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from worker.clock import Clock
from worker.errors import StoreError
from worker.sessions.layout import name_day
from worker.sessions.objects import RECORD, Records, update_record

log = logging.getLogger("sandpiper.budget")

FOLDER = "spend/"
MOST_TURNS = 800
"""Turns of a day that are stored one by one; older ones are added up."""

EVERYTHING = 0
"""The project id that means all projects together."""

_ROUNDS = 60
_PAUSE = 0.05
"""The most seconds between two rounds; in each, one of many concurrent writers succeeds."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of one project or of all: dollars by turn, the sum of older turns, and which merge
    requests were told that the budget is used up."""

    turns: Mapping[str, float] = field(default_factory=dict)
    older: float = 0.0
    merge_requests: tuple[int, ...] = ()

    @property
    def total(self) -> float:
        """Dollars."""
        return self.older + sum(self.turns.values())


class DayBudget:
    """Limits costs to `cap` dollars a day for a project, and `total` for all; 0 is no limit.

    Methods raise StoreError.
    """

    def __init__(self, records: Records, clock: Clock, cap: float, total: float = 0.0) -> None:
        self._records, self._clock, self._cap, self._total = records, clock, cap, total

    def explain_used_up(self, project_id: int) -> str:
        """Return why nothing more may be spent on a project today, or ""."""
        of_all, of_project = self.reasons
        if self._total and self._day(EVERYTHING).total >= self._total:
            return of_all
        if self._cap and self._day(project_id).total >= self._cap:
            return of_project
        return ""

    @property
    def reasons(self) -> tuple[str, str]:
        """What `explain_used_up` may return: for all projects, and for one."""
        anew = "is used up; it begins anew at midnight UTC"
        return (
            f"today's budget of {self._total:.2f} USD for all projects {anew} "
            "(limits.cost_usd_per_day)",
            f"today's budget of {self._cap:.2f} USD for this project {anew} "
            "(limits.project_cost_usd_per_day)",
        )

    def add_cost(self, project_id: int, session: str, turn: int, dollars: float) -> None:
        """Record the total cost of a turn. If the store fails, it is just not counted."""
        caps = {EVERYTHING: self._total, project_id: self._cap}
        for counted in (which for which, cap in caps.items() if cap and dollars):
            try:
                self._change(counted, partial(_add_turn, f"{session}/{turn}", dollars))
            except StoreError as error:
                log.warning("session %s: its cost is not counted: %s", session, error)

    def record_told(self, project_id: int, mr_iid: int) -> None:
        """Record that a merge request was told today that the budget is used up."""

        def add_merge_request(day: Day) -> Day:
            others = tuple(each for each in day.merge_requests if each != mr_iid)
            return Day(day.turns, day.older, (*others, mr_iid)[-MOST_TURNS:])

        self._change(project_id, add_merge_request)

    def was_told(self, project_id: int, mr_iid: int) -> bool:
        """Whether `record_told` was called for a merge request today."""
        return mr_iid in self._day(project_id).merge_requests

    def _name(self, project_id: int) -> str:
        return f"{FOLDER}{project_id}/{name_day(self._clock.now())}.json"

    def _day(self, project_id: int) -> Day:
        stored = self._records.read(self._name(project_id), RECORD)
        return decode_day(stored.content) if stored else Day()

    def _change(self, project_id: int, change: Callable[[Day], Day]) -> None:
        update_record(
            self._records,
            self._name(project_id),
            lambda data: encode_day(change(decode_day(data) if data else Day())),
            rounds=_ROUNDS,
            wait=lambda: self._clock.sleep(random.uniform(0, _PAUSE)),
        )


def _add_turn(name: str, dollars: float, day: Day) -> Day:
    turns = {**day.turns, name: dollars}
    kept = dict(list(turns.items())[-MOST_TURNS:])
    older = sum(cost for name, cost in turns.items() if name not in kept)
    return Day(kept, day.older + older, day.merge_requests)


def encode_day(day: Day) -> bytes:
    """Return the bytes of a record."""
    return json.dumps(
        {"turns": dict(day.turns), "older": day.older, "told": day.merge_requests}
    ).encode()


def decode_day(content: bytes) -> Day:
    """Return the day in a record; a damaged one has no costs."""
    try:
        fields = json.loads(content)
        turns = {str(name): _dollars(cost) for name, cost in fields["turns"].items()}
        merge_requests = tuple(each for each in fields["told"] if isinstance(each, int))
        return Day(turns, _dollars(fields["older"]), merge_requests)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return Day()


def _dollars(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ValueError("not dollars")
    return float(value)
