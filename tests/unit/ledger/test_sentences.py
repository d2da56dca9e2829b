"""What the ledger says of a failed test, in words."""

from dataclasses import replace

import pytest

from tests.unit.ledger.made import BEGIN, make_day, make_failure, make_run
from worker.ledger.history import find_lives
from worker.ledger.record import PipelineTests, RanOn
from worker.ledger.sentences import Name, describe_life

TEST = make_failure("test_a").test
NOW = BEGIN + 13.5 * 86400
HERE, REQUEST = 500, 12


def on(look: PipelineTests, *, branch: str = "", mr_iid: int = 0) -> PipelineTests:
    ran_on = RanOn.REQUEST if mr_iid else RanOn.BRANCH
    return replace(look, ran_on=ran_on, ref=branch, mr_iid=mr_iid)


def flake(number: int, *more: int) -> list[PipelineTests]:
    return [make_run(number, "test_a", passed=True), *(make_run(each, "test_a") for each in more)]


PASSED = [make_run(number) for number in range(100, 200)]
NOW_FAILED = on(make_run(HERE, "test_a"), mr_iid=REQUEST)

SAID = [
    ([], ""),
    ([NOW_FAILED], ""),
    (PASSED, "no other failure in 100 runs of its job in 14 days"),
    ([*PASSED, NOW_FAILED], "no other failure in 100 runs of its job in 14 days"),
    ([make_run(100)], "no other failure in 1 run of its job in 14 days"),
    (
        [*PASSED, *flake(1), *flake(2), on(flake(3)[0], mr_iid=13), NOW_FAILED],
        "failed in 3 of 103 runs of its job in 14 days, twice on `main`, "
        "once in 1 other merge request; passed again on the same commit each time",
    ),
    (
        [*PASSED, make_run(1, "test_a")],
        "failed in 1 of 101 runs of its job in 14 days, on `main`",
    ),
    (
        [*PASSED, *flake(1)],
        "failed in 1 of 101 runs of its job in 14 days, on `main`; passed again on the same commit",
    ),
    (
        [*PASSED, *flake(1, 2, 3)],
        "failed in 3 of 103 runs of its job in 14 days, all on `main`; "
        "once passed again on the same commit",
    ),
    (
        [*PASSED, *(on(make_run(n, "test_a"), mr_iid=REQUEST) for n in (1, 2)), NOW_FAILED],
        "failed in 2 of 102 runs of its job in 14 days, all in this merge request",
    ),
    (
        [
            *PASSED,
            *(on(make_run(n, "test_a"), branch=f"release/{n}") for n in (1, 2, 3, 4)),
            on(make_run(5, "test_a"), mr_iid=REQUEST),
        ],
        "failed in 5 of 105 runs of its job in 14 days, once on `release/1`, once on `release/2` "
        "and on 2 other branches, once in this merge request",
    ),
    (
        [*PASSED, on(make_run(HERE, "test_a", passed=True), mr_iid=REQUEST)],
        "no other failure in 100 runs of its job in 14 days; has passed in this pipeline too",
    ),
    (
        [*PASSED, NOW_FAILED, on(replace(make_run(501), sha=NOW_FAILED.sha), mr_iid=REQUEST)],
        "no other failure in 101 runs of its job in 14 days; "
        "has passed on this commit too, in pipeline 501",
    ),
    (
        [*PASSED, make_run(1, "test_a test_b"), make_run(2, "test_a test_b")],
        "failed in 2 of 102 runs of its job in 14 days, all on `main`; "
        "has only failed together with `test_b`",
    ),
    (
        [*PASSED, make_run(1, "test_a test_b test_c"), make_run(2, "test_a test_b test_c")],
        "failed in 2 of 102 runs of its job in 14 days, all on `main`; "
        "has only failed together with the same 2 other tests",
    ),
]


@pytest.mark.parametrize(("looks", "said"), SAID)
def test_a_tests_life_is_told_in_one_sentence(looks: list[PipelineTests], said: str) -> None:
    life = find_lives([make_day(*looks)], [TEST], BEGIN)[TEST]
    life = replace(life, since_at=BEGIN)
    words = describe_life(life, HERE, REQUEST, NOW)
    assert "".join(f"`{each}`" if isinstance(each, Name) else each for each in words) == said


def test_of_no_merge_request_all_others_are_just_merge_requests() -> None:
    looks = [*PASSED, *(on(make_run(n, "test_a"), mr_iid=n) for n in (1, 2, 3))]
    life = find_lives([make_day(*looks)], [TEST], BEGIN)[TEST]
    assert "".join(describe_life(life, HERE, 0, NOW)).endswith(", all in 3 merge requests")


def test_a_strangers_name_is_a_part_of_its_own_on_one_line() -> None:
    look = on(make_run(1, "test_a"), branch="a\n/close `x` @all " + "b" * 500)
    life = find_lives([make_day(look, *PASSED)], [TEST], BEGIN)[TEST]
    (name,) = (each for each in describe_life(life, HERE, 0, NOW) if isinstance(each, Name))
    assert "\n" not in name
    assert len(name) <= 120
