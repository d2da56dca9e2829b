"""An excerpt says how the job ended and where one that was stopped was; alike lines are few."""

import pytest

from worker.logs.excerpt import preview_log

SCRIPT = 'Executing "step_script" stage of the job script'
TIMED_OUT = "ERROR: Job failed: execution took longer than 15m0s seconds"
FAILED = "ERROR: Job failed: exit code 127"


def shown(limit: int, *lines: str) -> list[str]:
    excerpt = preview_log("\n".join([*lines, ""]).encode(), limit)
    return [line.partition(": ")[2] for line in excerpt.split("\n")]


def compiled(name: str) -> list[str]:
    return [
        f"cc -Iinclude -c src/{name}.c -o build/{name}.o",
        "include/wire/frame.h:12:20: error: field ‘kind’ has incomplete type",
        "   12 |     enum wire_kind kind;",
        "      |                    ^~~~",
        f"src/{name}.c:6:10: error: ‘{name.upper()}’ undeclared (first use in this function)",
        f"    6 |     case {name.upper()}: return 1;",
        "      |          ^~~~~~~~~",
        f"make: *** [Makefile:12: build/{name}.o] Error 1",
    ]


MADE = [line for n in range(40) for line in compiled(f"part_{n}")]


@pytest.mark.parametrize("limit", [1_024, 4_096])
@pytest.mark.parametrize("heartbeat", ["level=debug msg=heartbeat n={n}", "waiting ({n} s) ..."])
@pytest.mark.parametrize(
    "begun", ["=== RUN   TestOnSegment", "[ RUN      ] Segment.Flush", "segment 7 is written"]
)
def test_of_a_stopped_job_the_last_lines_that_do_not_repeat_are_shown(
    limit: int, heartbeat: str, begun: str
) -> None:
    beats = [heartbeat.format(n=n) for n in range(900)]
    passed = [f"=== RUN   TestAdd/records_{n}" for n in range(100)]
    lines = shown(limit, SCRIPT, "$ go test -v ./spool", *passed, begun, *beats, TIMED_OUT)
    assert begun in lines
    assert beats[-1] in lines
    assert lines[-1] == TIMED_OUT
    assert sum(line in beats for line in lines) <= 15


@pytest.mark.parametrize("end", [TIMED_OUT, "ERROR: Job failed: exit code 124"])
def test_the_test_that_was_begun_last_is_shown_though_many_were_begun_like_it(end: str) -> None:
    runs = [f"=== RUN   TestAdd/records_{n}" for n in range(100)]
    beats = [f"heartbeat {n}" for n in range(900)]
    lines = shown(1_024, SCRIPT, "$ timeout 600 go test -v ./spool", *runs, *beats, end)
    assert runs[-1] in lines


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_the_last_command_and_what_it_said_last_are_shown_whatever_failed_before(
    limit: int,
) -> None:
    command, said = "$ ./build/dump a.bin", "bash: line 5: ./build/dump: No such file or directory"
    after = ["Running after_script", "$ ls", *(f"part_{n}.o" for n in range(100))]
    for more in ([], after):
        lines = shown(limit, SCRIPT, "$ make -k tools || true", *MADE, command, said, *more, FAILED)
        assert {command, said, FAILED} <= set(lines)


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_the_first_error_of_a_compiler_is_shown(limit: int) -> None:
    first = "include/wire/kind.h:3:7: error: expected identifier before numeric constant"
    assert first in shown(limit, SCRIPT, "$ make -k", first, *MADE, FAILED)


@pytest.mark.parametrize("before", [5, 900])
def test_the_head_of_the_first_complaint_of_a_linter_is_shown(before: int) -> None:
    complaints = [
        "F401 [*] `json` imported but unused",
        " --> labels/batch.py:2:8",
        "  |",
        "2 | import json",
        "  |        ^^^^",
        "help: Remove unused import: `json`",
        "  - import json",
        "2 | from typing import Iterable",
        "",
        "B006 Do not use mutable data structures for argument defaults",
        "  --> labels/batch.py:14:61",
    ]
    calm = [f"read part_{n}.py in {n} ms" for n in range(before)]
    lines = shown(1_024, SCRIPT, "$ ruff check", *calm, *complaints, "Found 3 errors.", FAILED)
    assert complaints[0] in lines
    assert complaints[9] in lines


def test_alike_lines_of_failed_tests_leave_room_for_what_explains_them() -> None:
    tests = [
        line
        for n in range(250)
        for line in (
            f'Argument "{n}h30" isn\'t numeric in multiplication (*) at lib/Duration.pm line 10.',
            f"#   Failed test '{n}h30'",
            "#   at t/10-duration.t line 9.",
            f"#          got: '{n}'",
            f"#     expected: '{n + 30}'",
        )
    ]
    names = [f"not ok {n} - {n}h30" for n in range(250)]
    lines = shown(4_096, SCRIPT, "$ make -k ci", *tests, *names, "Result: FAIL", FAILED)
    heads = [line for line in lines if line in names or line.startswith("#   Failed test")]
    assert len(heads) <= 60
    assert sum("isn't numeric" in line for line in lines) >= 3
