"""A day's record of a project's tests as stored JSON. Pure.

Each pipeline, suite and failure is a row: a list of values, of which those at its end that are the
usual ones are left out. Texts stand once, in a list, and a row has their places. What is stored may
be damaged. What a later version has added, fields and the ends of rows, is left out.
"""

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from worker.ledger.record import (
    SCHEMA,
    DayRecord,
    FailedTest,
    NamedTest,
    PipelineTests,
    RanOn,
    SuiteRun,
)

MAX_DAY = 4 * 1024 * 1024
"""The most bytes of a day's record."""

_LATEST = 1e11
"""No time that was ever stored: beyond it, dates cannot be computed."""

_NUMBERS = (int, float)

_Kinds = tuple[tuple[Any, Any], ...]
"""The values of a row: their types, and the usual value, None if there is none."""

_TEXT = (int, 0)
"""The place of a text; the first one is ""."""

_PIPELINE: _Kinds = (
    *((int, None), (int, None), (int, None), (int, None), (float, None)),
    *(_TEXT, (int, 0), _TEXT, (list, []), (list, []), (int, 0)),
)
_SUITE: _Kinds = (
    *((int, None), (int, None), (int, 0), (int, 0), (int, 0), (int, 1), (float, 0.0)),
    *((bool, True), (list, []), (bool, True)),
)
_EARLIER = 7
_FAILURE: _Kinds = ((int, None), (int, None), _TEXT, _TEXT, _TEXT, (bool, False))
_OWNED: _Kinds = (_TEXT, _TEXT)
_TEST: _Kinds = ((int, None), (int, None), (int, None))


class RecordError(ValueError):
    """The bytes are not such a record."""


def dump_day(record: DayRecord, most: int = MAX_DAY) -> bytes:
    """Encode a day's record in at most `most` bytes, if it can be: without the oldest pipelines,
    which are counted as left_out."""
    while len(content := _dump(record)) > most and len(record.pipelines) > 1:
        share = 0.95 * most / len(content)
        record = record.keep_newest(max(int(share * len(record.pipelines)), 1))
    return content


def load_day(data: bytes) -> DayRecord:
    """Read the bytes of `dump_day`. Raises RecordError."""
    try:
        return _load(json.loads(data, parse_constant=float))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(f"no record of a day's tests: {str(error)[:300]!r}") from error


# ------------------------------------------------------------------------------------ rows


def _dump(record: DayRecord) -> bytes:
    texts = {"": 0}
    tests: dict[NamedTest, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def write_suite(run: SuiteRun) -> list[Any]:
        numbers = [place(run.job), run.tests, run.failed, run.skipped, run.newest_job, run.runs]
        seen = [run.seconds, run.is_readable, [*run.earlier], run.is_steady]
        return _shorten([*numbers, *seen], _SUITE)

    def write_failure(each: FailedTest) -> list[Any]:
        test = tests.setdefault(each.test, len(tests))
        said = [place(each.job), place(each.text), place(each.key), place(each.file)]
        return _shorten([test, *said, each.has_passed], _FAILURE)

    pipelines = [
        _shorten(
            [
                *(each.pipeline_id, place(each.sha), place(each.source), place(each.ran_on)),
                *(each.created_at, place(each.ref), each.mr_iid, place(each.updated_at)),
                [write_suite(run) for run in each.suites],
                [write_failure(failed) for failed in each.failures],
                each.left_out,
            ],
            _PIPELINE,
        )
        for each in record.pipelines
    ]
    fields = {
        "schema": record.schema,
        "project_id": record.project_id,
        "project": record.project,
        "day": record.day,
        "left_out": record.left_out,
        "newest_left_out": record.newest_left_out,
        "tests": [[place(each.suite), place(each.place), place(each.name)] for each in tests],
        "pipelines": pipelines,
        "owners": [[place(path), place(words)] for path, words in record.owners],
        "texts": [*texts],
    }
    # Lone surrogates, which cannot be encoded, become question marks.
    content = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return content.encode(errors="replace")


def _shorten(row: list[Any], kinds: _Kinds) -> list[Any]:
    while row and row[-1] == kinds[len(row) - 1][1]:
        row.pop()
    return row


def _load(fields: Any) -> DayRecord:
    if fields["schema"] != SCHEMA:
        raise ValueError(f"its schema is {fields['schema']!r}")
    texts: list[str] = [_check(each, str) for each in _check(fields["texts"], list)]
    tests = [NamedTest(*(texts[each] for each in row)) for row in _list(fields["tests"], _TEST)]
    record = DayRecord(
        _check(fields["project_id"], int),
        _check(fields["project"], str),
        _check(fields["day"], str),
        tuple(_read_pipeline(row, texts, tests) for row in _list(fields["pipelines"], _PIPELINE)),
        _check(fields["left_out"], int),
        _check(fields["newest_left_out"], int),
        # Records of an earlier version have none.
        tuple((texts[a], texts[b]) for a, b in _list(fields.get("owners", []), _OWNED)),
    )
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", record.day) or not date.fromisoformat(record.day):
        raise ValueError(f"not a day: {record.day[:40]}")
    ids = [each.pipeline_id for each in record.pipelines]
    if ids != sorted(set(ids)):
        raise ValueError("its pipelines are in no order")
    return record


def _read_pipeline(row: list[Any], texts: list[str], tests: list[NamedTest]) -> PipelineTests:
    number, sha, source, ran_on, created_at, ref, mr_iid, updated_at, suites, failures, left_out = (
        row
    )
    return PipelineTests(
        number,
        sha=texts[sha],
        source=texts[source],
        ran_on=RanOn(texts[ran_on]),
        created_at=created_at,
        ref=texts[ref],
        mr_iid=mr_iid,
        updated_at=texts[updated_at],
        suites=tuple(_read_suite(each, texts) for each in _list(suites, _SUITE)),
        failures=tuple(
            FailedTest(tests[test], texts[job], texts[text], texts[key], texts[file], has_passed)
            for test, job, text, key, file, has_passed in _list(failures, _FAILURE)
        ),
        left_out=left_out,
    )


def _read_suite(row: list[Any], texts: list[str]) -> SuiteRun:
    job, *values = row
    values[_EARLIER] = tuple(_check(each, int) for each in values[_EARLIER])
    return SuiteRun(texts[job], *values)


def _list(rows: Any, kinds: _Kinds) -> list[list[Any]]:
    """Return rows of such values, with those that were left out. Raises ValueError, TypeError."""
    return [_fill(row, kinds) for row in _check(rows, list)]


def _fill(row: Any, kinds: _Kinds) -> list[Any]:
    if type(row) is not list:
        raise TypeError(f"no row: {str(row)[:80]}")
    values = []
    for value, (kind, _) in zip(row, kinds, strict=False):
        # Most are right; it is for these that it is fast.
        is_right = type(value) is kind and (kind not in _NUMBERS or 0 <= value < _LATEST)
        values.append(value if is_right else _check(value, kind))
    usual = [value for _, value in kinds[len(values) :]]
    if None in usual:
        raise ValueError(f"a row is too short: {str(row)[:80]}")
    return values + usual


def _check(value: Any, kind: Callable[..., Any]) -> Any:
    """Return a value of this type. Raises TypeError, ValueError."""
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise TypeError(f"no {kind}: {str(value)[:80]}")
    if kind in _NUMBERS and not 0 <= value < (2**63 if kind is int else _LATEST):
        raise ValueError(f"not a number to compute with: {str(value)[:40]}")
    return value
