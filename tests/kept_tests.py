"""Days of reported tests in a store, as the commands and pages that show them need them."""

from collections.abc import Iterable
from dataclasses import replace

from worker.ledger.names import name_test
from worker.ledger.record import DayRecord, FailedTest, PipelineTests, RanOn, SuiteRun
from worker.sessions.layout import name_day
from worker.sessions.ledger import LedgerStore
from worker.sessions.store import SessionStore

DAY = 86_400.0
TEXT = "AssertionError: assert 12 == 13"


def make_failed(name: str, job: str = "unit", text: str = TEXT, **changes: object) -> FailedTest:
    test = name_test(job, "tests.test_ferry.TestSeats", name, "")
    file = "tests/test_ferry.py"
    return replace(FailedTest(test, job, text, key=text, file=file), **changes)  # type: ignore[arg-type]


def make_pipeline(
    number: int, at: float, *failed: FailedTest, mr: int = 0, sha: str = "", job: str = "unit"
) -> PipelineTests:
    """A pipeline with one suite of 214 tests: of a merge request, or of main; each of a commit of
    its own unless one is given."""
    return PipelineTests(
        pipeline_id=number,
        sha=sha or f"{number:040x}",
        source="merge_request_event" if mr else "push",
        ran_on=RanOn.REQUEST if mr else RanOn.DEFAULT,
        created_at=at,
        ref="" if mr else "main",
        mr_iid=mr,
        updated_at=f"{name_day(at)}T12:00:00.000Z",
        suites=(SuiteRun(job, 214, len(failed), newest_job=10 * number, seconds=240.0),),
        failures=failed,
    )


def make_story(now: float) -> list[PipelineTests]:
    """Ten days: `test_late` is a flake on main and in two merge requests, `test_new` failed today
    for the first time, and `test_own` in one merge request alone."""
    late = make_failed("test_late")
    runs = [make_pipeline(100 + back, now - back * DAY) for back in range(3, 10)]
    return [
        *runs,
        make_pipeline(80, now - 9.5 * DAY, late, sha="a" * 40),
        make_pipeline(81, now - 9.4 * DAY, sha="a" * 40),
        make_pipeline(200, now - 2.2 * DAY, late, mr=12, sha="b" * 40),
        make_pipeline(201, now - 2.1 * DAY, mr=12, sha="b" * 40),
        make_pipeline(202, now - 1.2 * DAY, late, make_failed("test_own"), mr=15),
        make_pipeline(210, now - 0.2 * DAY, make_failed("test_new", text="KeyError: 'tide'")),
    ]


def keep(
    store: SessionStore,
    pipelines: Iterable[PipelineTests],
    project_id: int = 7,
    project: str = "aviary/tern",
    **changes: object,
) -> LedgerStore:
    """Put pipelines into the days' records of a project; `changes` are fields of these."""
    ledger = LedgerStore(store.records)
    for each in pipelines:
        day = name_day(each.created_at)

        def put(record: DayRecord | None, each: PipelineTests = each, day: str = day) -> DayRecord:
            before = record or DayRecord(project_id, project, day)
            return replace(before, **changes).put([each])  # type: ignore[arg-type]

        ledger.change_day(project_id, day, put)
    return ledger
