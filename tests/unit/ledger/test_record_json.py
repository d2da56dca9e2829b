"""A day's record as it is stored: small, the same when it is read again, hostile when it is not."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ledger.made import make_day, make_failure, make_run, make_usual_day, rerun
from worker.ledger.record import DayRecord, NamedTest, PipelineTests, RanOn, SuiteRun
from worker.ledger.record_json import RecordError, dump_day, load_day

MOST_A_PIPELINE = 1350
"""Bytes of a pipeline of ten suites with three failures: a year of 100 a day then takes 50 MB."""

DAY = make_day(
    make_run(1, "test_a test_b").join(rerun(make_run(1, "test_a"))),
    replace(make_run(2), ran_on=RanOn.REQUEST, ref="", mr_iid=12, left_out=3),
    replace(make_run(3), suites=()),
)


def test_what_was_stored_is_read_again() -> None:
    assert load_day(dump_day(DAY)) == DAY
    assert load_day(dump_day(make_day())) == make_day()
    owned = DAY.own({"tests/a.py": "mara, crew/pier", "tests/b.py": ""})
    assert load_day(dump_day(owned)) == owned


def test_a_record_without_owners_is_read_too() -> None:
    fields = json.loads(dump_day(DAY))
    del fields["owners"]
    assert load_day(json.dumps(fields).encode()) == DAY


@pytest.mark.parametrize("seed", range(30))
def test_any_record_is_read_again_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    day = make_usual_day(seed, 8)
    signs = ["", "\0", '"', "\\", "é", "𝕏", "]", "null", "\u2028"]
    for _ in range(20):
        at = chance.randrange(len(day.pipelines))
        look = day.pipelines[at]
        text = "".join(chance.choices(signs, k=5))
        test = NamedTest(*("".join(chance.choices(signs, k=3)) for _ in range(3)))
        failure = replace(make_failure("x"), test=test, job=text, key=text, file=text)
        failure = replace(failure, text=text, has_passed=chance.random() < 0.5)
        run = SuiteRun(
            text, chance.randrange(3), chance.randrange(3), chance.randrange(3),
            chance.choice((0, 2**62)), chance.randrange(1, 4), chance.choice((0.0, 1.5)),
            chance.random() < 0.5, tuple(range(chance.randrange(3))), chance.random() < 0.5,
        )  # fmt: skip
        changed = replace(
            look, sha=text, ref=text, updated_at=text, left_out=chance.randrange(2),
            suites=(*look.suites, run), failures=(*look.failures, failure),
        )  # fmt: skip
        day = replace(day, pipelines=(*day.pipelines[:at], changed, *day.pipelines[at + 1 :]))
    assert load_day(dump_day(day)) == day


def test_a_year_of_a_busy_project_is_small() -> None:
    sizes = [len(dump_day(make_usual_day(number))) for number in range(5)]
    assert max(sizes) < 100 * MOST_A_PIPELINE


def test_a_record_that_is_too_large_loses_its_oldest_pipelines_for_good() -> None:
    day = make_usual_day(1)
    content = dump_day(day, most=40_000)
    kept = load_day(content)
    assert 20_000 < len(content) <= 40_000
    assert kept.pipelines == day.pipelines[-len(kept.pipelines) :]
    assert kept.left_out == len(day.pipelines) - len(kept.pipelines)
    assert kept.put(day.pipelines) == kept
    assert len(load_day(dump_day(day, most=10)).pipelines) == 1


def test_a_lone_surrogate_is_stored_as_a_question_mark() -> None:
    day = make_day(replace(make_run(1), ref="\ud800"))
    assert load_day(dump_day(day)).pipelines[0].ref == "?"


def test_what_a_later_version_has_added_is_left_out() -> None:
    fields = json.loads(dump_day(DAY))
    fields["later"] = {"a": 1}
    for row in fields["pipelines"]:
        missing = 11 - len(row)
        row += [[], [], 0][3 - missing :] if missing else []
        row += ["more", 2]
        row[9] = [[*each, *[0, 0, 0, False][len(each) - 2 :], "more"] for each in row[9]]
    fields["tests"] = [[*each, 5] for each in fields["tests"]]
    assert load_day(json.dumps(fields).encode()) == DAY


def spoil(fields: dict[str, Any], path: str, value: Any) -> bytes:
    *way, last = [int(each) if each.isdigit() else each for each in path.split(".")]
    at: Any = fields
    for each in way:
        at = at[each]
    if value == "gone":
        del at[last]
    else:
        at[last] = value
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("schema", 2), ("schema", "gone"), ("schema", None), ("texts", "gone"), ("texts", [1])),
        *(("project_id", "7"), ("project_id", True), ("project_id", 2**63), ("day", "../secret")),
        *(("day", "2026-13-01"), ("day", "2026-W01"), ("day", "gone"), ("left_out", -1)),
        *(("tests", 5), ("tests.0", [1]), ("tests.0.1", 10**6), ("tests.0.1", -1), ("tests.0", {})),
        *(("pipelines", {}), ("pipelines.0", []), ("pipelines.0.0", 1.5), ("pipelines.0.0", 99)),
        *(("pipelines.0.1", 10**6), ("pipelines.0.1", -1), ("pipelines.0.3", 0)),
        *(("pipelines.0.4", 1e300), ("pipelines.0.4", float("nan")), ("pipelines.0.4", "1")),
        *(("pipelines.0.4", float("inf")), ("pipelines.0.8", {"a": 1}), ("pipelines.0.8.0", 1)),
        *(("pipelines.0.8.0", [1]), ("pipelines.0.8.0.1", -5), ("pipelines.0.8.0.0", 10**6)),
        *(("pipelines.0.8.0", [1, 1, 0, 0, 0, 1, 0, True, ["x"]]), ("pipelines.0.9.0", [0])),
        *(("pipelines.0.9.0.0", 10**6), ("pipelines.0.9.0.0", -1), ("pipelines.0.9.0.1", "a")),
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused(path: str, value: Any) -> None:
    with pytest.raises(RecordError):
        load_day(spoil(json.loads(dump_day(DAY)), path, value))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000),
        *(b'{"schema":1}', b'{"schema":' + b"9" * 5000 + b"}"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        load_day(data)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_were_changed_are_refused_or_are_a_record(seed: int) -> None:
    chance, content = random.Random(seed), dump_day(DAY)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randrange(3)] = chance.choice(
                [b"", b"0", b"-", b"[", b'"', b"9" * 30, b"1e999", b"null", b"\x80"]
            )
        try:
            found = load_day(bytes(damaged))
        except RecordError:
            continue
        assert isinstance(found, DayRecord)
        assert all(isinstance(each, PipelineTests) for each in found.pipelines)
        assert load_day(dump_day(found)) == found
