"""A failure's block stays together, and what tools add to any failure gives way to it."""

import pytest

from tests.unit.logs.test_excerpt import FAILURES, calm, log, texts
from worker.logs import line_marks
from worker.logs.excerpt import preview_log


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_no_line_is_left_out_alone(limit: int) -> None:
    """The mark of its gap would say less, and cost nearly as much."""
    block = [line for n in range(40) for line in (f"error: part {n:x} is lost", f"  at shelf {n}")]
    shown = preview_log(log(*calm(900), *block, *calm(90, seed=3)), limit)
    places = [int(line.partition(":")[0]) for line in shown.split("\n") if line != "…"]
    alone = [at for at in places if at + 2 in places and at + 1 not in places]
    assert len(places) > 10
    assert len(alone) <= 1


def test_what_explains_a_failure_is_kept_twenty_lines_below_its_head() -> None:
    steps = [f"   part {n} of the cart" for n in range(22)]
    cleaned = log(*calm(900), "the cart failed:", *steps, "   shelf 7 holds 3", *calm(900, seed=2))
    assert "   shelf 7 holds 3" in texts(preview_log(cleaned, 4_096))


ASIDES = {
    "maven": [
        "[ERROR] -> [Help 1]",
        "[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.",
        "[ERROR] Re-run Maven using the -X switch to enable full debug logging.",
        "[ERROR] For more information about the errors and possible solutions, read the articles:",
        "[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException",
    ],
    "npm": [
        "npm ERR! This is probably not a problem with npm. There is likely more above.",
        "npm ERR! A complete log of this run can be found in:",
        "npm ERR!     /root/.npm/_logs/2025-03-01T10_00_00_000Z-debug.log",
    ],
    "configure": [
        "-- Performing Test HAVE_OFF64_T - Failed",
        "_configtest.c:1:24: fatal error: sys/endian.h: No such file or directory",
        "/builds/a/build/CMakeFiles/CMakeTmp/src.c:3:1: error: unknown type name 'off64_t'",
    ],
}


@pytest.mark.parametrize("asides", ASIDES.values(), ids=ASIDES)
def test_a_failure_comes_before_what_any_error_of_a_tool_ends_with(asides: list[str]) -> None:
    failures = [line for failure in FAILURES.values() for line in failure]
    cleaned = log(*calm(900), *asides * 4, *failures, *asides, "make: *** [test] Error 1")
    shown = texts(preview_log(cleaned, 1_024))
    assert [line for line in shown if line in asides] == []


@pytest.mark.parametrize("before", ["#12 34.56 ", "[12:34:56] ", "web-1  | ", "##[error]"])
def test_what_a_tool_puts_before_each_line_hides_no_failure(before: str) -> None:
    for line in (
        "Traceback (most recent call last):",
        "CMake Error at CMakeLists.txt:9 (find_package):",
        "--- FAIL: TestTotal (0.00s)",
    ):
        assert {"opens", "fault"} & line_marks.find_marks(line) <= line_marks.find_marks(
            before + line
        )
        assert "opens" in line_marks.find_marks(before + line)


def warn(number: int, word: str = "warning") -> list[str]:
    """What a compiler says of an unused variable."""
    place = f"lib/net_{number:x}.c"
    return [
        "In file included from include/net.h:4,",
        f"                 from {place}:1:",
        f"{place}: In function ‘bind_{number:x}’:",
        f"{place}:{number}:7: {word}: variable ‘port_{number:x}’ set but not used [-Wunused]",
        f"   int port_{number:x};",
        "       ^~~~",
        f"{place}:{number}:7: note: declared here",
    ]


WARNINGS = [line for number in range(40) for line in warn(number)]
ASSERTED = [
    "________ test_a_port_is_bound ________",
    "    def test_a_port_is_bound():",
    *(f"        step({number})" for number in range(12)),
    ">       assert bind(80) == 80",
    "E       assert 81 == 80",
    "tests/test_net.py:21: AssertionError",
]


def test_what_a_compiler_warns_of_gives_way_to_the_failure() -> None:
    cleaned = log(*calm(300), *WARNINGS, *calm(60, seed=2), *ASSERTED, "1 failed in 3 s")
    shown = texts(preview_log(cleaned, 1_024))
    assert set(ASSERTED) <= set(shown)
    assert [line for line in shown if line in WARNINGS] == []


