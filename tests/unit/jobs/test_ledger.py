"""Which pipelines' tests are recorded: once for each state, by a turn or by the sweep, whatever
dies in between."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.jobs.reported_tests import (
    DAY,
    FAILED,
    NOW,
    PROJECTS,
    Reported,
    WatchedFolder,
    build_deps,
    make_tests,
    make_world,
    write_time,
)
from worker.errors import SourceError, StoreError
from worker.jobs.ledger import record_tests
from worker.jobs.missed_tests import MOST_OF_PROJECT, record_missed
from worker.jobs.repair import Swept
from worker.ledger.record import DayRecord, PipelineTests
from worker.sessions.folder import Folder
from worker.turns.parts import Deps

TODAY = "2026-11-20"
HOUR = 3600.0


class Ledger:
    """The ledger of a folder, and who writes into it."""

    def __init__(self, root: Path, reported: Reported | None = None) -> None:
        self.root, self.reported = root, reported or Reported()
        self.deps = build_deps(self.reported, Folder(root, 10.0))

    def sweep(self, most: int = 1000, since: float = 0.0, *, act: bool = True) -> list[Swept]:
        return list(record_missed(self.deps, since, most, act=act))

    def list_recorded(self, project: int = 7) -> list[tuple[str, list[int]]]:
        days = self.deps.storage.ledger.read_days(project, 0.0)
        return [(each.day, [one.pipeline_id for one in each.pipelines]) for each in days]

    def read(self, number: int, day: str = TODAY) -> PipelineTests:
        record = self.deps.storage.ledger.read_day(7, day)
        (found,) = [each for each in record.pipelines if each.pipeline_id == number]  # type: ignore[union-attr]
        return found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_a_sweep_records_what_is_missing_and_writes_each_day_once(ledger: Ledger) -> None:
    for number, age in ((1, 2 * DAY), (2, DAY), (3, DAY), (4, HOUR)):
        ledger.reported.add(number, age)
    ledger.reported.add(5, HOUR, 8)
    told = ledger.sweep()
    assert [each.what for each in told] == [
        "tests of group/app on 2026-11-18: 1 pipelines",
        "tests of group/app on 2026-11-19: 2 pipelines",
        "tests of group/app on 2026-11-20: 1 pipelines",
        "tests of group/other on 2026-11-20: 1 pipelines",
    ]
    assert all(each.was_begun for each in told)
    expected = [("2026-11-18", [1]), ("2026-11-19", [2, 3]), (TODAY, [4])]
    assert ledger.list_recorded() == expected
    assert ledger.list_recorded(8) == [(TODAY, [5])]
    assert ledger.read(4) == ledger.reported.answers[4]
    record = ledger.deps.storage.ledger.read_day(8, TODAY)
    assert record is not None
    assert record.project == "group/other"
    assert ledger.sweep() == []
    assert ledger.reported.asked == [1, 2, 3, 4, 5]


def test_a_pipeline_whose_jobs_ran_again_is_read_again(ledger: Ledger) -> None:
    ledger.reported.add(1, HOUR)
    ledger.sweep()
    ledger.reported.run_again(1)
    assert len(ledger.sweep()) == 1
    assert ledger.sweep() == []
    assert ledger.reported.asked == [1, 1]
    assert ledger.read(1).failures == (replace(FAILED, has_passed=True),)


def test_what_a_turn_has_recorded_is_not_read_by_the_sweep(ledger: Ledger) -> None:
    ledger.reported.add(1, HOUR)
    for _ in range(2):
        record_tests(7, 1, ledger.deps, "group/app")
    assert ledger.list_recorded() == [(TODAY, [1])]
    assert ledger.sweep() == []
    assert ledger.reported.asked == [1, 1]


def test_a_pipeline_whose_tests_do_not_count_is_looked_at_once(ledger: Ledger) -> None:
    ledger.reported.add(1, HOUR)
    ledger.reported.answers[1] = "!4 comes from a fork of a stranger"
    record_tests(7, 1, ledger.deps)
    assert ledger.list_recorded() == []
    ledger.sweep()
    assert ledger.sweep() == []
    assert ledger.reported.asked == [1, 1]
    assert (ledger.read(1).suites, ledger.read(1).failures) == ((), ())


def test_one_that_has_reported_nothing_is_believed_after_a_while(ledger: Ledger) -> None:
    made = ledger.reported.add(1, HOUR)
    for age, is_known in ((300.0, False), (900.0, True)):
        listed = replace(made, updated_at=write_time(NOW - age))
        ledger.reported.listed = [listed]
        empty = replace(make_tests(listed), suites=(), failures=())
        ledger.reported.answers[1] = empty
        record_tests(7, 1, ledger.deps)
        ledger.sweep()
        assert bool(ledger.list_recorded()) is is_known


@pytest.mark.parametrize("age", [61 * DAY, 400 * DAY, -2 * DAY])
def test_what_is_too_old_or_of_the_future_is_left_out(ledger: Ledger, age: float) -> None:
    ledger.reported.add(1, age)
    record_tests(7, 1, ledger.deps)
    assert ledger.sweep() == []
    assert ledger.list_recorded() == []
    assert ledger.reported.asked == [1]


def test_nothing_is_asked_where_tests_are_off_or_nothing_is_stored(tmp_path: Path) -> None:
    reported = Reported()
    reported.add(1, HOUR)
    off = build_deps(reported, Folder(tmp_path, 10.0), days=0)
    record_tests(7, 1, off)
    assert list(record_missed(off, 0.0)) == []
    record_tests(7, 1, build_deps(reported, Folder(tmp_path, 10.0), dry_run=True))
    assert reported.asked == reported.since == []


def test_only_what_gitlab_has_touched_since_is_asked_for(ledger: Ledger) -> None:
    ledger.sweep(since=NOW - HOUR)
    ledger.sweep(since=0.0)
    assert ledger.reported.since == [NOW - HOUR, NOW - 60 * DAY - 12 * HOUR]


def test_a_dry_sweep_tells_and_reads_nothing(ledger: Ledger) -> None:
    ledger.reported.add(1, HOUR)
    assert [each.what for each in ledger.sweep(act=False)] == [
        f"tests of group/app on {TODAY}: 1 pipelines"
    ]
    assert ledger.reported.asked == []
    assert ledger.list_recorded() == []
    assert list(ledger.root.rglob("*.json")) == []


def test_a_sweep_is_bounded_and_the_next_one_goes_on_with_the_oldest_first(ledger: Ledger) -> None:
    for number in range(1, MOST_OF_PROJECT + 12):
        ledger.reported.add(number, DAY - 60 * number)
    ledger.reported.add(500, HOUR, 8)
    ledger.sweep(10)
    assert ledger.reported.asked == [*range(1, 11)]
    ledger.sweep()
    assert ledger.reported.asked[10:] == [*range(11, MOST_OF_PROJECT + 11), 500]
    ledger.sweep()
    assert ledger.reported.asked[-1] == MOST_OF_PROJECT + 11
    assert ledger.sweep() == []


def test_what_cannot_be_read_is_said_and_the_rest_is_recorded(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        ledger.reported.add(number, HOUR)
    for number in (4, 5):
        ledger.reported.add(number, HOUR, 8)
    ledger.reported.gaps = ["the projects: no answer"]
    answers = ledger.reported.answers
    answers[2] = SourceError("there is no such report")
    answers[4] = SourceError("GitLab does not answer", transient=True)
    gap, odd, first, away = ledger.sweep()
    assert (gap.is_gap, gap.reason) == (True, "the projects: no answer")
    assert odd == Swept(f"tests of group/app on {TODAY}: pipeline 2", "there is no such report")
    assert first.what == f"tests of group/app on {TODAY}: 2 pipelines"
    assert away.reason == "GitLab does not answer"
    assert ledger.list_recorded() == [(TODAY, [1, 3])]
    assert ledger.reported.asked == [1, 2, 3, 4]
    for number in (2, 4):
        record_tests(7 if number == 2 else 8, number, ledger.deps)  # raises nothing


def test_a_damaged_day_costs_no_request_and_hides_no_other(ledger: Ledger) -> None:
    ledger.reported.add(1, DAY)
    ledger.reported.add(2, HOUR)
    ledger.sweep()
    place = ledger.root / "tests" / "7" / "2026-11-19.json"
    place.write_bytes(b"[]")
    ledger.reported.add(3, HOUR)
    damaged, told = ledger.sweep()
    assert damaged.what == "tests of group/app on 2026-11-19"
    assert "is looked at again in" in damaged.reason
    assert told.was_begun
    record_tests(7, 1, ledger.deps)  # raises nothing
    assert place.read_bytes() == b"[]"
    ledger.deps.runtime.clock.sleep(200)
    ledger.sweep()
    assert ledger.list_recorded() == [("2026-11-19", [1]), (TODAY, [2, 3])]


def test_a_store_that_is_away_ends_the_sweep_but_no_turn(ledger: Ledger) -> None:
    ledger.reported.add(1, HOUR)
    (ledger.root / "tests").write_text("in the way")
    record_tests(7, 1, ledger.deps)
    with pytest.raises(StoreError):
        ledger.sweep()


def test_what_was_forgotten_is_not_read_again(ledger: Ledger) -> None:
    made = ledger.reported.add(1, HOUR)
    answer = ledger.reported.answers[1]
    assert isinstance(answer, PipelineTests)
    ledger.reported.answers[1] = replace(answer, mr_iid=42, source="merge_request_event")
    ledger.sweep()
    assert ledger.deps.storage.ledger.forget_request(7, 42) == 1
    assert ledger.sweep() == []
    assert ledger.read(1).failures == ()
    assert ledger.read(1).updated_at == made.updated_at


# ------------------------------------------------------------------------------ deaths and rivals


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_turn_records_while_the_sweep_writes_is_kept(ledger: Ledger, is_there: bool) -> None:
    ledger.reported.add(1, HOUR)
    turn = Ledger(ledger.root)
    for number in (2, 3, 4):
        turn.reported.add(number, HOUR)
    if is_there:
        record_tests(7, 4, turn.deps)
    ends = [2, 3]

    def end_turn(point: str) -> None:
        if point == "write" and ends:
            record_tests(7, ends.pop(), turn.deps)

    ledger.deps = build_deps(ledger.reported, WatchedFolder(ledger.root, end_turn))
    ledger.sweep()
    assert ledger.list_recorded() == [(TODAY, [1, 2, 3, 4] if is_there else [1, 2, 3])]
    assert ends == []


def expect_world() -> dict[int, Sequence[DayRecord]]:
    """What the days of `make_world` hold in the end."""
    world, days = make_world(), dict[tuple[int, str], DayRecord]()
    for listed in world.listed:
        day = write_time(listed.created_at)[:10]
        place = (listed.project_id, day)
        record = days.get(place) or DayRecord(listed.project_id, listed.project, day)
        answer = world.answers[listed.pipeline_id]
        assert isinstance(answer, PipelineTests)
        days[place] = record.put([answer])
    return {
        project: [days[place] for place in sorted(days) if place[0] == project]
        for project in PROJECTS
    }


def start_sweep(root: Path, point: str, times: int) -> subprocess.Popen[str]:
    words = ("-m", "tests.unit.jobs.reported_tests", str(root), point, str(times))
    return subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def record_all(deps: Deps, numbers: Sequence[int]) -> None:
    """Let turns end, one after the other."""
    for number in numbers:
        record_tests(7 + number % 2, number, deps, PROJECTS[7 + number % 2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "times"),
    [("read", 12), ("write", 1), ("written", 2)],
)
def test_of_two_sweeps_and_turns_at_once_of_which_one_is_killed_nothing_is_lost(
    tmp_path: Path, point: str, times: int
) -> None:
    with start_sweep(tmp_path, point, times) as mortal, start_sweep(tmp_path, "", 10**9) as whole:
        for each in (mortal, whole):
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        turns = Ledger(tmp_path, make_world())
        thread = threading.Thread(target=record_all, args=(turns.deps, [*range(60, 0, -3)]))
        thread.start()
        for each in (mortal, whole):
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        thread.join(60)
        # The other one may have been so fast that nothing was left to die of.
        assert mortal.wait(60) in (-9, 0)
        assert whole.wait(60) == 0
    last = Ledger(tmp_path, make_world())
    assert last.sweep() == []
    for project, days in expect_world().items():
        assert list(last.deps.storage.ledger.read_days(project, 0.0)) == days
    assert last.reported.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("point", ["read", "write", "written"])
def test_the_next_sweep_goes_on_where_one_was_killed(tmp_path: Path, point: str) -> None:
    with start_sweep(tmp_path, point, 3) as mortal:
        mortal.communicate("go\n", 60)
        assert mortal.returncode == -9
    last = Ledger(tmp_path, make_world())
    last.sweep()
    for project, days in expect_world().items():
        assert list(last.deps.storage.ledger.read_days(project, 0.0)) == days
    again = Ledger(tmp_path, make_world())
    assert (again.sweep(), again.reported.asked) == ([], [])


OWNERS = "* @crew\n/tests/ @mara @pier/harbour\n"


def find_owned(ledger: Ledger) -> tuple[tuple[str, str], ...]:
    record = ledger.deps.storage.ledger.read_day(7, TODAY)
    assert record
    return record.owners


def test_who_owns_the_files_of_failed_tests_is_read_once_a_day(ledger: Ledger) -> None:
    ledger.reported.owners = OWNERS
    for number, files in ((1, ("tests/a.py", "b.py")), (2, ("b.py",)), (3, ("", "c.py"))):
        failures = tuple(replace(FAILED, file=file, job=file) for file in files)
        made = make_tests(ledger.reported.add(number, HOUR))
        ledger.reported.answers[number] = replace(made, failures=failures)
        record_tests(7, number, ledger.deps)
    assert ledger.reported.owners_read == [(7, "HEAD"), (7, "HEAD")]
    assert find_owned(ledger) == (
        *(("b.py", "crew"), ("c.py", "crew"), ("tests/a.py", "mara, pier/harbour")),
    )


def test_without_owners_the_tests_are_recorded_all_the_same(ledger: Ledger) -> None:
    made = make_tests(ledger.reported.add(1, HOUR))
    ledger.reported.answers[1] = replace(made, failures=(replace(FAILED, file="tests/a.py"),))
    ledger.reported.owners = SourceError("GitLab does not answer", transient=True)
    record_tests(7, 1, ledger.deps)
    assert (ledger.list_recorded(), find_owned(ledger)) == ([(TODAY, [1])], ())
    ledger.reported.owners = ""
    record_tests(7, 1, ledger.deps)
    record_tests(7, 1, ledger.deps)
    assert find_owned(ledger) == (("tests/a.py", ""),)
    assert len(ledger.reported.owners_read) == 2
