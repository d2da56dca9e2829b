"""What the records of days say of a test, and when a failure is proven to be a flake."""

import time
from dataclasses import replace

import pytest

from tests.unit.ledger.made import BEGIN, make_day, make_failure, make_run, make_usual_day
from worker.ledger.history import Life, Order, find_lives, find_named, rank_tests
from worker.ledger.names import name_test
from worker.ledger.record import FailedTest, NamedTest, PipelineTests, RanOn, SuiteRun

TEST = make_failure("test_a").test


def find_life(*pipelines: PipelineTests, test: NamedTest = TEST, since: float = 0.0) -> Life:
    return find_lives([make_day(*pipelines)], [test], since)[test]


def of_commit(number: int, failed: str = "", run: SuiteRun | None = None) -> PipelineTests:
    """A pipeline of the commit of all these."""
    made = make_run(number, failed, runs=(run,) if run else ())
    return replace(made, sha="c" * 40)


def test_a_tests_failures_are_listed_and_its_jobs_runs_counted() -> None:
    request = replace(make_run(3, "test_a"), ran_on=RanOn.REQUEST, mr_iid=12, ref="")
    other_job = make_run(4, "test_a", job="integration")
    unreadable = make_run(5, runs=(SuiteRun("unit", 9, is_readable=False),))
    life = find_life(make_run(1), make_run(2, "test_a test_b"), request, other_job, unreadable)
    assert life.runs == 3
    assert [(each.pipeline_id, each.mr_iid, each.ref) for each in life.failures] == [
        *((2, 0, "main"), (3, 12, "")),
    ]
    assert life.first_failure_at == make_run(2).created_at
    assert life.since_at == make_run(1).created_at
    assert not life.flakes
    assert life.requests == {12}


def test_only_what_is_asked_for_is_counted_but_the_first_failure_is_known() -> None:
    runs = [make_run(number, "test_a") for number in (1, 2, 3)]
    life = find_life(*runs, since=runs[1].created_at)
    assert [each.pipeline_id for each in life.failures] == [2, 3]
    assert (life.runs, life.since_at) == (2, runs[1].created_at)
    assert life.first_failure_at == runs[0].created_at


def test_a_test_that_has_not_failed_has_a_life_too() -> None:
    life = find_life(make_run(1), make_run(2, "test_b"))
    assert (life.runs, life.failures, life.first_failure_at) == (2, (), 0.0)
    assert find_life().runs == 0


def test_each_variant_of_a_matrix_counts_and_a_pipelines_day_is_read_once() -> None:
    variants = tuple(SuiteRun(f"unit: [3.1{n}]", 100) for n in range(3))
    look = replace(make_run(1, runs=variants), failures=(make_failure("test_a", "unit: [3.11]"),))
    days = [make_day(look), make_day(look, day="2026-11-30")]
    life = find_lives(days, [TEST], 0.0)[TEST]
    assert (life.runs, [each.job for each in life.failures]) == (3, ["unit: [3.11]"])


FAILED = of_commit(1, "test_a test_b", SuiteRun("unit", 100, 2, 3))

PASSES = {
    "passed": (of_commit(2, run=SuiteRun("unit", 100, 0, 3)), 2),
    "another test failed": (of_commit(2, "test_c", SuiteRun("unit", 100, 1, 3)), 2),
    "more tests": (of_commit(2, run=SuiteRun("unit", 101, 0, 2)), 2),
    "failed again": (of_commit(2, "test_a", SuiteRun("unit", 100, 1, 3)), 0),
    "fewer tests": (of_commit(2, run=SuiteRun("unit", 99, 0, 3)), 0),
    "more were skipped": (of_commit(2, run=SuiteRun("unit", 100, 0, 4)), 0),
    "not readable": (of_commit(2, run=SuiteRun("unit", 100, 0, 3, is_readable=False)), 0),
    "no tests": (of_commit(2, run=SuiteRun("unit", 0)), 0),
    "another job": (of_commit(2, run=SuiteRun("integration", 100, 0, 3)), 0),
    "another variant": (of_commit(2, run=SuiteRun("unit: [3.12]", 100, 0, 3)), 0),
    "runs with other tests": (of_commit(2, run=SuiteRun("unit", 100, 0, 3, is_steady=False)), 0),
    "not all failures are kept": (
        replace(of_commit(2, run=SuiteRun("unit", 100, 0, 3)), left_out=1),
        0,
    ),
    "more failed than are listed": (of_commit(2, run=SuiteRun("unit", 100, 1, 3)), 0),
    "another commit": (make_run(2, runs=(SuiteRun("unit", 100, 0, 3),)), 0),
    "another source": (
        replace(of_commit(2, run=SuiteRun("unit", 100, 0, 3)), source="schedule"),
        0,
    ),
    "earlier": (of_commit(0, run=SuiteRun("unit", 100, 0, 3)), 0),
}


