"""What counts as the same test, and which lines of a log name it: a table of both."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from worker.ledger.names import MAX_PART, find_file, find_tests, is_renamed, matches, name_test
from worker.ledger.record import FailedTest, NamedTest

TABLE = yaml.safe_load(Path(__file__).with_name("names.yaml").read_text())


def rows(kind: str) -> list[Any]:
    return [pytest.param(row, id=row["what"]) for row in TABLE[kind]]


def make_test(parts: list[str], at: float = 0.0) -> NamedTest:
    suite, classname, name, file = [*parts, ""][:4]
    return name_test(suite, classname, name, file, at)


def make_failure(parts: list[str]) -> FailedTest:
    return FailedTest(make_test(parts), parts[0], file=[*parts, ""][3])


def read_day(row: dict[str, Any]) -> float:
    day = row.get("at")
    return datetime(day.year, day.month, day.day, 9, tzinfo=UTC).timestamp() if day else 0.0


@pytest.mark.parametrize("row", rows("same"))
def test_what_is_another_in_each_run_is_no_part_of_a_tests_name(row: dict[str, Any]) -> None:
    assert row["one"] != row["other"]
    assert make_test(row["one"], read_day(row)) == make_test(row["other"], read_day(row))


@pytest.mark.parametrize("row", rows("different"))
def test_every_other_difference_makes_another_test(row: dict[str, Any]) -> None:
    assert make_test(row["one"], read_day(row)) != make_test(row["other"], read_day(row))


@pytest.mark.parametrize("kind", ["same", "different"])
def test_a_name_that_was_made_stays_as_it_is(kind: str) -> None:
    for row in TABLE[kind]:
        test = make_test(row["one"], read_day(row))
        assert name_test(test.suite, test.place, test.name, "", read_day(row)) == test


@pytest.mark.parametrize("row", rows("renamed"))
def test_a_test_may_be_one_that_was_renamed_or_moved(row: dict[str, Any]) -> None:
    assert is_renamed(make_failure(row["old"]), make_failure(row["new"]))
    assert is_renamed(make_failure(row["new"]), make_failure(row["old"]))


@pytest.mark.parametrize("row", rows("not_renamed"))
def test_a_test_is_no_other_one_that_is_alike(row: dict[str, Any]) -> None:
    assert not is_renamed(make_failure(row["old"]), make_failure(row["new"]))
    assert not is_renamed(make_failure(row["old"]), make_failure(row["old"]))


@pytest.mark.parametrize("row", rows("lines"))
def test_a_line_names_a_test_by_its_whole_name_and_place(row: dict[str, Any]) -> None:
    test = make_test(row["test"])
    right = {line: True for line in row["names"]} | dict.fromkeys(row.get("does_not", ()), False)
    assert {line: matches(test, line) for line in right} == right


def test_the_tests_that_a_log_names_are_found_once_each() -> None:
    named = [make_test(row["test"]) for row in TABLE["lines"]]
    lines = [line for row in TABLE["lines"] for line in row["names"]]
    assert find_tests(named, lines) == tuple(dict.fromkeys(named))
    assert find_tests(named[:3], ["all is well"]) == find_tests((), lines) == ()


@pytest.mark.parametrize(
    ("place", "file", "path"),
    [
        ("Ferry", "spec/ferry_spec.rb", "spec/ferry_spec.rb"),
        ("./spec/ferry_spec.rb", "./spec/ferry_spec.rb", "spec/ferry_spec.rb"),
        ("tests.unit.test_ferry.TestSeats", "", "tests/unit/test_ferry.py"),
        ("tests.unit.test_ferry", "", "tests/unit/test_ferry.py"),
        ("tests.test_ferry", "/builds/a/b/tests/test_ferry.py", "tests/test_ferry.py"),
        ("ferry_test.Seats", "", "ferry_test.py"),
        ("com.acme.FerryTest", "", ""),
        ("tests.test_ferry more words", "", ""),
        ("Ferry seats", "/builds/a/b/ferry.js", ""),
        ("", "", ""),
    ],
)
def test_a_tests_file_is_told_by_the_report_or_by_its_module(
    place: str, file: str, path: str
) -> None:
    assert find_file(NamedTest("unit", place, "test_a"), file) == path


@pytest.mark.parametrize("sign", ["(", "[", "\\", "a ", "0x", "::", "é", "\ud800", "\0", "1/", "@"])
def test_a_hostile_name_is_cut_and_costs_no_time(sign: str) -> None:
    long = sign * 200_000
    test = name_test(long, long, long, long, at=1e9)
    assert max(map(len, (test.suite, test.place, test.name))) <= MAX_PART
    assert matches(test, long) in (True, False)
    assert find_file(NamedTest("unit", long, "x"), "") == ""
    assert name_test("", "", "", "") == NamedTest("", "", "(no name)")
