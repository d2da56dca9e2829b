"""What two looks at a pipeline, and many at a day's, make of the record."""

import itertools
import random
from dataclasses import replace
from functools import reduce

import pytest

from tests.unit.ledger.made import make_day, make_failure, make_run, rerun
from worker.ledger.record import (
    MOST_FAILURES,
    MOST_OWNED,
    MOST_PIPELINES,
    MOST_SUITES,
    PipelineTests,
    RanOn,
    SuiteRun,
)


def find_passed(look: PipelineTests) -> set[str]:
    return {each.test.name for each in look.failures if each.has_passed}


def find_failed(look: PipelineTests) -> set[str]:
    return {each.test.name for each in look.failures}


FAILED = make_run(1, "test_a test_b")
UNREADABLE = SuiteRun("unit", 0, newest_job=11, is_readable=False)

LOOKS = {
    "all passed": (rerun(FAILED), {"test_a", "test_b"}),
    "one failed again": (rerun(FAILED, "test_b"), {"test_a"}),
    "another one failed": (rerun(FAILED, "test_c"), {"test_a", "test_b"}),
    "more tests": (rerun(FAILED, tests=101), {"test_a", "test_b"}),
    "fewer tests": (rerun(FAILED, tests=99), set()),
    "more were skipped": (rerun(FAILED, skipped=1), set()),
    "not readable": (replace(rerun(FAILED), suites=(UNREADABLE,)), set()),
    "no such job any more": (replace(rerun(FAILED), suites=()), set()),
    "not all that failed is known": (replace(rerun(FAILED, "test_b"), left_out=1), set()),
    "a failure is not listed": (replace(rerun(FAILED, "test_c"), failures=()), set()),
    "the same run": (replace(rerun(FAILED), suites=FAILED.suites, failures=()), set()),
}


@pytest.mark.parametrize("case", LOOKS)
def test_a_test_has_passed_if_its_suite_ran_again_whole_without_its_failure(case: str) -> None:
    look, passed = LOOKS[case]
    joined = FAILED.join(look)
    assert find_passed(joined) == passed
    assert find_failed(joined) == find_failed(FAILED) | find_failed(look)


@pytest.mark.parametrize("case", LOOKS)
def test_it_makes_no_difference_which_look_comes_first_or_again(case: str) -> None:
    look, _ = LOOKS[case]
    joined = FAILED.join(look)
    assert look.join(FAILED) == joined
    assert joined.join(FAILED) == joined.join(look) == joined
    assert FAILED.join(joined) == look.join(joined) == joined.join(joined) == joined


def test_a_pass_before_the_failure_is_no_pass_after_it() -> None:
    assert find_passed(make_run(1).join(rerun(make_run(1), "test_a"))) == set()


def test_of_three_runs_each_is_counted_once_in_any_order() -> None:
    looks = [FAILED, second := rerun(FAILED, "test_b"), rerun(second)]
    for order in itertools.permutations([*looks, *looks]):
        joined = reduce(PipelineTests.join, order)
        (run,) = joined.suites
        assert (run.runs, run.newest_job, run.seconds) == (3, 12, 90.0)
        assert joined.updated_at == looks[-1].updated_at
        assert find_passed(joined) == {"test_a", "test_b"}


def test_runs_with_other_tests_prove_nothing_of_one_another() -> None:
    """The second run had fewer tests, the third one more than that: not those of the first."""
    second = rerun(FAILED, tests=50)
    third = rerun(second, tests=60)
    for order in itertools.permutations([FAILED, second, third]):
        assert find_passed(reduce(PipelineTests.join, order)) == set()


def test_times_of_other_zones_are_compared_as_times() -> None:
    later = replace(rerun(FAILED), updated_at="2026-11-29T10:30:00.000+02:00")
    earlier = replace(FAILED, updated_at="2026-11-29T08:29:00.000Z")
    assert later.join(earlier).updated_at == earlier.join(later).updated_at == later.updated_at
    odd = replace(FAILED, updated_at="yesterday")
    assert odd.join(later).updated_at == later.join(odd).updated_at == later.updated_at


