"""Which errors of a job are listed, and when two of them are the same."""

from itertools import combinations

import pytest

from tests.unit.incidents.error_pairs import DIFFERENT, EQUAL
from worker.incidents.errors import LINE, MOST, list_errors, read_errors


def fill(line: str, parts: str) -> str:
    return line.format(*parts.split("|"))


def get_keys(*lines: str) -> list[str]:
    return [key for key, _ in list_errors(lines)]


@pytest.mark.parametrize(("line", "one", "other"), EQUAL)
def test_what_is_another_in_each_run_is_no_part_of_an_error(
    line: str, one: str, other: str
) -> None:
    ours, theirs = fill(line, one), fill(line, other)
    assert ours != theirs
    assert get_keys(ours) == get_keys(theirs) != []


@pytest.mark.parametrize(("line", "one", "other"), DIFFERENT)
def test_every_other_difference_makes_another_error(line: str, one: str, other: str) -> None:
    ours, theirs = get_keys(fill(line, one)), get_keys(fill(line, other))
    assert len(ours) == len(theirs) == 1
    assert ours != theirs


ENVELOPES = {
    "bare": ((), ()),
    "pytest": (
        ("=" * 20 + " test session starts " + "=" * 20, "collected 214 items", ""),
        ("=" * 20 + " 1 failed, 213 passed in 12.34s " + "=" * 20,),
    ),
    "jest": (
        ("> shop@1.0.0 test", "> jest --ci", "PASS src/a.test.js (5.1 s)"),
        (
            "Test Suites: 1 failed, 2 passed, 3 total",
            "Tests:       1 failed, 20 passed, 21 total",
            "Time:        6.345 s",
            "Ran all test suites.",
            "npm error Lifecycle script `test` failed with error:",
            "npm error code 1",
        ),
    ),
    "make": (("gcc -O2 -c a.c", "mkdir -p build"), ("make: *** [Makefile:12: ci] Error 1",)),
    "long": (
        tuple(f"compiled module_{n} in {n}.3s" for n in range(400)),
        tuple(f"cleaning module_{n}" for n in range(60)),
    ),
}
ERRORS = (
    "tests/test_ink.py::test_lid: assert 7 == 8",
    "ERROR: No matching distribution found for inkwell==2.7.0",
    "src/ink.py:31: in fill: TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "lid.spec.ts: expected status 201, received 409 from https://ink.example.com/v2/lids",
    "src/ink.py:12:4: E225 missing whitespace around operator",
    "lid_test.go:88: TestLid: got 12, want 14",
    "lids.spec.js: ReferenceError: lid is not defined",
    "src/lids.js 9:3 error 'lid' is defined but never used no-unused-vars",
    "lids.spec.js: Error: page.click: net::ERR_ABORTED at http://localhost:3000/lids",
    "redis.exceptions.TimeoutError: Timeout reading from socket of inkstore",
    "src/ink.rs:7:3: error[E0382]: use of moved value: `lid`",
    "HIGH CVE-2031-4711 zlib 1.2.11 fixed in 1.2.13",
    "dial tcp inkstore-7f9c4d5b8-q2x9k:43121: i/o timeout after 5.01s",
    "TestLid.test_fill: AssertionError: 7 != 8",
)


def write_log(envelope: str, *errors: str) -> bytes:
    before, after = ENVELOPES[envelope]
    lines = [
        "Running with gitlab-runner 19.1.0 (07e534ba)",
        "Checking out 4fd10c2e as detached HEAD (ref is main)...",
        'Executing "step_script" stage of the job script',
        "$ ./check",
        *(*before, *errors, *after),
        "Cleaning up project directory and file based variables",
        "ERROR: Job failed: exit code 1",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_error_is_the_only_one_of_its_log_whatever_is_around_it(envelope: str) -> None:
    found = {error: read_errors(write_log(envelope, error)) for error in ERRORS}
    assert {error: [text for _, text in each] for error, each in found.items()} == {
        error: [error] for error in ERRORS
    }
    keys = {each[0][0] for each in found.values()}
    assert keys == {read_errors(write_log("bare", error))[0][0] for error in ERRORS}
    assert len(keys) == len(ERRORS)


@pytest.mark.parametrize("envelope", ["bare", "jest"])
def test_of_two_errors_in_one_log_none_hides_the_other(envelope: str) -> None:
    hidden = []
    for one, other in combinations(ERRORS, 2):
        for pair in ((one, other), (other, one)):
            texts = {text for _, text in read_errors(write_log(envelope, *pair))}
            hidden += [pair] if texts != set(pair) else []
    assert hidden == []


def test_two_places_of_one_message_are_two_errors() -> None:
    assert len(get_keys("src/a.py:3:1: F401 'ink' unused", "src/a.py:9:1: F401 'ink' unused")) == 2


def test_a_failed_test_has_the_message_that_other_lines_give_it() -> None:
    logs = [
        ["--- FAIL: TestLid (0.01s)", f"    lid_test.go:9: got {got}, want 3", "FAIL"]
        for got in (1, 2)
    ]
    one, other = (dict(list_errors(log)) for log in logs)
    assert not one.keys() & other.keys()
    assert "--- FAIL: TestLid (0.01s): lid_test.go:9: got 1, want 3" in one.values()


def test_without_a_decisive_line_the_last_words_are_the_error() -> None:
    assert [text for _, text in list_errors(["step 1", "the ledger is closed for today"])] == [
        "the ledger is closed for today"
    ]


@pytest.mark.parametrize("lines", [(), ("",), ("…",), ("12 passed, 1 failed",), ("FAIL", "exit 1")])
def test_what_says_nothing_is_no_error(lines: tuple[str, ...]) -> None:
    assert list_errors(lines) == ()


def test_very_many_errors_are_one_by_all_of_them() -> None:
    lines = [f"src/a{n}.c:3:1: error: unknown type name 'ink'" for n in range(MOST + 1)]
    (key, text), *more = list_errors(lines)
    assert not more
    assert text.startswith(f"{MOST + 1} errors: src/a0.c")
    assert get_keys(*reversed(lines)) == [key]
    assert get_keys(*lines, "src/b.c:3:1: error: unknown type name 'ink'") != [key]


def test_a_job_that_met_its_time_limit_is_known_by_where_it_hung() -> None:
    log = write_log("bare", "ERROR: no ink", "waiting for the lid to close")
    plain, late = (read_errors(log, reason) for reason in ("", "job_execution_timeout"))
    assert set(plain) < set(late)
    assert read_errors(b"$ one\n$ two\n$ ./check\n", "job_execution_timeout") == ()


def test_what_a_passed_run_writes_as_well_explains_nothing() -> None:
    log = write_log("bare", "ERROR: ink is low: 3 left")
    assert read_errors(log, "", ["ERROR: ink is low: 9 left"]) == ()
    both = write_log("bare", "ERROR: ink is low: 3 left", "KeyError: 'lid'")
    assert len(read_errors(both, "", ["ERROR: ink is low: 9 left"])) == 2


def test_a_line_is_short_and_shown_on_one_line() -> None:
    (_, text), *_ = list_errors(["ERROR: " + "ink\u202e " * 400])
    assert LINE - 9 < len(text) <= LINE
    assert "\u202e" not in text
