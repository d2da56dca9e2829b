"""The verdicts of each day: when they are counted, counted again, and read."""

from dataclasses import replace
from pathlib import Path

import pytest

from worker.conversation.context import SessionKey
from worker.jobs.precision import Bucket, count_groups
from worker.jobs.verdict_days import DAY, DayReport, count_ended_days, read_day, read_days
from worker.sessions import layout
from worker.sessions.folder import FolderStore
from worker.sessions.recent import Row, dump_row
from worker.verdict.aftermath import DOWN, Feedback, dump_feedback

NOON = 1_795_003_200.0
"""2026-11-18, 12:00 UTC."""


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def put(store: FolderStore, number: int, at: float, **changes: object) -> SessionKey:
    session = f"{number:020x}"
    row = Row(session, 7, "group/a", 1, "https://x/1", 10, 0, at, "done", "flaky", "a/m", 4, 0.5)
    row = replace(row, **changes)  # type: ignore[arg-type]
    key = SessionKey(row.project_id, row.mr_iid, session)
    store.recent_turns.put_row(key, 0, at, dump_row(row))
    return key


def all_of(days: list[DayReport]) -> Bucket:
    (group,) = count_groups(days)["all"]
    return group


def test_a_day_is_counted_once_it_has_ended(store: FolderStore) -> None:
    put(store, 1, NOON)
    put(store, 2, NOON, label="confirmed", label_reason="it passed")
    put(store, 3, NOON + DAY, label="contradicted", label_reason="it did not")
    put(store, 4, NOON, verdict="")
    assert list(count_ended_days(store, NOON + DAY)) == ["verdicts of 2026-11-18: 2 counted"]
    assert list(count_ended_days(store, NOON + DAY)) == []
    kept = read_day(store.records, "2026-11-18")
    assert kept is not None
    assert (all_of([kept]).turns, all_of([kept]).right_count) == (2, 1)
    assert read_day(store.records, "2026-11-19") is None


def test_what_came_after_is_learnt_by_counting_again_for_two_weeks(store: FolderStore) -> None:
    key = put(store, 1, NOON)
    list(count_ended_days(store, NOON + DAY))
    store.commit_turn(key, 0, b"{}")
    store.change_feedback(key, 0, lambda _: dump_feedback(Feedback({"mara": DOWN})))
    assert list(count_ended_days(store, NOON + 1.9 * DAY)) == []
    assert len(list(count_ended_days(store, NOON + 2.1 * DAY))) == 1
    kept = read_day(store.records, "2026-11-18")
    assert kept is not None
    assert [each.reason for each in kept.wrong_verdicts] == ["readers say that it is wrong"]
    assert list(count_ended_days(store, NOON + 30 * DAY)) == []


def test_a_report_adds_days_that_are_counted_to_turns_of_today(store: FolderStore) -> None:
    put(store, 1, NOON)
    put(store, 2, NOON + DAY)
    put(store, 3, NOON - 40 * DAY)
    list(count_ended_days(store, NOON + DAY))
    put(store, 4, NOON)  # The count does not know it.
    now = NOON + DAY
    assert all_of(read_days(store, now, 30)).turns == 2
    assert all_of(read_days(store, now, 30, fresh=True)).turns == 3
    assert all_of(read_days(store, now, 90, fresh=True)).turns == 4
    assert all_of(read_days(store, now, 30, "group/*")).turns == 2
    assert all_of(read_days(store, now, 30, "7")).turns == 2
    assert count_groups(read_days(store, now, 30, "8")) == {}


def test_a_damaged_count_is_made_again(store: FolderStore) -> None:
    put(store, 1, NOON)
    store.records.create(layout.name_verdicts("2026-11-18"), b'{"day": 3}')
    assert all_of(read_days(store, NOON + DAY, 30)).turns == 1
    assert len(list(count_ended_days(store, NOON + DAY))) == 1


def test_one_sweep_does_not_read_without_end(store: FolderStore) -> None:
    for number in range(6):
        put(store, number, NOON - number * DAY)
    assert len(list(count_ended_days(store, NOON + DAY, most=2))) == 2
    assert len(list(count_ended_days(store, NOON + DAY, most=2))) == 2
    assert all_of(read_days(store, NOON + DAY, 30)).turns == 6
