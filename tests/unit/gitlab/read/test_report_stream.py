"""A test report that arrives in pieces, whole or hostile."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from worker.gitlab.read.report_stream import (
    MOST_OUTPUT,
    PIECE,
    ReportedSuite,
    ReportParser,
    drop_middles,
)


def case(name: str, status: str = "failed", output: Any = None) -> dict[str, Any]:
    return {"status": status, "name": name, "classname": "C", "system_output": output}


def suite(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "unit", "total_count": len(cases), "test_cases": list(cases)} | more


def write(*suites: dict[str, Any], plain: bool = False) -> bytes:
    return json.dumps({"total_count": 9, "test_suites": suites}, ensure_ascii=not plain).encode()


def parse(data: bytes, size: int = 1000, most: int = 100) -> list[ReportedSuite]:
    parser = ReportParser(most)
    for piece in drop_middles(cut(data, size)):
        parser.feed(piece)
    parser.end_suite()
    return parser.suites


def cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


ODD = [
    case("a\x00\u2028", output="x"),
    case("b", "error", {"message": "first", "deep": [{"type": "second"}]}),
    case("c", output=["one", None, 3, "two"]),
    case("a\x00\u2028", "success"),
    case("d", "skipped", "not here"),
    case('😀\\"', output="\\" * 999 + '"quoted" é😀'),
]


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("plain", [True, False])
def test_however_it_arrives_it_says_the_same(size: int, *, plain: bool) -> None:
    (found,) = parse(write(suite(*ODD, failed_count=3, error_count=1), plain=plain), size)
    told = [(each.name, each.output, each.has_passed) for each in found.cases]
    assert told == [
        ("a\x00\u2028", "x", True),
        ("b", "first\nsecond", False),
        ("c", "one\ntwo", False),
        ('😀\\"', ODD[-1]["system_output"], False),
    ]
    assert (found.tests, found.failed_tests, found.is_readable) == (6, 4, True)


def test_the_name_of_a_suite_may_come_after_its_tests() -> None:
    late = {"test_cases": [case("a")], "name": "late", "suite_error": "", "total_count": 1}
    (first, second) = parse(write(late, suite(case("a", "success"))))
    assert (first.name, [each.has_passed for each in first.cases]) == ("late", [False])
    assert (second.name, second.cases) == ("unit", ())


@pytest.mark.parametrize(
    "value", [None, -5, "7", 2.5, [], {"a": 1}, True], ids=lambda value: str(value)
)
def test_a_count_that_is_no_number_is_none(value: Any) -> None:
    (found,) = parse(write(suite(case("a", "success"), total_count=value, failed_count=value)))
    assert found.tests in (0, 1)
    assert found.failed_tests in (0, 1)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    "unit", ["x", "é", "€", "😀", '"', "\\", '\\"', "\n", "a\\u00e9", "\\ud83d"]
)
def test_of_a_very_long_output_the_middle_is_never_held(unit: str, *, plain: bool) -> None:
    for offset in range(8):
        output = "y" * offset + unit * (12 * PIECE // (len(json.dumps(unit)) - 2))
        data = write(suite(case("long", output=output), case("next")), plain=plain)
        pieces = [*drop_middles(cut(data, 9973))]
        assert json.loads(b"".join(pieces))["test_suites"][0]["test_cases"][1]["name"] == "next"
        assert sum(map(len, pieces)) < 5 * PIECE
        first, second = parse(data, 9973)[0].cases
        assert output.startswith(first.output)
        assert len(first.output) > MOST_OUTPUT / 4
        assert second.name == "next"


def test_random_texts_stay_json_whatever_is_dropped() -> None:
    rng = random.Random(7)
    for _ in range(40):
        units = ['"', "\\", "é", "😀", "\n", "u", "d83d", " " * 300, "x" * 3000]
        outputs = [
            "".join(rng.choices(units, k=rng.randrange(1, 400))) * rng.choice([1, 9])
            for _ in range(5)
        ]
        data = write(suite(*(case("t", output=each) for each in outputs)), plain=rng.random() < 0.5)
        kept = b"".join(drop_middles(cut(data, rng.randrange(1, 3 * PIECE))))
        json.loads(kept)
        (found,) = parse(data, rng.randrange(1, 3 * PIECE))
        assert all(
            each.startswith(case.output[: MOST_OUTPUT // 4])
            for each, case in zip(outputs, found.cases, strict=True)
        )


def test_what_is_cut_off_tells_what_came_until_then() -> None:
    data = write(suite(case("a"), case("b"), failed_count=9, total_count=9))
    (found,) = parse(data[: data.index(b'"b"')])
    assert ([each.name for each in found.cases], found.failed_tests) == (["a"], 1)


@pytest.mark.parametrize("data", [b"<html>", b'{"a": \xff"}', b'{"test_suites":[{]}'])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parse(data)
