"""A damaged entry of the journal: looked at twice, set aside, listed, and brought back."""

from pathlib import Path

import pytest

from tests.fakes import HandClock
from worker.conversation.triggers import PipelineFailed
from worker.jobs.repair import list_parked
from worker.queue.journal import Journal, name_entry
from worker.queue.leases import Leases
from worker.sessions.checked import SECOND_LOOK, STALE
from worker.sessions.folder import FolderStore

pytestmark = pytest.mark.attack("odd answers")

TRIGGER = PipelineFailed(7, 12, "a" * 40, "main", 42, 7)
NAME = name_entry(TRIGGER)
DAMAGE = (b"", b"<html>Back soon</html>", b'{"trigger": {"kind"', b"[]", b"{}", b'{"trigger": {}}')


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def journal(tmp_path: Path, clock: HandClock) -> Journal:
    store = FolderStore(tmp_path, now=clock.now)
    opened = Journal(store.records, Leases(store, clock), clock)
    opened.add_trigger(TRIGGER)
    return opened


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_set_aside_at_a_second_look_minutes_later_and_comes_back(
    tmp_path: Path, journal: Journal, clock: HandClock, damage: bytes
) -> None:
    place = tmp_path / NAME
    whole = place.read_bytes()
    place.write_bytes(damage)
    for _ in range(3):  # many looks within seconds are one look
        assert journal.read_entry(NAME) is None
        clock.time += 5.0
    assert place.read_bytes() == damage
    clock.time += SECOND_LOOK
    assert journal.read_entry(NAME) is None
    assert not place.exists()
    (kept,) = journal.list_set_aside(7, 42)
    assert list(list_parked(journal)) == [
        f"{kept}: set aside, as it could not be read; --retry with this name puts it back"
    ]
    (tmp_path / "damaged/kept" / kept).write_bytes(whole)  # somebody has mended it
    assert journal.bring_back(kept)
    stored = journal.read_entry(NAME)
    assert stored is not None
    assert stored.entry.trigger == TRIGGER
    assert list(journal.list_set_aside()) == []
    assert not journal.bring_back(kept)


def test_a_first_look_counts_no_more_once_the_entry_was_whole(
    tmp_path: Path, journal: Journal, clock: HandClock
) -> None:
    place, whole = tmp_path / NAME, (tmp_path / NAME).read_bytes()
    for wait in (SECOND_LOOK * 2, STALE * 2):
        place.write_bytes(b"<html>Back soon</html>")
        assert journal.read_entry(NAME) is None
        place.write_bytes(whole)
        assert journal.read_entry(NAME) is not None
        clock.time += wait
    place.write_bytes(b"<html>Back soon</html>")
    assert journal.read_entry(NAME) is None
    assert place.exists()


def test_the_first_look_is_remembered_for_other_workers(
    tmp_path: Path, journal: Journal, clock: HandClock
) -> None:
    (tmp_path / NAME).write_bytes(b"torn")
    assert journal.read_entry(NAME) is None
    clock.time += SECOND_LOOK
    store = FolderStore(tmp_path, now=clock.now)
    assert Journal(store.records, Leases(store, clock), clock).read_entry(NAME) is None
    assert list(journal.list_set_aside())


def test_an_entry_that_cannot_be_read_is_not_begun_anew_beside_it(
    tmp_path: Path, journal: Journal
) -> None:
    (tmp_path / NAME).write_bytes(b"torn")
    journal.add_trigger(TRIGGER)
    assert (tmp_path / NAME).read_bytes() == b"torn"
