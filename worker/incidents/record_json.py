"""The records of branches and of merge requests into them, as stored JSON. Pure.

What is stored may be damaged. Fields that a later version has added are left out.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from worker.incidents.record import (
    MOST_INCIDENTS,
    MOST_LANDINGS,
    MOST_PIPELINES,
    OVER,
    BranchRecord,
    JobEnd,
    RequestRecord,
)
from worker.stored_keys import to_stored

MAX_BRANCH = 1024 * 1024
"""The most bytes of a branch's record."""

MAX_REQUEST = 256 * 1024
"""The most bytes of a merge request's record."""

_LATEST = 1e11
"""No time that was ever stored: beyond it, dates cannot be computed."""

T = TypeVar("T")

_BRANCH, _REQUEST = TypeAdapter(BranchRecord), TypeAdapter(RequestRecord)


class RecordError(ValueError):
    """The bytes are not such a record."""


def load_branch(data: bytes) -> BranchRecord:
    """Read the bytes of `dump_branch`. Raises RecordError."""
    return _load(_BRANCH, data)


def load_request(data: bytes) -> RequestRecord:
    """Read the bytes of `dump_request`. Raises RecordError."""
    return _load(_REQUEST, data)


def dump_branch(record: BranchRecord, most: int = MAX_BRANCH) -> bytes:
    """Encode a branch's record in at most `most` bytes, if it can be: without the oldest pipelines,
    landings and incidents that are over. An open incident is never left out."""
    kept = _keep_newest(record)
    while len(content := _dump(kept)) > most:
        smaller = _shorten(kept)
        if smaller == kept:
            break
        kept = smaller
    return content


def dump_request(record: RequestRecord, most: int = MAX_REQUEST) -> bytes:
    """Encode a merge request's record in at most `most` bytes, if it can be: jobs with very many
    errors lose *all* of them, and then nothing explains their failure."""
    while len(content := _dump(record)) > most:
        jobs = _drop_most_errors(record.jobs)
        if jobs == record.jobs:
            break
        record = replace(record, jobs=jobs)
    return content


def _keep_newest(record: BranchRecord) -> BranchRecord:
    over = [each.incident_id for each in record.incidents if each.state in OVER]
    gone = set(over[: max(len(record.incidents) - MOST_INCIDENTS, 0)])
    return replace(
        record,
        landings=record.landings[-MOST_LANDINGS:],
        pipelines=record.pipelines[-MOST_PIPELINES:],
        incidents=tuple(each for each in record.incidents if each.incident_id not in gone),
    )


def _shorten(record: BranchRecord) -> BranchRecord:
    """Drop the oldest tenth of what takes most room, or else what the newest have too much of."""
    over = tuple(each for each in record.incidents if each.state in OVER)
    parts = {
        "landings": record.landings[:-1],
        "pipelines": record.pipelines[:-1],
        "incidents": over,
    }
    largest = max(parts, key=lambda name: len(_dump(parts[name])) if parts[name] else 0)
    droppable = parts[largest]
    if not droppable:
        pipelines = tuple(
            replace(each, jobs=_drop_most_errors(each.jobs)) for each in record.pipelines
        )
        landings = tuple(replace(each, files=None) for each in record.landings)
        return replace(record, pipelines=pipelines, landings=landings)
    oldest = droppable[: max(len(droppable) // 10, 1)]
    kept: Iterator[Any] = (each for each in getattr(record, largest) if each not in oldest)
    changes: dict[str, Any] = {largest: tuple(kept)}
    return replace(record, **changes)


def _drop_most_errors(jobs: tuple[JobEnd, ...]) -> tuple[JobEnd, ...]:
    """Drop the errors of the job that has most text in them."""
    texts = [sum(len(key) + len(line) for key, line in each.errors) for each in jobs]
    most = texts.index(max(texts)) if any(texts) else -1
    return tuple(
        replace(each, errors=()) if place == most else each for place, each in enumerate(jobs)
    )


def _dump(value: object) -> bytes:
    # Lone surrogates, which cannot be encoded, become question marks.
    return json.dumps(value, default=to_stored, ensure_ascii=False).encode(errors="replace")


def _load(adapter: "TypeAdapter[T]", data: bytes) -> T:
    try:
        fields = json.loads(
            data,
            object_hook=_rename,
            parse_float=_read_float,
            parse_int=_read_int,
            parse_constant=_read_float,
        )
        return adapter.validate_python(fields)
    except (ValidationError, ValueError, RecursionError) as error:
        raise RecordError(f"not such a record: {str(error)[:300]!r}") from error


def _rename(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an object with today's names: `Incident.told_requests` was stored as `hit`."""
    if "hit" in fields:
        fields.setdefault("told_requests", fields.pop("hit"))
    return fields


def _read_float(text: str) -> float:
    if not abs(float(text)) < _LATEST:
        raise ValueError(f"not a number to compute with: {text[:40]}")
    return float(text)


def _read_int(text: str) -> int:
    if len(text) > 19 or not abs(int(text)) < 2**63:
        raise ValueError(f"not a number to compute with: {text[:40]}")
    return int(text)
