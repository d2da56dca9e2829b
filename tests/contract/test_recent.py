"""Turns by the time they began, over every store (sessions.base.RecentTurns)."""

from dataclasses import replace

import pytest

from tests.contract.places import KEY, Place
from worker.errors import StoreError

DAY = 86_400.0
NOW = 1_800_000_000.0


def test_the_newest_come_first_across_days_and_clocks(place: Place) -> None:
    for turn, at in enumerate((NOW, NOW + 0.5, NOW - 3 * DAY, NOW - 1, 0.0)):
        place.store.recent_turns.put_row(KEY, turn, at, str(turn).encode())
    assert [row for _, row in place.store.recent_turns.list_newest(10)] == [
        b"1",
        b"0",
        b"3",
        b"2",
        b"4",
    ]


def test_a_row_is_replaced_by_the_next_of_the_same_turn(place: Place) -> None:
    place.store.recent_turns.put_row(KEY, 0, NOW, b"running")
    place.store.recent_turns.put_row(KEY, 0, NOW, b"done")
    assert [row for _, row in place.store.recent_turns.list_newest(10)] == [b"done"]


def test_a_cursor_goes_on_where_a_page_has_ended(place: Place) -> None:
    for turn in range(5):
        place.store.recent_turns.put_row(KEY, turn, NOW - turn * DAY / 2, str(turn).encode())
    first = list(place.store.recent_turns.list_newest(2))
    rest = list(place.store.recent_turns.list_newest(10, first[-1][0]))
    assert [row for _, row in (*first, *rest)] == [b"0", b"1", b"2", b"3", b"4"]


def test_the_turns_of_one_project(place: Place) -> None:
    place.store.recent_turns.put_row(KEY, 0, NOW, b"near")
    place.store.recent_turns.put_row(replace(KEY, project_id=70), 0, NOW, b"far")
    assert [row for _, row in place.store.recent_turns.list_newest(5, project_id=70)] == [b"far"]


def test_the_list_is_no_session(place: Place) -> None:
    place.store.recent_turns.put_row(KEY, 0, NOW, b"row")
    assert list(place.store.list_sessions()) == []
    assert place.store.find_session(KEY.session_id) is None


def test_a_row_is_small_and_of_a_session(place: Place) -> None:
    with pytest.raises(StoreError, match="larger"):
        place.store.recent_turns.put_row(KEY, 0, NOW, b"x" * 20_000)
    with pytest.raises(StoreError, match="not a session"):
        place.store.recent_turns.put_row(replace(KEY, session_id="../../x"), 0, NOW, b"x")
    place.put("recent/123456/nonsense.json", b"x")
    assert list(place.store.recent_turns.list_newest(5)) == []


def test_the_turns_of_a_branch_stand_among_the_others(place: Place) -> None:
    turns, branch = place.store.recent_turns, replace(KEY, mr_iid=0, branch="branch-a-0001")
    turns.put_row(KEY, 0, NOW, b"request")
    turns.put_row(branch, 0, NOW + 1, b"branch")
    turns.put_row(branch, 1, NOW - 1, b"reply")
    listed = list(turns.list_newest(10, project_id=KEY.project_id))
    assert [row for _, row in listed] == [b"branch", b"request", b"reply"]
    assert [row for _, row in turns.list_newest(10, listed[0][0])] == [b"request", b"reply"]
