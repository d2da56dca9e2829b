"""How every store keeps what is known of the projects' tests (sessions.ledger.LedgerStore)."""

from dataclasses import replace

import pytest

from tests.contract.places import WORKERS, Place, many
from worker.errors import StoreError, Unreadable
from worker.ledger.record import (
    DayRecord,
    FailedTest,
    NamedTest,
    PipelineTests,
    RanOn,
    SuiteRun,
)
from worker.ledger.record_json import RecordError
from worker.sessions.ledger import LedgerStore

DAY = "2026-11-20"
AT = 1_795_132_800.0  # its beginning
NAME = f"tests/7/{DAY}.json"
FAILED = FailedTest(NamedTest("unit", "Ferry", "test_seats"), "unit 1/2", "E assert 12 == 13", "k")


def open_ledger(place: Place) -> LedgerStore:
    return LedgerStore(place.store.records)


def make_pipeline(number: int, mr_iid: int = 0) -> PipelineTests:
    return PipelineTests(
        pipeline_id=number,
        sha="ab" * 20,
        source="push",
        ran_on=RanOn.REQUEST if mr_iid else RanOn.DEFAULT,
        created_at=AT + number,
        mr_iid=mr_iid,
        updated_at="2026-11-20T08:00:00.000Z",
        suites=(SuiteRun("unit 1/2", 214, 1, 2, 900 + number, seconds=3.5),),
        failures=(FAILED,),
    )


def make_day(*pipelines: PipelineTests, project: int = 7, day: str = DAY) -> DayRecord:
    return DayRecord(project, "group/app", day).put(pipelines)


def put(place: Place, record: DayRecord) -> None:
    stands = open_ledger(place).change_day(record.project_id, record.day, lambda old: record)
    assert stands == record


def add(number: int, record: DayRecord | None) -> DayRecord:
    return (record or make_day()).put([make_pipeline(number)])


def test_a_day_is_made_changed_and_removed(place: Place) -> None:
    assert open_ledger(place).read_day(7, DAY) is None
    put(place, make_day(make_pipeline(1), make_pipeline(2, 42)))
    assert open_ledger(place).read_day(7, DAY) == make_day(make_pipeline(1), make_pipeline(2, 42))
    assert place.names() == [NAME]
    changed = open_ledger(place).change_day(7, DAY, lambda old: add(3, old))
    assert changed is not None
    assert [each.pipeline_id for each in changed.pipelines] == [1, 2, 3]
    assert open_ledger(place).read_day(7, DAY) == changed
    open_ledger(place).remove_day(7, DAY)
    open_ledger(place).remove_day(7, DAY)
    assert place.names() == []
    assert list(place.store.list_sessions()) == []


def test_days_are_read_by_project_from_a_time_on(place: Place) -> None:
    for project, day in ((7, "2026-11-19"), (70, DAY), (7, "2026-11-21"), (7, DAY)):
        put(place, make_day(project=project, day=day))
    ledger = open_ledger(place)
    assert [each.day for each in ledger.read_days(7, AT + 5000.0)] == [DAY, "2026-11-21"]
    assert len(ledger.read_days(7, 0.0)) == len(ledger.read_days(7, -1e300)) == 3
    assert ledger.read_days(7, AT + 9e6) == ledger.read_days(8, 0.0) == ()
    assert [*ledger.list_days(7)] == [(7, "2026-11-19"), (7, DAY), (7, "2026-11-21")]
    assert [*ledger.list_days()] == [
        *((7, "2026-11-19"), (7, DAY), (70, DAY), (7, "2026-11-21")),
    ]


