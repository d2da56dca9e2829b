"""How a trigger is accepted: kept first, queued then."""

from pathlib import Path

import pytest

from tests.fakes import HandClock
from worker import app
from worker.core.triggers import PipelineFailed
from worker.errors import QueueError, StoreError
from worker.queue.journal import Journal, name_entry
from worker.queue.leases import Leases
from worker.sessions.folder import FolderStore
from worker.settings import Settings

TRIGGER = PipelineFailed(233, 881204, "5d9b3c1f", "fix/window", 418, 233)
NOWHERE = "redis://127.0.0.1:9/"


def journal_in(store: FolderStore) -> Journal:
    clock = HandClock()
    return Journal(store.records, Leases(store, clock), clock)


def accept(broker: str, journal: Journal) -> None:
    built = app.build_app(
        *(Settings(broker=broker), lambda: pytest.fail("no worker")), journal=lambda: journal
    )
    app.get_acceptor(built)(TRIGGER)


def test_a_trigger_is_kept_although_the_broker_that_is_down_refuses_it(tmp_path: Path) -> None:
    journal = journal_in(FolderStore(tmp_path))
    for _ in range(2):
        with pytest.raises(QueueError, match="the broker does not answer"):
            accept(NOWHERE, journal)
    assert list(journal.list_names()) == [name_entry(TRIGGER)]


def test_a_trigger_that_cannot_be_kept_is_refused_before_it_is_queued(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    (tmp_path / "store" / "journal").write_text("in the way")
    with pytest.raises(StoreError):
        journal_in(store).add_trigger(TRIGGER)
    with pytest.raises(QueueError, match="the trigger cannot be kept"):
        accept(NOWHERE, journal_in(store))
