"""Two projects whose pipelines have reported tests, and a sweep of them that is killed.

`python -m tests.unit.jobs.reported_tests ROOT POINT TIMES` sweeps into the folder ROOT, and kills
itself with SIGKILL when it comes to POINT ("read", "write", "written") for so many times; it says
"ready" first, and waits for a line.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fakes import HandClock
from worker.errors import SourceError
from worker.gitlab.ports import EndedPipeline
from worker.jobs.missed_tests import record_missed
from worker.ledger.record import FailedTest, NamedTest, PipelineTests, RanOn, SuiteRun
from worker.sessions.folder import Folder
from worker.sessions.ledger import LedgerStore
from worker.sessions.objects import Objects
from worker.sessions.store import SessionStore
from worker.settings.runs import LedgerSettings
from worker.turns.parts import Deps, Options

DAY = 86_400.0
NOW = 1_795_132_800.0 + 12 * 3600  # noon of 2026-11-20
PROJECTS = {7: "group/app", 8: "group/other"}
FAILED = FailedTest(NamedTest("unit", "Ferry", "test_seats"), "unit", "E assert 12 == 13", "k")


def write_time(at: float) -> str:
    """A time as GitLab writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def make_listed(number: int, age: float, project: int = 7) -> EndedPipeline:
    """A pipeline that was made so many seconds ago, and took a minute."""
    return EndedPipeline(
        project_id=project,
        project=PROJECTS[project],
        pipeline_id=number,
        sha=f"{number:040x}",
        source="push",
        created_at=NOW - age,
        updated_at=write_time(NOW - age + 60),
        ref="main",
        status="failed",
        default_branch="main",
    )


def make_tests(listed: EndedPipeline) -> PipelineTests:
    """What the pipeline has reported: one of 214 tests has failed."""
    return PipelineTests(
        pipeline_id=listed.pipeline_id,
        sha=listed.sha,
        source=listed.source,
        ran_on=RanOn.DEFAULT,
        created_at=listed.created_at,
        ref=listed.ref,
        updated_at=listed.updated_at,
        suites=(SuiteRun("unit", 214, 1, 2, 900 + listed.pipeline_id),),
        failures=(FAILED,),
    )


@dataclass
class Reported:
    """Stands for GitLab: lists pipelines, and says what each has reported. It refuses to be asked
    for what it has not listed."""

    listed: list[EndedPipeline] = field(default_factory=list[EndedPipeline])
    answers: dict[int, PipelineTests | str | SourceError] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list[str])
    asked: list[int] = field(default_factory=list[int])
    since: list[float] = field(default_factory=list[float])
    owners: str | SourceError = ""
    owners_read: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    on_read: Callable[[], None] = lambda: None

    def add(self, number: int, age: float, project: int = 7) -> EndedPipeline:
        """Add a pipeline that has reported a failed test."""
        made = make_listed(number, age, project)
        self.listed.append(made)
        self.answers[number] = make_tests(made)
        return made

    def run_again(self, number: int) -> None:
        """Let the job of a pipeline run again, and pass."""
        (at,) = [at for at, each in enumerate(self.listed) if each.pipeline_id == number]
        made = replace(self.listed[at], updated_at=write_time(NOW - 1))
        self.listed[at] = made
        suites = (SuiteRun("unit", 214, 0, 2, 9000 + number),)
        self.answers[number] = replace(make_tests(made), suites=suites, failures=())

    def read_tests(
        self, project_id: int, pipeline_id: int, listed: EndedPipeline | None = None
    ) -> PipelineTests | str:
        self.on_read()
        (known,) = [each for each in self.listed if each.pipeline_id == pipeline_id]
        assert known.project_id == project_id
        assert listed in (None, known)
        self.asked.append(pipeline_id)
        answer = self.answers[pipeline_id]
        if isinstance(answer, SourceError):
            raise answer
        return answer

    def read_owners_file(self, project_id: int, ref: str) -> str:
        self.owners_read.append((project_id, ref))
        if isinstance(self.owners, SourceError):
            raise self.owners
        return self.owners

    def find_ended_pipelines(self, since: float) -> Iterator[Sequence[EndedPipeline] | str]:
        self.since.append(since)
        yield from self.gaps
        for project in PROJECTS:
            found = [each for each in self.listed if each.project_id == project]
            if found:
                yield found[::-1]


def build_deps(reported: Reported, objects: Objects, days: int = 60, **options: Any) -> Deps:
    """The parts that the ledger's jobs use; the others are not there."""
    clock = HandClock(NOW)
    records = SessionStore(objects, clock.now).records
    parts: Any = SimpleNamespace(
        gitlab=SimpleNamespace(pipelines=reported),
        runtime=SimpleNamespace(clock=clock),
        storage=SimpleNamespace(ledger=LedgerStore(records, clock.now)),
        options=Options(ledger_settings=LedgerSettings(days=days), **options),
    )
    deps: Deps = parts
    return deps


def make_world() -> Reported:
    """Sixty pipelines of two projects, over three days."""
    world = Reported()
    for number in range(1, 61):
        world.add(number, (60 - number) * DAY / 20, 7 + number % 2)
    return world


class Death:
    """Comes at a point, when it was reached for so many times."""

    def __init__(self, point: str, times: int) -> None:
        self._point, self._left = point, times

    def at(self, point: str) -> None:
        self._left -= point == self._point
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedFolder(Folder):
    """A folder that tells before and after it writes tests."""

    def __init__(self, root: Path, tell: Callable[[str], None]) -> None:
        super().__init__(root, 10.0)
        self._tell = tell

    def create(self, name: str, content: bytes) -> bool:
        return self._write(name, lambda: super(WatchedFolder, self).create(name, content))

    def replace(self, name: str, content: bytes, version: str) -> bool:
        return self._write(name, lambda: super(WatchedFolder, self).replace(name, content, version))

    def _write(self, name: str, write: Callable[[], bool]) -> bool:
        is_day = name.startswith("tests/")
        if is_day:
            self._tell("write")
        written = write()
        if is_day:
            self._tell("written")
        return written


def main(root: str, point: str, times: str) -> None:
    death = Death(point, int(times))
    world = make_world()
    world.on_read = lambda: death.at("read")
    deps = build_deps(world, WatchedFolder(Path(root), death.at))
    print("ready", flush=True)
    sys.stdin.readline()
    for swept in record_missed(deps, 0.0):
        print(swept.what, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
