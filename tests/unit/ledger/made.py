"""Made days of a project's tests."""

import random
from dataclasses import replace

from worker.ledger.names import name_suite, name_test
from worker.ledger.record import DayRecord, FailedTest, PipelineTests, RanOn, SuiteRun

DAY = "2026-11-29"
BEGIN = 1795910400.0
"""When the day begins, in epoch seconds."""

HOUR = 3600.0


def make_failure(name: str, job: str = "unit", text: str = "", passed: bool = False) -> FailedTest:
    test = name_test(job, "tests.test_cart.TestCart", name, "")
    return FailedTest(test, job, text, key=text and f"key of {text}", has_passed=passed)


def make_run(
    number: int,
    failed: str = "",
    runs: tuple[SuiteRun, ...] = (),
    job: str = "unit",
    passed: bool = False,
) -> PipelineTests:
    """A pipeline of the default branch, each of a commit of its own, of one suite of 100 tests in
    which those named failed."""
    failures = tuple(make_failure(each, job, passed=passed) for each in failed.split())
    suites = runs or (SuiteRun(job, 100, len(failures), newest_job=10 * number, seconds=60.0),)
    return PipelineTests(
        pipeline_id=number,
        sha=f"{number:040x}",
        source="push",
        ran_on=RanOn.DEFAULT,
        created_at=BEGIN + 60.0 * number,
        ref="main",
        updated_at=f"2026-11-29T08:{number % 60:02}:00.000Z",
        suites=suites,
        failures=failures,
    )


def rerun(
    look: PipelineTests, failed: str = "", tests: int = 100, skipped: int = 0
) -> PipelineTests:
    """A later look at a pipeline whose suite ran again."""
    job, minute = look.suites[0].job, int(look.updated_at[14:16]) + 1
    names = failed.split()
    run = SuiteRun(job, tests, len(names), skipped, look.suites[0].newest_job + 1, seconds=90.0)
    return replace(
        look,
        updated_at=f"2026-11-29T08:{minute:02}:00.000Z",
        suites=(run,),
        failures=tuple(make_failure(each, job) for each in names),
    )


def make_day(*pipelines: PipelineTests, day: str = DAY) -> DayRecord:
    return DayRecord(7, "acme/shop", day).put(pipelines)


JOBS = [*(f"unit: [3.1{n}, pg14]" for n in range(4)), "rspec", "e2e", "lint", "jest", "go", "chart"]


def make_usual_day(number: int, pipelines: int = 100) -> DayRecord:
    """A day as a busy project has them: ten suites of 2,000 tests, three failures a pipeline."""
    chance = random.Random(number)
    found = []
    for at in range(pipelines):
        is_request = chance.random() < 0.7
        failed = [chance.choice(JOBS) for _ in range(chance.choice((0, 1, 2, 3, 4, 5, 6)))]
        failures = tuple(
            FailedTest(
                name_test(
                    job,
                    f"tests.{name_suite(job)}.test_module_{chance.randrange(300)}.TestCase",
                    f"test_behaviour_{chance.randrange(40)}[variant-{chance.randrange(5)}]",
                    "",
                ),
                job,
                text=f"AssertionError: assert {chance.randrange(1000)} == {chance.randrange(1000)}",
                key=f"{chance.getrandbits(64):016x}",
                file=f"tests/{name_suite(job)}/test_module_{chance.randrange(300)}.py",
            )
            for job in failed
        )
        suites = tuple(
            SuiteRun(job, 2000, failed.count(job), 12, chance.randrange(9 * 10**9), 1,
                     chance.randrange(900) + 0.25 if job in failed else 0.0)
            for job in JOBS
        )  # fmt: skip
        iid = chance.randrange(1, 3000) if is_request else 0
        found.append(
            PipelineTests(
                pipeline_id=1_000_000_000 + number * 1000 + at,
                sha=f"{chance.getrandbits(160):040x}",
                source="merge_request_event" if is_request else "push",
                ran_on=RanOn.REQUEST if is_request else RanOn.DEFAULT,
                created_at=BEGIN + number * 86400.0 + at * 800 + 0.123,
                ref="" if is_request else "main",
                mr_iid=iid,
                updated_at=f"2026-11-29T{at % 24:02}:{at % 60:02}:26.{at:03}Z",
                suites=suites,
                failures=failures,
            )
        )
    return DayRecord(7, "acme/shop", DAY).put(found)
