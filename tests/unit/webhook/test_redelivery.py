"""GitLab sends a delivery again if the answer was lost: it gets the same one, and runs once."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.accepting import one_by_one
from tests.fakes import HandClock
from tests.unit.webhook.cases import PROJECTS
from tests.unit.webhook.test_http import SECRET, deliver
from worker.conversation.triggers import (
    PipelineFailed,
    Trigger,
    from_message,
    to_message,
    trigger_id,
)
from worker.errors import QueueError
from worker.queue.journal import Journal, NotTaken, name_entry
from worker.queue.leases import Leases
from worker.sessions.folder import FolderStore
from worker.webhook.http import build_app
from worker.webhook.routing import read_hook_time

FAILED = "pipeline__merge_request_failed"


class Door:
    """A door with a journal and a broker that can be down."""

    def __init__(self, folder: Path) -> None:
        store, clock = FolderStore(folder), HandClock()
        self.leases, self.is_down = Leases(store, clock), False
        self.journal = Journal(store.records, self.leases, clock)
        self.queue: list[Trigger] = []
        self.app = build_app(SECRET, one_by_one(self._take), PROJECTS, lambda: 1000.0, lambda: None)

    def _take(self, trigger: Trigger) -> None:
        self.journal.add_trigger(trigger)
        if self.is_down:
            raise QueueError("down", transient=True)
        self.queue.append(trigger)


def test_a_delivery_sent_again_is_answered_the_same_and_run_once(tmp_path: Path) -> None:
    door = Door(tmp_path)
    answers = [deliver(door.app, FAILED) for _ in range(5)]
    assert {(each.status_code, each.text) for each in answers} == {(202, answers[0].text)}
    assert list(door.journal.list_names()) == [name_entry(door.queue[0])]
    with door.leases.register_work() as (owner, _):
        first, *others = door.queue
        assert door.journal.take_trigger(first, owner).owner == owner
        for each in others:
            with pytest.raises(NotTaken, match="it is being worked on already"):
                door.journal.take_trigger(each, owner)


def test_a_delivery_that_was_not_queued_is_queued_when_it_is_sent_again(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.is_down = True
    assert deliver(door.app, FAILED).status_code == 503
    door.is_down = False
    assert deliver(door.app, FAILED).status_code == 202
    assert list(door.journal.list_names()) == [name_entry(each) for each in door.queue]


def test_a_second_failure_of_a_pipeline_is_kept_while_the_first_is_at_work(tmp_path: Path) -> None:
    door = Door(tmp_path)
    again = "pipeline__retried_and_failed_again"
    for name in (FAILED, again, again, FAILED):
        assert deliver(door.app, name).status_code == 202
    assert sorted(door.journal.list_names()) == sorted({name_entry(each) for each in door.queue})
    assert len(list(door.journal.list_names())) == 2


def test_an_event_without_a_time_has_the_entry_that_an_earlier_version_gave_it() -> None:
    earlier = PipelineFailed(233, 881204, "5d9b3c1f", "fix/window", 418, 233)
    assert "finished_at" not in to_message(earlier)
    assert trigger_id(earlier) == "ca44b0de6b1bca27"
    later = replace(earlier, finished_at=1)
    assert from_message(to_message(later)) == later
    assert from_message(to_message(earlier)) == earlier


@pytest.mark.attack("door")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-20 09:18:41 UTC", 1_795_166_321),
        ("2026-11-20T09:18:41.123Z", 1_795_166_321),
        ("0001-01-01 00:00:00 UTC", 0),
        ("yesterday", 0),
        ("", 0),
        ("9" * 255, 0),
    ],
)
def test_a_time_of_a_webhook_is_read_or_left_out(text: str, at: int) -> None:
    assert read_hook_time(text) == at
