"""What the survey tells of a failing job's log itself: where it was cut, and its clock."""

import pytest

from tests.simulators.gitlab import GitLabSim, Scene
from tests.unit.conftest import subject_of
from tests.worlds import branch_pipeline
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.verdict.facts import parse_time


def _open(sim: GitLabSim, scene: Scene, made: type[ReadClient] = ReadClient) -> Reader:
    client = made(sim.url, scene.read_token, timeout=(2.0, 2.0))
    return Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)


STARTED = "2026-11-20T09:00:02.500Z"


@pytest.mark.parametrize(
    ("stamp", "started_at", "now", "told"),
    [
        ("2026-11-19T20:11:53", STARTED, "2026-11-20T09:04:00", "12:48:09 (h:mm:ss) behind"),
        ("2026-11-22T10:00:00", STARTED, "2026-11-20T09:00:00", "2 days, 0:59:57 (h:mm:ss) ahead"),
        ("2026-11-20T08:45:00", STARTED, "2026-11-20T09:12:00", "0:15:02 (h:mm:ss) behind"),
        ("2026-11-20T08:45:00", STARTED, "2026-11-20T10:00:00", ""),
        ("2026-11-19T20:11:53", STARTED, "2026-11-28T09:00:00", ""),
        ("2026-11-22T10:00:00", STARTED, "2026-11-22T10:03:00", ""),
        ("2026-11-19T20:11:53", STARTED, "2026-11-19T20:14:00", ""),
        ("2026-11-19T20:11:53", STARTED, "", ""),
        ("2026-11-20T09:02:00", STARTED, "2026-11-20T09:04:00", ""),
        ("2026-11-19T20:11:53", None, "2026-11-20T09:04:00", ""),
    ],
    ids=["behind", "ahead", "a little behind", "a little behind, long ago", "long ago",
         "GitLab's clock is the runner's", "GitLab's record lies ahead of its clock",
         "GitLab's clock is not known", "alike", "no record"],
)  # fmt: skip
def test_a_runners_wrong_clock_is_told_where_gitlabs_own_clock_says_so(
    sim: GitLabSim, scene: Scene, stamp: str, started_at: str | None, now: str, told: str
) -> None:
    class Dated(ReadClient):
        def get_time(self) -> float | None:
            return parse_time(f"{now}Z")

    words = ("Running with gitlab-runner 19.1.0", "FAILED tests/test_sum.py::test_sum - assert 1")
    lines = [f"{stamp}.000000Z 00O {each}\n" for each in words]
    scene.job.trace, scene.job.started_at = "".join(lines).encode(), started_at
    (group,) = read_survey(_open(sim, scene, Dated)).groups
    clocks = [fact for fact in group.facts if "clock" in fact]
    begins = f"{stamp.replace('T', ' ')} UTC"
    assert len(clocks) == bool(told)
    assert all(told in fact and f"its log begins at {begins}, by" in fact for fact in clocks)


def test_a_log_that_the_runner_cut_says_when(sim: GitLabSim, scene: Scene) -> None:
    lines = [
        "2026-11-20T09:00:00.000000Z 00O Running with gitlab-runner 19.1.0",
        "2026-11-20T09:11:55.000000Z 01O FAILED tests/test_sum.py::test_sum - assert 1",
        "2026-11-20T09:11:55.000000Z 01O Job's log exceeded limit of 4194304 bytes.",
        "",
    ]
    scene.job.trace = "\n".join(lines).encode()
    scene.job.duration = 3600.0
    (group,) = read_survey(_open(sim, scene)).groups
    assert (
        "the runner cut the log at 4,194,304 bytes after 715 s of the job's 3,600 s" in group.facts
    )


_NOISE = "FATAL [terminal T3] payment of {0} cents refused\nERROR: ledger.csv:{1}: not read: ';'\n"


def _make_log(missed: str, *, paid: int = 2500, line: int = 3) -> bytes:
    """The log of a home-grown test runner, in which tests that pass print errors."""
    said = (
        f"mismatch: {missed} is not rounded\nERROR: Job failed: exit code 1" if missed else "fine"
    )
    return f"$ run-tests\n{_NOISE.format(paid, line)}{said}\n".encode()


@pytest.mark.parametrize(
    ("elsewhere", "settled"),
    [("the footer in Finland", ""), ("cash in Sweden", "already failing on the target branch")],
)
def test_errors_that_the_passed_run_prints_too_are_no_part_of_the_failure(
    sim: GitLabSim, scene: Scene, elsewhere: str, settled: str
) -> None:
    scene.job.trace = _make_log("cash in Sweden")
    name, green = scene.job.name, branch_pipeline(sim, scene.mr, "c" * 40)
    green.status = "success"
    sim.add_job(green, name, trace=_make_log("", paid=1800, line=4))
    red = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    sim.add_job(red, name, status="failed", trace=_make_log(elsewhere))
    (group,) = read_survey(_open(sim, scene)).groups
    assert group.hard_verdict == settled
    assert "FATAL" not in group.text
    assert "ERROR" not in group.text
    assert group.text == "mismatch: cash in Sweden is not rounded"


_GO = """\
$ go test ./... -v
=== RUN   TestServe
    serve_test.go:31: cannot connect to 127.0.0.1:8080: connection refused, trying again
--- PASS: TestServe (0.21s)
{0}
FAIL	example.com/shop/cart	12.3s
ERROR: Job failed: exit code 1
"""
_RAKE = """\
$ bundle exec rake spec
rake aborted!
{0}
Tasks: TOP => spec
(See full trace by running task with --trace)
ERROR: Job failed: exit code 1
"""
_NINJA = """\
$ cmake --build build
FAILED: CMakeFiles/shop.dir/src/tax.cc.o
/usr/bin/c++ -I/builds/include -O2 -Wall -o CMakeFiles/shop.dir/src/tax.cc.o -c src/tax.cc
{0}
ninja: build stopped: subcommand failed.
ERROR: Job failed: exit code 1
"""
_RACE = """\
$ go test -race ./...
==================
WARNING: DATA RACE
Write at 0x00c0001b4010 by goroutine 9:
  example.com/shop/{0}()
      /builds/acme/shop/store.go:41 +0x8c
==================
--- FAIL: TestStore (0.01s)
    testing.go:1399: race detected during execution of test
ERROR: Job failed: exit code 1
"""


@pytest.mark.parametrize(
    ("log", "one", "other"),
    [
        (_GO, "signal: killed", "signal: segmentation fault (core dumped)"),
        (_RAKE, "Redis::CannotConnectError: refused", "Don't know how to build task 'spec'"),
        (_NINJA, "c++: fatal error: Killed signal terminated program cc1plus", "Killed"),
        (_RACE, "store.Put", "index.Len"),
    ],
    ids=["logs of tests that passed", "a task's end", "the target of a build", "a race"],
)
def test_what_both_logs_have_though_it_fails_no_job_is_not_the_same_failure_on_main(
    sim: GitLabSim, scene: Scene, log: str, one: str, other: str
) -> None:
    def find_verdict(there: str) -> str:
        red.jobs.clear()
        sim.add_job(red, scene.job.name, status="failed", trace=log.format(there).encode())
        (group,) = read_survey(_open(sim, scene)).groups
        return group.hard_verdict

    scene.job.trace = log.format(one).encode()
    red = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    assert find_verdict(other) == ""
    assert find_verdict(one) == "already failing on the target branch"
