"""What one name counts under several labels goes to the right one."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from tests.accepting import queue_nothing
from tests.contexts import SUBJECT, context
from tests.fakes import MemorySandbox, ScriptedModel, says
from tests.jobs import MemoryDriver
from tests.unit.telemetry.test_metrics import value
from worker import wiring
from worker.conversation.context import NoteRef, Outcome, Status
from worker.conversation.events import (
    Backlog,
    Milestone,
    Stage,
    TriggerBegun,
    TriggerLeft,
    TurnEnded,
    VotesChanged,
)
from worker.conversation.messages import Usage
from worker.conversation.model import Request
from worker.conversation.triggers import Reacted
from worker.errors import ForgeError
from worker.gitlab.write.note_writers import DryRunWriter
from worker.settings import Settings
from worker.telemetry.metrics import Metrics, make_watcher
from worker.telemetry.parts import CountedDriver, CountedModel, CountedNoteWriter

TRIGGER = Reacted(7, 42, 5, 1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Refusing(DryRunWriter):
    """The writer of notes that GitLab answers with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def edit_note(self, *_: object, **__: object) -> None:
        raise ForgeError("no", status=self.status)


def test_tokens_are_counted_by_what_they_cost() -> None:
    metrics, model = Metrics(), "test/model"
    reply = replace(says("x"), usage=Usage(1, 20, 300, 4000), cost_usd=None)
    CountedModel(ScriptedModel([reply]), metrics).reply(Request("", (), ()))
    found = [
        value(metrics, "sandpiper_model_tokens_total", model=model, kind=kind)
        for kind in ("fresh", "cached", "written", "output")
    ]
    assert found == [1, 20, 300, 4000]
    assert value(metrics, "sandpiper_model_cost_usd_total", model=model) is None


def test_an_adopted_sandbox_is_a_start_and_none_is_not() -> None:
    class Adopting(MemoryDriver):
        def adopt(self, session: str) -> MemorySandbox | None:
            return MemorySandbox() if session == "here" else None

    metrics = Metrics()
    driver = CountedDriver(Adopting(), metrics)
    assert driver.adopt("elsewhere") is None
    assert driver.adopt("here") is not None
    assert value(metrics, "sandpiper_sandbox_start_seconds_count", kind="adopted") == 1


def test_errors_of_gitlab_are_counted_by_class_and_progress_apart() -> None:
    metrics = Metrics()
    for status, hurried in ((0, False), (502, False), (429, True)):
        notes = CountedNoteWriter(Refusing(status), metrics)
        with pytest.raises(ForgeError):
            notes.edit_note(SUBJECT, NoteRef(1), "x", hurried=hurried)
    found = [
        value(metrics, "sandpiper_gitlab_write_errors_total", operation=operation, status=status)
        for operation, status in (("edit", "none"), ("edit", "5xx"), ("progress", "4xx"))
    ]
    assert found == [1, 1, 1]


def test_a_wait_is_counted_once_when_the_job_was_run() -> None:
    metrics, clock = Metrics(), Clock()
    watch = make_watcher(metrics, clock, ())
    for waited, outcome, ran in (
        (1.0, "held", False),
        (2.0, "skipped", False),
        (31.0, "counted", True),
    ):
        watch(TriggerBegun(TRIGGER, waited))
        assert value(metrics, "sandpiper_sessions_running") == 1
        watch(TriggerLeft(TRIGGER, outcome, ran))
        assert value(metrics, "sandpiper_sessions_running") == 0
    wait = "sandpiper_queue_wait_seconds"
    assert value(metrics, f"{wait}_count", kind=TRIGGER.kind) == 1
    assert value(metrics, f"{wait}_sum", kind=TRIGGER.kind) == 31


def test_a_note_that_is_posted_anew_is_no_second_result() -> None:
    metrics, clock = Metrics(), Clock()
    watch = make_watcher(metrics, clock, ())
    watch(TriggerBegun(TRIGGER, 2.0))
    for later in (3.0, 50.0):
        clock.now += later
        watch(Stage("note posted", Milestone.NOTE))
    assert value(metrics, "sandpiper_note_seconds_count") == 1
    assert value(metrics, "sandpiper_note_seconds_sum") == 5


def test_votes_and_what_the_journal_holds_are_told_apart() -> None:
    metrics = Metrics()
    watch = make_watcher(metrics, Clock(), ())
    watch(VotesChanged(("up", "up"), ("down",)))
    watch(Backlog(3, 2, 60.0))
    reactions = "sandpiper_reactions_total"
    assert value(metrics, reactions, reaction="up", change="given") == 2
    assert value(metrics, reactions, reaction="down", change="withdrawn") == 1
    assert value(metrics, reactions, reaction="up", change="withdrawn") is None
    assert value(metrics, "sandpiper_journal_entries", state="unfinished") == 3
    assert value(metrics, "sandpiper_journal_entries", state="parked") == 2


def test_a_turn_that_another_model_took_over_names_the_one_that_gave_way() -> None:
    metrics = Metrics()
    ended = context(gave_way="a/first", outcome=Outcome(Status.DONE, "x"))
    assert ended.outcome is not None
    make_watcher(metrics, Clock(), ())(TurnEnded(0, ended.outcome, "", "", ended))
    assert value(metrics, "sandpiper_model_fallbacks_total", model="a/first") == 1


@pytest.mark.parametrize(("enabled", "status"), [(True, 200), (False, 404)])
def test_the_receiver_s_metrics_can_be_switched_off(enabled: bool, status: int) -> None:
    settings = Settings.model_validate(
        {"gitlab": {"webhook_secret": "0123456789abcdef"}, "metrics": {"enabled": enabled}}
    )
    watched = wiring.build_telemetry(settings)
    with TestClient(wiring.build_receiver(settings, queue_nothing, watched=watched)) as client:
        assert client.get("/metrics").status_code == status
