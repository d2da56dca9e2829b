"""Where a request has cache marks, and what is remembered of them."""

import pytest

from worker.conversation.context import CacheMark
from worker.conversation.model import LIFETIME, MarkPlan, plan_marks

PLANS: list[tuple[str, int, bool, tuple[int, ...], CacheMark]] = [
    ("the first request", 1, False, (0,), CacheMark(0, 0.0, 0)),
    ("the pair, and nothing else", 3, False, (0, 2), CacheMark(2, 0.0, 2)),
    ("a notice behind the inner mark", 5, True, (2, 3, 4), CacheMark(3, 0.0, 4)),
    ("a second one keeps the inner mark of the first", 7, True, (3, 4, 5, 6), CacheMark(5, 0.0, 6)),
    ("and so does the request after it", 9, False, (5, 6, 8), CacheMark(8, 0.0, 8)),
    ("a nudge, nothing having been added", 9, True, (7, 8), CacheMark(7, 0.0, 8)),
    ("and the next request reads there", 11, False, (7, 8, 10), CacheMark(10, 0.0, 10)),
]


def test_a_plan_adds_to_the_pair_where_the_newest_entry_ends_and_the_last_stored_block() -> None:
    cache = None
    for name, count, ephemeral, marks, expected in PLANS:
        planned = plan_marks(count, cache, ephemeral=ephemeral, now=0.0)
        assert planned == MarkPlan(marks, expected), name
        cache = planned.cache


def test_a_first_request_with_a_notice_is_written_too() -> None:
    assert plan_marks(1, None, ephemeral=True, now=5.0) == MarkPlan((0,), CacheMark(0, 5.0, 0))


@pytest.mark.parametrize(
    ("age", "marks"), [(0.0, (4, 6)), (LIFETIME - 0.1, (4, 6)), (LIFETIME, (6,)), (1e6, (6,))]
)
def test_b1_stands_where_it_stood_while_the_entry_can_be_alive(
    age: float, marks: tuple[int, ...]
) -> None:
    assert plan_marks(7, CacheMark(4, 100.0), ephemeral=False, now=100.0 + age).marks == marks


def test_a_history_that_became_shorter_gets_no_mark_past_its_end() -> None:
    assert plan_marks(3, CacheMark(7, 0.0, 8), ephemeral=False, now=1.0).marks == (2,)
    assert plan_marks(3, CacheMark(7, 0.0, 8), ephemeral=True, now=1.0).marks == (1, 2)


@pytest.mark.parametrize("ephemeral", [False, True])
def test_the_first_request_after_a_fold_marks_where_folds_end(ephemeral: bool) -> None:
    planned = plan_marks(30, None, ephemeral=ephemeral, now=1.0, fold_ends=(8, 17))
    assert set(planned.marks) >= {8, 17, 29}
    assert len(planned.marks) <= 4


def test_a_fold_that_ends_at_the_end_adds_no_mark() -> None:
    assert plan_marks(5, None, ephemeral=False, now=1.0, fold_ends=(4, 6)).marks == (4,)