@pytest.mark.parametrize("case", PASSES)
def test_a_failure_is_proven_by_a_later_whole_run_of_its_job_on_the_commit(case: str) -> None:
    other, proof = PASSES[case]
    seen = find_life(FAILED, other).failures[0]
    assert (seen.passed_again, seen.passed_in) == (bool(proof), proof)


def test_a_test_that_passed_in_its_own_pipeline_is_proven_by_it() -> None:
    life = find_life(make_run(1, "test_a", passed=True))
    assert life.failures[0].passed_in == 1
    assert (life.seconds_lost, len(life.flakes)) == (60.0, 1)


def test_of_tests_that_are_one_by_their_random_parameters_all_have_to_pass() -> None:
    one, other = make_failure("test_a", passed=True), make_failure("test_a")
    for failures in ((one, other), (other, one)):
        look = replace(make_run(1), failures=failures)
        assert not find_life(look).flakes
        assert not find_life(look.join(replace(look, updated_at="2026-11-30T08:01:00Z"))).flakes


def test_a_pipeline_without_a_commit_proves_nothing() -> None:
    found = [replace(each, sha="") for each in (FAILED, PASSES["passed"][0])]
    assert not find_life(*found).flakes


# ------------------------------------------------------------------------ together, and renamed


def test_tests_that_fail_only_together_are_told_of_as_one() -> None:
    runs = (make_run(1, "test_a test_b test_c"), make_run(2, "test_a test_b test_d"))
    assert [each.name for each in find_life(*runs).together] == ["test_b"]
    assert find_life(runs[0]).together == ()
    assert find_life(*runs, test=make_failure("test_c").test).together == ()


def make_moved(number: int, place: str, file: str = "", job: str = "unit") -> PipelineTests:
    test = name_test(job, place, "test_total", file)
    look = make_run(number, runs=(SuiteRun(job, 100, 1),))
    return replace(look, failures=(FailedTest(test, job, file=file),))


OLD, NEW = "tests.test_cart.TestCart", "tests.test_cart.TestBasket"


def test_what_a_test_may_have_been_called_before_is_told_and_not_counted() -> None:
    old, new = make_moved(1, OLD, "tests/test_cart.py"), make_moved(2, NEW, "tests/test_cart.py")
    life = find_life(old, new, test=new.failures[0].test)
    assert life.former == (old.failures[0].test,)
    assert [each.pipeline_id for each in life.failures] == [2]
    assert find_life(old, new, test=old.failures[0].test).former == ()


def test_two_classes_that_fail_in_turns_are_two() -> None:
    file = "tests/test_cart.py"
    looks = [make_moved(1, OLD, file), make_moved(2, NEW, file), make_moved(3, OLD, file)]
    assert find_life(*looks, test=looks[1].failures[0].test).former == ()


def test_a_name_that_many_tests_have_says_nothing_of_a_former_one() -> None:
    new = make_moved(50, "shop.tests.test_cart.TestCart")
    test = new.failures[0].test
    assert len(find_life(make_moved(1, OLD), new, test=test).former) == 1
    others = [make_moved(number, f"tests.Test{number}") for number in range(2, 20)]
    assert find_life(make_moved(1, OLD), *others, new, test=test).former == ()