def test_what_is_left_out_of_very_much_is_the_same_in_any_order() -> None:
    names = [f"test_{n:03}" for n in range(MOST_FAILURES + 30)]
    chance = random.Random(5)
    looks = []
    for minute in range(4):
        failures = tuple(make_failure(each) for each in chance.sample(names, MOST_FAILURES - 20))
        suites = tuple(SuiteRun(f"unit {n}", 9) for n in chance.sample(range(90), 40))
        at = f"2026-11-29T08:{minute:02}:00Z"
        looks.append(replace(FAILED, updated_at=at, suites=suites, failures=failures))
    joined = reduce(PipelineTests.join, looks)
    assert len(joined.failures) == MOST_FAILURES
    assert len(joined.suites) == MOST_SUITES
    assert joined.left_out > 0
    assert not joined.is_whole("unit 1")
    for order in itertools.permutations(looks):
        again = reduce(PipelineTests.join, order)
        assert (again.failures, again.suites) == (joined.failures, joined.suites)
    assert reduce(PipelineTests.join, looks, joined) == joined


@pytest.mark.parametrize("seed", range(40))
def test_no_order_of_looks_at_a_pipeline_invents_a_pass(seed: int) -> None:
    """A suite runs up to four times, some of these break off after a part of its tests."""
    chance = random.Random(seed)
    names = [f"test_{sign}" for sign in "abcdef"]
    looks, ran, failed = [], [], []
    for attempt in range(4):
        ran.append(names[: chance.choice((2, 4, 6, 6, 6))])
        failed.append([each for each in ran[-1] if chance.random() < 0.4])
        look = rerun(make_run(1), " ".join(failed[-1]), tests=len(ran[-1]))
        at = f"2026-11-29T08:{attempt:02}:00Z"
        run = replace(look.suites[0], newest_job=attempt + 1)
        looks.append(replace(look, updated_at=at, suites=(run,)))
    true = {
        name
        for at, names in enumerate(failed)
        for name in names
        for later in range(at + 1, 4)
        if name in ran[later] and name not in failed[later]
    }
    for order in itertools.permutations(looks):
        joined = reduce(PipelineTests.join, [*order, chance.choice(looks)])
        assert find_passed(joined) <= true
        assert find_failed(joined) == {name for names in failed for name in names}
        assert joined.suites[0].runs == 4


# ---------------------------------------------------------------------------------------- a day


def test_a_day_takes_each_pipeline_once_in_any_order() -> None:
    found = [make_run(number, "test_a") for number in (3, 1, 2)]
    day = make_day(*found)
    assert [each.pipeline_id for each in day.pipelines] == [1, 2, 3]
    assert day.put(found) == make_day(*found[::-1]) == day
    assert day.put([]) == day


def test_a_full_day_stays_as_it_is() -> None:
    found = [make_run(number) for number in range(1, MOST_PIPELINES + 21)]
    day = make_day(*found)
    assert len(day.pipelines) == MOST_PIPELINES
    assert (day.left_out, day.newest_left_out) == (20, 20)
    assert day.put(found) == day.put(found[:20]) == day
    chance = random.Random(3)
    one_by_one = make_day()
    for each in chance.sample(found, len(found)):
        one_by_one = one_by_one.put([each])
    assert one_by_one.pipelines == day.pipelines


def test_a_day_knows_what_has_been_looked_at() -> None:
    day = make_day(*(make_run(number) for number in range(5, MOST_PIPELINES + 10)))
    first = day.pipelines[0]
    assert day.knows(first.pipeline_id, first.updated_at)
    assert not day.knows(first.pipeline_id, "2026-11-29T23:59:59Z")
    assert day.knows(5, "2026-11-29T23:59:59Z")
    assert not day.knows(MOST_PIPELINES + 10, first.updated_at)


def test_a_merge_requests_pipelines_are_forgotten_and_no_others() -> None:
    of_request = replace(make_run(2), mr_iid=12)
    day = make_day(make_run(1), of_request, make_run(3))
    forgotten = day.forget(12)
    looked_at = replace(of_request, suites=(), failures=())
    assert forgotten.pipelines == (make_run(1), looked_at, make_run(3))
    assert forgotten.knows(2, of_request.updated_at)
    assert day.forget(0) == day.forget(13) == day


def test_owners_of_files_are_joined_and_forgotten_with_a_merge_request() -> None:
    request = replace(make_run(2, "test_a"), ran_on=RanOn.REQUEST, mr_iid=12, ref="")
    day = make_day(make_run(1), request).own({"b.py": "mara", "a.py": ""}).own({"b.py": "li"})
    assert day.owners == (("a.py", ""), ("b.py", "li"))
    assert day.forget(13) is day
    assert day.forget(12).owners == ()
    many = day.own({f"{number:04}.py": "mara" for number in range(2 * MOST_OWNED)})
    assert len(many.owners) == MOST_OWNED