def test_of_changes_at_once_none_is_lost(place: Place) -> None:
    ledgers = [open_ledger(place) for _ in range(WORKERS // 4)]
    many(lambda at: ledgers[at % len(ledgers)].change_day(7, DAY, lambda old: add(at + 1, old)))
    record = open_ledger(place).read_day(7, DAY)
    assert record is not None
    assert [each.pipeline_id for each in record.pipelines] == [*range(1, WORKERS + 1)]


def test_what_is_put_twice_is_there_once(place: Place) -> None:
    put(place, make_day(make_pipeline(1)))
    many(lambda at: open_ledger(place).change_day(7, DAY, lambda old: add(1, old)))
    assert open_ledger(place).read_day(7, DAY) == make_day(make_pipeline(1))


def test_of_a_forgotten_merge_request_only_that_it_was_looked_at_stays(place: Place) -> None:
    own, others = make_pipeline(1, 42), (make_pipeline(2, 4), make_pipeline(3))
    put(place, make_day(own, *others))
    put(place, make_day(own, day="2026-11-21"))
    put(place, make_day(own, project=70))
    ledger = open_ledger(place)
    assert ledger.forget_request(7, 42) == 2
    record = ledger.read_day(7, DAY)
    assert record is not None
    assert record.pipelines == (replace(own, suites=(), failures=()), *others)
    assert record.knows(1, own.updated_at)
    assert ledger.read_day(70, DAY) == make_day(own, project=70)
    assert ledger.forget_request(7, 42) == ledger.forget_request(7, 0) == 0


def test_what_was_set_aside_may_be_of_a_forgotten_one(place: Place) -> None:
    records, time = place.store.records, [1000.0]
    ledger = LedgerStore(records, lambda: time[0])
    place.put(NAME, b'{"SECRET": 1}')
    with pytest.raises(Unreadable):
        ledger.change_day(7, DAY, lambda old: add(1, old))
    time[0] += 200
    assert ledger.change_day(7, DAY, lambda old: add(1, old)) == make_day(make_pipeline(1))
    assert any(name.startswith(f"damaged/kept/{NAME}~") for name in place.names())
    assert ledger.forget_request(7, 42) == 0
    assert place.names() == [NAME]


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"[]", b"{}", b'{"project_id": 7', bytes(range(256))]
)
def test_a_damaged_day_is_absent_and_stays_until_a_second_look(
    content: bytes, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    put(place, make_day(day="2026-11-21"))
    place.put(NAME, content)
    assert open_ledger(place).read_day(7, DAY) is None
    assert f"{DAY}.json" in caplog.text
    assert [each.day for each in open_ledger(place).read_days(7, 0.0)] == ["2026-11-21"]
    with pytest.raises(Unreadable):
        open_ledger(place).change_day(7, DAY, lambda old: make_day())
    assert NAME in place.names()


@pytest.mark.parametrize("other", [make_day(project=8), make_day(day="2026-11-21")])
def test_the_record_of_another_day_is_not_believed(other: DayRecord, place: Place) -> None:
    put(place, other)
    (name,) = place.names()
    stored = place.store.records.read(name, 1 << 20)
    assert stored is not None
    place.put(NAME, stored.content)
    assert open_ledger(place).read_day(7, DAY) is None
    with pytest.raises(RecordError):
        open_ledger(place).change_day(7, "2026-11-22", lambda old: other)


def test_a_dry_run_reads_and_stores_nothing(place: Place) -> None:
    put(place, make_day(make_pipeline(1, 42)))
    dry = LedgerStore(place.store.records, read_only=True)
    changed = dry.change_day(7, DAY, lambda old: add(2, old))
    assert changed == make_day(make_pipeline(1, 42), make_pipeline(2))
    dry.forget_request(7, 42)
    dry.remove_day(7, DAY)
    assert open_ledger(place).read_day(7, DAY) == make_day(make_pipeline(1, 42))


@pytest.mark.parametrize(
    ("project", "day"), [(0, DAY), (-1, DAY), (10**19, DAY), (7, "../x"), (7, "2026-11-2")]
)
def test_what_is_no_day_is_refused(project: int, day: str, place: Place) -> None:
    for call in (open_ledger(place).read_day, open_ledger(place).remove_day):
        with pytest.raises(StoreError):
            call(project, day)
    assert place.names() == []