def test_a_job_is_renamed_only_if_the_two_never_ran_side_by_side() -> None:
    old, new = make_moved(1, OLD), make_moved(3, OLD, job="unit-tests")
    test = new.failures[0].test
    assert find_life(old, new, test=test).former == (old.failures[0].test,)
    both = make_run(2, runs=(SuiteRun("unit", 100), SuiteRun("unit-tests", 100)))
    assert find_life(old, both, new, test=test).former == ()


# --------------------------------------------------------------------------------------- ranked


def flake(number: int, failed: str) -> list[PipelineTests]:
    """A pipeline in which tests failed, and another one of its commit."""
    look = make_run(number, failed)
    again = replace(make_run(number + 1), sha=look.sha)
    return [look, again]


def rank(
    *looks: PipelineTests, order: Order = Order.FLAKIEST, since: float = 0.0, most: int = 50
) -> tuple[Life, ...]:
    return rank_tests([make_day(*looks)], since, most)[order]


def test_the_flakiest_tests_are_those_proven_on_most_commits() -> None:
    looks = [*flake(1, "test_a"), *flake(3, "test_a test_b"), *flake(5, "test_c")]
    looks += [make_run(number, "test_red") for number in range(7, 20)]
    flaky = rank(*looks)
    assert [life.test.name for life in flaky] == ["test_a", "test_c", "test_b"]
    assert [len(life.flakes) for life in flaky] == [2, 1, 1]
    assert [life.test.name for life in rank(*looks, most=1)] == ["test_a"]
    assert rank(*looks, since=BEGIN + 86400.0) == ()


def test_the_newest_are_those_that_failed_first_last_but_in_no_merge_request_alone() -> None:
    request = replace(make_run(9, "test_d"), ran_on=RanOn.REQUEST, mr_iid=12, ref="")
    looks = [*flake(1, "test_a"), make_run(3, "test_b"), *flake(5, "test_a test_c"), request]
    newest = rank(*looks, order=Order.NEWEST)
    assert [life.test.name for life in newest] == ["test_c", "test_b", "test_a"]


def test_the_slowest_to_be_mended_are_those_that_fail_on_the_longest() -> None:
    looks = [*flake(1, "test_a"), make_run(3, "test_b"), *flake(5, "test_c"), make_run(7, "test_a")]
    request = replace(make_run(20, "test_b"), ran_on=RanOn.REQUEST, mr_iid=12, ref="")
    looks += [make_run(8, "test_c"), make_run(9, "test_d"), request]
    slowest = rank(*looks, order=Order.SLOWEST)
    assert [(life.test.name, life.troubled_seconds) for life in slowest] == [
        *(("test_a", 360.0), ("test_c", 180.0)),
    ]
    assert [life.runs_since for life in slowest] == [3, 2]


def test_a_test_is_found_by_its_name_or_else_by_a_part_of_it() -> None:
    days = [make_day(make_run(1, "test_a test_ab Test_B"), make_run(2))]
    for wanted, names in (
        ("test_a", ["test_a"]),
        ("tests.test_cart.TestCart test_a", ["test_a"]),
        ("TEST_B ", ["Test_B"]),
        ("testcart test_", ["Test_B", "test_a", "test_ab"]),
        ("b", ["Test_B", "test_ab"]),
        ("test_z", []),
    ):
        found = find_named(days, wanted, 0.0)
        assert [life.test.name for life in found] == names, wanted


def test_of_tests_that_fail_only_together_one_is_listed() -> None:
    looks = [*flake(1, "test_a test_b"), *flake(3, "test_a test_b"), *flake(5, "test_c")]
    flaky = rank(*looks)
    assert [(life.test.name, len(life.together)) for life in flaky] == [
        ("test_a", 1),
        ("test_c", 0),
    ]


@pytest.mark.slow
def test_sixty_days_of_a_busy_project_take_less_than_a_second() -> None:
    days = [make_usual_day(number) for number in range(60)]
    tests = [each.test for each in days[-1].pipelines[-1].failures]
    begin = time.process_time()
    find_lives(days, tests, 0.0)
    assert time.process_time() - begin < 1
    begin = time.process_time()
    rank_tests(days, 0.0)
    assert time.process_time() - begin < 1
