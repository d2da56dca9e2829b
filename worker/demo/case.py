"""The bundled case: a small project, a merge request that breaks it, and its real job logs.

`case/base/` is the project before the merge request, `case/head/` the files it changes,
`case/*.log.gz` the recorded logs of its jobs on the head (`tests/record_case.py`), and
`case/case.json` the rest. Nothing here depends on how GitLab serves it.
"""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("case")


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the case's GitLab."""

    id: int
    username: str
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; the first line of `message` is its title."""

    sha: str
    message: str
    author: Person
    committed_at: datetime

    @property
    def title(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Change:
    """One changed file. `diff` holds the hunks as GitLab sends them: without `---` and `+++`."""

    path: str
    diff: str
    new_file: bool = False
    deleted_file: bool = False


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The merge request; `iid` is its number in the project."""

    id: int
    iid: int
    title: str
    description: str
    author: Person
    source_branch: str
    target_branch: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its log: raw bytes with the runner's sections, colours and timestamps.

    A skipped job has no log and no times. Statuses and failure reasons are GitLab's:
    https://docs.gitlab.com/api/jobs/.
    """

    id: int
    name: str
    stage: str
    status: str
    allow_failure: bool = False
    failure_reason: str | None = None
    trace: bytes = b""

    @property
    def started_at(self) -> datetime | None:
        """When the log's first line was written."""
        return _parse_timestamp(self.trace.splitlines()[0]) if self.trace else None

    @property
    def finished_at(self) -> datetime | None:
        """When the log's last line was written."""
        return _parse_timestamp(self.trace.splitlines()[-1]) if self.trace else None

    @property
    def duration(self) -> float | None:
        """Seconds between the log's first and last line."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The failed pipeline, with its jobs in the order of their stages."""

    id: int
    status: str
    source: str
    created_at: datetime
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Case:
    """The whole case. Files are keyed by path; `commits` are the merge request's, oldest first.

    The pipeline ran on the last of `commits`; the merge request starts from `base`.
    """

    project_id: int
    project_path: str
    project_name: str
    default_branch: str
    people: tuple[Person, ...]
    base: Commit
    commits: tuple[Commit, ...]
    base_files: Mapping[str, bytes]
    head_files: Mapping[str, bytes]
    merge_request: MergeRequest
    pipeline: Pipeline

    @property
    def head(self) -> Commit:
        """The commit that the pipeline ran on."""
        return self.commits[-1]

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The merge request's changed files, by path."""
        return tuple(
            make_change(path, self.base_files.get(path), self.head_files.get(path))
            for path in sorted({*self.base_files, *self.head_files})
            if self.base_files.get(path) != self.head_files.get(path)
        )

    def get_job(self, name: str) -> Job:
        """Return the job called `name`. Raises KeyError."""
        return {job.name: job for job in self.pipeline.jobs}[name]


def load_case(folder: Path = FOLDER) -> Case:
    """Read the case from `folder`."""
    data = json.loads((folder / "case.json").read_text("utf-8"))
    people = {key: Person(username=key, **entry) for key, entry in data["people"].items()}
    base_files = _read_tree(folder / "base")
    project = data["project"]
    return Case(
        project_id=project["id"],
        project_path=project["path"],
        project_name=project["name"],
        default_branch=project["default_branch"],
        people=tuple(people.values()),
        base=Commit(**_parse_entry(data["base"], people)),
        commits=tuple(Commit(**_parse_entry(entry, people)) for entry in data["commits"]),
        base_files=base_files,
        head_files={**base_files, **_read_tree(folder / "head")},
        merge_request=MergeRequest(**_parse_entry(data["merge_request"], people)),
        pipeline=Pipeline(
            **_parse_entry(data["pipeline"], people),
            jobs=tuple(_load_job(folder, entry) for entry in data["jobs"]),
        ),
    )


def _parse_entry(entry: dict[str, Any], people: Mapping[str, Person]) -> dict[str, Any]:
    """Return `entry` with its author as a Person and its times as datetimes."""
    return {
        key: people[value]
        if key == "author"
        else datetime.fromisoformat(value)
        if key.endswith("_at")
        else value
        for key, value in entry.items()
    }


def _load_job(folder: Path, entry: dict[str, Any]) -> Job:
    log = folder / f"{entry['name']}.log.gz"
    return Job(**entry, trace=gzip.decompress(log.read_bytes()) if log.exists() else b"")


def _read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def make_change(path: str, before: bytes | None, after: bytes | None) -> Change:
    """Return the change of a file from `before` to `after`; None means that there is no file."""
    lines = unified_diff(_split_lines(before), _split_lines(after))
    return Change(
        path, _remove_file_lines(lines), new_file=before is None, deleted_file=after is None
    )


def _split_lines(content: bytes | None) -> list[str]:
    return (content or b"").decode().splitlines(keepends=True)


def _remove_file_lines(lines: Iterable[str]) -> str:
    return "".join(list(lines)[2:])


def _parse_timestamp(line: bytes) -> datetime:
    """Parse the runner's timestamp at the start of a line."""
    return datetime.strptime(line[:27].decode(), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