def test_an_error_among_warnings_is_shown_with_what_leads_to_it() -> None:
    error = warn(80, "error")
    cleaned = log(*calm(300), *WARNINGS, *error, *WARNINGS, "make: *** [all] Error 1")
    assert set(error[2:6]) <= set(texts(preview_log(cleaned, 1_024)))


def test_warnings_are_shown_where_there_is_nothing_else() -> None:
    shown = texts(preview_log(log(*calm(300), *WARNINGS), 1_024))
    assert [line for line in shown if "warning: " in line]


def test_what_sbt_says_below_a_failed_test_is_shown_with_it() -> None:
    frames = [
        f"[info]   at com.example.Net.bind{number:x}(Net.scala:{number})" for number in range(9)
    ]
    failed = ["[info] - binds a port *** FAILED ***", "[info]   81 did not equal 80", *frames]
    names = ("opens", "closes", "binds twice", "binds a name")
    passed = [f"[info] - {name} {number:x}" for number in range(200) for name in names]
    shown = texts(preview_log(log(*passed, *failed, *passed), 4_096))
    assert set(failed) <= set(shown)
    assert [line for line in shown if line in passed] == []


def test_tests_that_fail_for_one_reason_leave_room_for_where_it_stands() -> None:
    why = "DeprecationWarning: The 'generic' unit is deprecated, and will raise an error soon"
    head = [
        "_______ ERROR collecting tests/masked/test_indexing.py _______",
        "tests/masked/test_indexing.py:43: in TestSetitemValidation",
        '    np.datetime64("NaT"),',
        f"E   {why}.",
    ]
    failed = [f"FAILED tests/index/test_{n:x}.py::Test{n:x}::test_nat - {why}" for n in range(60)]
    cleaned = log(*calm(900), *head, *calm(900, seed=2), *failed, "== 60 failed, 1 error in 7 s ==")
    assert set(head) <= set(texts(preview_log(cleaned, 1_024)))
    shown = texts(preview_log(cleaned, 4_096))
    assert len([line for line in shown if line in failed]) <= 12


def test_the_warnings_that_a_test_run_ends_with_give_way_to_its_failure() -> None:
    warnings = [
        line
        for n in range(60)
        for line in (
            f"  /opt/lib/net_{n:x}.py:{n}: UserWarning: port {n:x} is not free, and may fail",
            f"    warn_of({n:x})",
        )
    ]
    head, end = "=========== FAILURES ===========", "FAILED tests/test_net.py::test_a_port_is_bound"
    failure = [head, *ASSERTED[:2], *ASSERTED[-3:]]
    summary = ["=== warnings summary ===", *warnings, end, "== 1 failed, 60 warnings in 3 s =="]
    shown = texts(preview_log(log(*calm(300), *failure, *summary), 1_024))
    assert {*failure, end} <= set(shown)
    assert len([line for line in shown if line in warnings]) <= 5


def test_a_crash_of_the_interpreter_is_found_behind_the_dots_of_its_tests() -> None:
    crash = f"tests/test_date.py {'.' * 200}Fatal Python error: Segmentation fault"
    shown = preview_log(log(*calm(900), crash, *calm(40, seed=2)), 1_024)
    assert "Fatal Python error: Segmentation fault" in shown


@pytest.mark.parametrize("line", ["- 81", "+ 80", "- tests/test_net.py is missing"])
@pytest.mark.parametrize("before", ["", "[error] ", "[12:34:56] ", "##[error]"])
def test_only_behind_sbts_own_mark_does_a_bullet_end_a_failure(line: str, before: str) -> None:
    assert "closes" not in line_marks.find_marks(before + line)
    assert "closes" in line_marks.find_marks(f"[info] {line}")


def test_a_crash_that_repeats_behind_the_dots_of_its_tests_leaves_room() -> None:
    crashes = [
        f"{'.' * (n % 9)}S{'.' * n}PHP Fatal error:  Uncaught TypeError: port {n} is no string"
        for n in range(1, 60)
    ]
    cleaned = log(*calm(900), *ASSERTED, *crashes)
    shown = texts(preview_log(cleaned, 4_096))
    assert set(ASSERTED[-3:]) <= set(shown)
    assert 1 <= len([line for line in shown if line in crashes]) <= 12
