"""How a trigger is accepted: kept first, queued then."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes import HandClock
from worker import app
from worker.conversation.events import ignore_event
from worker.conversation.triggers import PipelineFailed, Trigger
from worker.errors import QueueError, StoreError
from worker.jobs.consumer import Consumer
from worker.queue.broker import Publisher
from worker.queue.journal import Journal, name_entry
from worker.queue.leases import Leases
from worker.sessions.folder import FolderStore
from worker.settings import Settings

TRIGGER = PipelineFailed(233, 881204, "5d9b3c1f", "fix/window", 418, 233)
BATCH = [PipelineFailed(233, each, "5d9b3c1f", "fix", each, 233) for each in range(1, 12)]
NOWHERE = "redis://127.0.0.1:9/"


def journal_in(store: FolderStore) -> Journal:
    clock = HandClock()
    return Journal(store.records, Leases(store, clock), clock)


def accept(broker: str, journal: Journal) -> None:
    built = app.build_app(
        *(Settings(broker=broker), lambda: pytest.fail("no worker")), journal=lambda: journal
    )
    built.consumer.accept_trigger(TRIGGER)


def test_a_trigger_is_kept_although_the_broker_that_is_down_refuses_it(tmp_path: Path) -> None:
    journal = journal_in(FolderStore(tmp_path))
    for _ in range(2):
        with pytest.raises(QueueError, match=r"the broker .* does not answer: nothing"):
            accept(NOWHERE, journal)
    assert list(journal.list_names()) == [name_entry(TRIGGER)]


def test_a_trigger_that_cannot_be_kept_is_refused_before_it_is_queued(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    (tmp_path / "store" / "journal").write_text("in the way")
    with pytest.raises(StoreError):
        journal_in(store).add_trigger(TRIGGER)
    with pytest.raises(QueueError, match="the trigger cannot be kept"):
        accept(NOWHERE, journal_in(store))


class Queue(Publisher):
    """Keeps what is put on it."""

    def __init__(self) -> None:
        self.triggers: list[Trigger] = []

    def publish_all(self, triggers: Sequence[Trigger]) -> None:
        self.triggers += triggers


def test_of_a_batch_only_what_cannot_be_kept_is_refused_and_the_rest_is_queued_in_order(
    tmp_path: Path,
) -> None:
    journal, queue = journal_in(FolderStore(tmp_path)), Queue()
    for iid in (3, 7):
        (tmp_path / "journal" / "233").mkdir(parents=True, exist_ok=True)
        (tmp_path / "journal" / "233" / str(iid)).write_text("in the way")
    consumer = Consumer(
        *(lambda: pytest.fail("no worker"), queue, ignore_event),
        journal=lambda: journal,
        alone=False,
        patience=1.0,
    )
    assert consumer.accept_triggers([]) == []
    failures = consumer.accept_triggers(BATCH)
    assert [bool(each) for each in failures] == [each.mr_iid in (3, 7) for each in BATCH]
    assert queue.triggers == [each for each in BATCH if each.mr_iid not in (3, 7)]
    assert {name_entry(each) for each in queue.triggers} <= set(journal.list_names())


def test_a_batch_is_kept_although_the_broker_is_down(tmp_path: Path) -> None:
    journal = journal_in(FolderStore(tmp_path))
    built = app.build_app(
        *(Settings(broker=NOWHERE), lambda: pytest.fail("no worker")), journal=lambda: journal
    )
    failures = built.consumer.accept_triggers(BATCH)
    assert all("does not answer: nothing listens there" in str(each) for each in failures)
    assert len(failures) == len(BATCH)
    assert set(journal.list_names()) == {name_entry(each) for each in BATCH}
