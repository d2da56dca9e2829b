"""What a broker has lost is found soon, however busy the queue; what only waits is left alone."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes import HandClock
from worker.conversation.triggers import PipelineFailed, Trigger
from worker.errors import StoreError
from worker.queue.journal import Journal, StoredEntry, name_entry
from worker.queue.leases import Leases
from worker.queue.recovery import READERS, Recovery
from worker.sessions.folder import FolderStore

INTERVAL, BOUND, HOUR = 8.0, 120.0, 3600.0


@dataclass
class Line:
    """A worker at a queue that keeps its order, a journal, and a clock that is set by hand."""

    folder: Path
    behind: float = 0.0
    clock: HandClock = field(default_factory=lambda: HandClock(1_000_000.0))
    waiting: deque[tuple[Trigger, float]] = field(default_factory=deque)
    again: dict[Trigger, list[float]] = field(default_factory=dict)
    begun: set[Trigger] = field(default_factory=set)

    def __post_init__(self) -> None:
        store = FolderStore(self.folder)
        self.leases = Leases(store, self.clock)
        self.journal = Journal(store.records, self.leases, self.clock)
        self.recovery = Recovery(
            *(self.journal, self.leases, self._queue_again, self.clock),
            count_waiting=lambda: len(self.waiting),
        )
        self._numbers = iter(range(1, 1_000_000))

    def _queue_again(self, trigger: Trigger) -> None:
        self.again.setdefault(trigger, []).append(self.clock.time)
        self._put(trigger)

    def _put(self, trigger: Trigger) -> None:
        self.waiting.append((trigger, self.clock.time - self.behind))

    def accept(self, count: int) -> list[Trigger]:
        """Accept so many triggers."""
        made: list[Trigger] = []
        for _ in range(count):
            number = next(self._numbers)
            made.append(PipelineFailed(7, number, "5d9b3c1f", "fix", number, 7))
            self.journal.add_trigger(made[-1])
            self._put(made[-1])
        return made

    def take(self, count: int) -> None:
        """Begin so many triggers, which end at once. What has ended is skipped in no time."""
        until = len(self.begun) + count
        while self.waiting and len(self.begun) < until:
            trigger, queued_at = self.waiting.popleft()
            self.recovery.note_taken(self.clock.time - queued_at)
            self.begun.add(trigger)
            self.journal.remove_trigger(trigger)

    def run(self, seconds: float, accepted: int, taken: int) -> None:
        """Let the time pass, with so many triggers and takings between two searches."""
        until = self.clock.time + seconds
        while self.clock.time < until:
            self.accept(accepted)
            self.take(taken)
            self.recovery.run_once()
            self.clock.time += INTERVAL


@pytest.fixture
def make_line(tmp_path: Path) -> Callable[..., Line]:
    return lambda **changes: Line(tmp_path, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accepted", "taken", "backlog", "behind"),
    [(1, 1, 4, 0.0), (2, 1, 4, 1.5), (3, 1, 50, -1.5), (6, 4, 50, 0.0)],
)
def test_what_a_busy_queue_has_lost_is_queued_again_within_two_minutes(
    make_line: Callable[..., Line], accepted: int, taken: int, backlog: int, behind: float
) -> None:
    line = make_line(behind=behind)
    line.accept(backlog)
    line.run(100.0, accepted, taken)
    for _ in range(3):  # The broker is emptied, and again when that is forgotten, or not yet.
        lost = [trigger for trigger, _ in line.waiting]
        assert lost
        line.waiting.clear()
        emptied = line.clock.time
        line.again.clear()
        line.run(BOUND, accepted, taken)
        assert line.waiting, "the queue is not busy"
        for trigger in lost:
            (at, *_) = line.again.get(trigger, [float("inf")])
            assert trigger in line.begun or at - emptied <= BOUND


@pytest.mark.parametrize("behind", [1.5, -1.5])
def test_what_waits_in_a_long_queue_is_not_queued_twice(
    make_line: Callable[..., Line], behind: float
) -> None:
    line = make_line(behind=behind)
    waiting = line.accept(60)
    line.run(HOUR / 9, 1, 1)
    assert line.again == {}
    assert set(waiting) & line.begun
    assert not set(waiting) <= line.begun


@pytest.mark.parametrize("behind", [HOUR, -HOUR])
def test_a_clock_that_is_an_hour_wrong_doubles_and_loses_nothing(
    make_line: Callable[..., Line], behind: float
) -> None:
    line = make_line(behind=behind)
    line.accept(40)
    line.run(200.0, 1, 1)
    assert line.again == {}
    line.waiting.clear()
    line.run(BOUND, 0, 8)
    line.run(BOUND, 0, 8)
    assert list(line.journal.list_names()) == []


class Unreadable(Journal):
    """A journal of which some entries cannot be read."""

    bad: frozenset[str] = frozenset()

    def read_entry(self, name: str) -> StoredEntry | None:
        if name in self.bad:
            raise StoreError("the gateway is confused", transient=True)
        return super().read_entry(name)


def test_an_entry_that_cannot_be_read_keeps_no_other_from_being_found(
    make_line: Callable[..., Line], tmp_path: Path
) -> None:
    line = make_line()
    journal = Unreadable(FolderStore(tmp_path).records, line.leases, line.clock)
    again: list[Trigger] = []
    recovery = Recovery(journal, line.leases, again.append, line.clock)
    first, second, third = line.accept(3)
    journal.bad = frozenset({name_entry(first)})
    for _ in range(8):
        recovery.run_once()
        line.clock.time += INTERVAL
    assert set(again) == {second, third}
    journal.bad = frozenset(map(name_entry, (first, second, third)))
    line.clock.time += BOUND
    with pytest.raises(StoreError, match="confused"):
        recovery.run_once()


class Slow(Journal):
    """A journal that gives an entry only when so many are asked for at once."""

    together = threading.Barrier(READERS, timeout=20)

    def read_entry(self, name: str) -> StoredEntry | None:
        self.together.wait()
        return super().read_entry(name)


def test_a_search_reads_many_entries_at_the_same_time(
    make_line: Callable[..., Line], tmp_path: Path
) -> None:
    line = make_line()
    line.accept(4 * READERS)
    journal = Slow(FolderStore(tmp_path).records, line.leases, line.clock)
    recovery = Recovery(journal, line.leases, lambda trigger: None, line.clock)
    assert recovery.run_once() == 0
