"""What is known of the projects' tests, day by day, in a store.

tests/{project_id}/{YYYY-MM-DD}.json    a DayRecord
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from worker.ledger.record import DayRecord
from worker.ledger.record_json import MAX_DAY, RecordError, dump_day, load_day
from worker.sessions.checked import KEPT
from worker.sessions.layout import TESTS, name_day, name_tests, parse_tests
from worker.sessions.objects import Objects
from worker.sessions.parsed import Kind, ParsedRecords

_READERS = 8
"""How many days are read at the same time: a bucket answers each of them after a while."""

_MOST_DAMAGED = 4
"""In how many days of a project, at most, its path is looked for."""


class LedgerStore:
    """The days' records of tests in a store. All methods raise StoreError.

    A day is YYYY-MM-DD, in UTC. One that is damaged is read as None, and logged; whoever would
    change it has to wait (Unreadable) until a second look sets it aside. What is `read_only` stores
    nothing, for dry runs: a change is computed and returned.
    """

    def __init__(
        self,
        objects: Objects,
        now: Callable[[], float] = time.time,
        *,
        read_only: bool = False,
    ) -> None:
        self._objects, self._read_only = objects, read_only
        self._records = ParsedRecords(objects, now, read_only=read_only)

    def read_day(self, project_id: int, day: str) -> DayRecord | None:
        """Read what is known of a project's tests on a day, or None."""
        return self._records.read(name_tests(project_id, day), _DAY)

    def change_day(
        self, project_id: int, day: str, change: Callable[[DayRecord | None], DayRecord | None]
    ) -> DayRecord | None:
        """Replace what is known of a day by what `change` returns; None stands for nothing.

        Atomic across workers: `change` is called again if another one was faster. Returns what now
        stands. Raises RecordError if `change` returns the record of another day or project.
        """
        return self._records.change(name_tests(project_id, day), _DAY, change)

    def read_days(self, project_id: int, since: float) -> tuple[DayRecord, ...]:
        """Read a project's days from that of `since` (epoch seconds) on, the oldest first."""
        first = name_day(max(since, 0.0))
        days = [day for _, day in self.list_days(project_id) if day >= first]
        with ThreadPoolExecutor(_READERS, "ledger") as readers:
            return tuple(filter(None, readers.map(partial(self.read_day, project_id), days)))

    def find_projects(self, project_id: int = 0) -> dict[int, str]:
        """Return the paths of the projects of which something is known, or that of one project:
        those with the newest day first, and each as the newest readable day has it."""
        days: dict[int, list[str]] = {}
        for number, day in reversed(self.list_days(project_id)):
            days.setdefault(number, []).append(day)

        def find_path(number: int) -> tuple[int, str] | None:
            read = (self.read_day(number, day) for day in days[number][:_MOST_DAMAGED])
            found = next(filter(None, read), None)
            return (number, found.project) if found else None

        with ThreadPoolExecutor(_READERS, "ledger") as readers:
            return dict(filter(None, readers.map(find_path, days)))

    def list_days(self, project_id: int = 0) -> Sequence[tuple[int, str]]:
        """List the projects and days of which something is known, or those of one project, sorted
        by the day."""
        prefix = f"{TESTS}{project_id}/" if project_id else TESTS
        found = filter(None, map(parse_tests, self._objects.list_names(prefix)))
        return sorted(found, key=lambda place: (place[1], place[0]))

    def remove_day(self, project_id: int, day: str) -> None:
        """Remove what is known of a day."""
        if not self._read_only:
            self._objects.delete(name_tests(project_id, day))

    def forget_request(self, project_id: int, mr_iid: int) -> int:
        """Remove what the pipelines of a merge request have reported, and return of how many days.

        What could not be read, and was set aside, may be from it too: it is removed but not
        counted.
        """

        def forget(record: DayRecord | None) -> DayRecord | None:
            return record and record.forget(mr_iid)

        changed = 0
        for record in self._find_reports(project_id, mr_iid):
            self.change_day(project_id, record.day, forget)
            changed += 1
        for name in list(self._objects.list_names(f"{KEPT}{TESTS}{project_id}/")):
            if not self._read_only:
                self._objects.delete(name)
        return changed

    def _find_reports(self, project_id: int, mr_iid: int) -> Iterator[DayRecord]:
        """Read the days on which pipelines of a merge request have reported something."""
        for record in self.read_days(project_id, 0.0) if mr_iid else ():
            if record.forget(mr_iid) != record:
                yield record


def _load_day_of(name: str, data: bytes) -> DayRecord:
    """Raises RecordError, also for the record of another day than lay there."""
    record, place = load_day(data), parse_tests(name)
    if place != (record.project_id, record.day):
        raise RecordError(f"the record of another day: {record.project_id} {record.day:.40}")
    return record


_DAY = Kind(_load_day_of, dump_day, MAX_DAY)
