"""Small stories of `main`, and the product in them, in one process."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import says
from tests.flow.mortal import parts
from tests.jobs import run_trigger
from tests.parts import change_parts
from tests.product_stories import ProductStory
from tests.simulators.branches import read_time
from tests.simulators.gitlab import GitLabSim
from tests.steps import Killed
from worker.conversation.events import Event
from worker.conversation.messages import User
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import Trigger
from worker.incidents.record import BranchRecord, Incident
from worker.sessions.incidents import IncidentStore
from worker.settings.runs import IncidentSettings
from worker.turns.parts import Attempt, Deps

ERROR = "AssertionError: the ferry has 12 seats, not 13 in tests/test_ferry.py::test_seats"
GREEN, RED = {"unit": "ok", "lint": "ok"}, {"unit": "E", "lint": "ok"}
LANDED: list[Mapping[str, Any]] = [
    {"at": "0m", "land": "A", "mr": 1},
    {"at": "6m", "pipeline": 101, "commit": "A", "jobs": GREEN},
    {"at": "10m", "land": "B", "mr": 2, "files": ["src/ferry.py"]},
    {"at": "16m", "pipeline": 102, "commit": "B", "jobs": RED},
    {"at": "17m", "open": 21, "base": "B", "files": ["src/a.py"]},
    {"at": "17m", "open": 22, "base": "B", "files": ["src/b.py"]},
    {"at": "24m", "pipeline": 121, "mr": 21, "jobs": RED},
    {"at": "25m", "pipeline": 122, "mr": 22, "jobs": RED},
    {"at": "30m", "land": "C", "mr": 3, "files": ["src/ferry.py"]},
    {"at": "36m", "pipeline": 103, "commit": "C", "jobs": GREEN},
]
"""`main` is broken by !2, which two merge requests feel, and mended by !3."""

DRIFTED: list[Mapping[str, Any]] = [
    {"at": "0m", "land": "A", "mr": 1},
    {"at": "6m", "pipeline": 101, "commit": "A", "jobs": GREEN},
    {"at": "7m", "open": 21, "base": "A", "files": ["src/a.py"]},
    {"at": "7m", "open": 22, "base": "A", "files": ["src/b.py"]},
    {"at": "16m", "pipeline": 102, "commit": "A", "source": "schedule", "jobs": RED},
    {"at": "24m", "pipeline": 121, "mr": 21, "jobs": RED},
    {"at": "25m", "pipeline": 122, "mr": 22, "jobs": RED},
    {"at": "36m", "pipeline": 103, "commit": "A", "source": "schedule", "jobs": GREEN},
]
"""The same code fails and passes again; a merge request is the second witness."""


ASKED = 1
"""How often an analysis asks such a model: its answer quotes what it names."""


_SHOWN = re.compile(rf"excerpt of job (\d+):.*?^ {{4}}(\d+): {re.escape(ERROR)}", re.DOTALL | re.M)


class Answering:
    """A model that quotes the error that it is shown, and counts how often it is asked."""

    name, context_tokens = "test/model", 100_000
    binds_thinking, keeps_cache_without_tools = False, True

    def __init__(self) -> None:
        self.asked = 0

    def reply(self, request: Request) -> Reply:
        self.asked += 1
        (first, *_) = request.messages
        shown = _SHOWN.search(first.text) if isinstance(first, User) else None
        job, line = shown.groups() if shown else ("0", "0")
        return says(
            "## Verdict\ncaused by this change\n\n## Cause\nA seat is lost.\n\n"
            f"## Evidence\n- job {job} line {line}: {ERROR}\n\n"
            "## What to do\nPut it back.\n"
        )


class Branch:
    """A story of `main`, and the product in it."""

    def __init__(self, sim: GitLabSim, folder: Path, events: list[Mapping[str, Any]]) -> None:
        story = {"errors": {"E": ERROR}, "events": events, "expect": []}
        self.sim, self.story = sim, ProductStory(story, sim, folder)
        self.model = Answering()
        self.deps = change_parts(
            self.story.deps,
            incident_settings=IncidentSettings(rerun=2, issue=True),
            model=lambda: self.model,
        )
        self.events: list[Event] = []

    def play(self, until: str) -> list[Trigger]:
        return self.story.play(until)

    def run(self, trigger: Trigger, deps: Deps | None = None, **attempt: Any) -> object:
        return run_trigger(trigger, deps or self.deps, Attempt(self.events.append, **attempt))

    def go_on(self, until: str) -> Iterator[Trigger]:
        """Yield the triggers, each as soon as it has happened."""
        for minute in range(int(read_time(until) / 60) + 1):
            yield from self.play(f"{minute}m")

    def run_all(self, until: str) -> None:
        for each in self.go_on(until):
            self.run(each)

    @property
    def project(self) -> int:
        return self.story.player.projects["one"].id

    @property
    def store(self) -> IncidentStore:
        return self.deps.storage.incidents

    @property
    def record(self) -> BranchRecord:
        found = self.store.read_branch(self.project, "main")
        assert found is not None
        return found

    @property
    def incident(self) -> Incident:
        (found,) = self.record.incidents
        return found

    @property
    def notes(self) -> dict[int, str]:
        """The bot's one note on each merge request that has any."""
        found = {}
        for iid, mr in self.story.player.requests.items():
            own = [each.body for each in mr.list_notes() if each.author is self.story.player.bot]
            assert len(own) <= 1
            if own:
                found[iid] = own[0]
        return found

    @property
    def issues(self) -> list[str]:
        return [each.state for each in self.sim.issues.issues.get(self.project, [])]

    @property
    def analyses(self) -> int:
        """How many sessions without a merge request were committed."""
        sessions = self.deps.storage.sessions
        keys = [each for each in sessions.list_sessions(self.project) if each.branch]
        return sum(sessions.find_latest_turn(key) == 0 for key in keys)

    def count_writes(self) -> int:
        return sum(each.method != "GET" for each in self.sim.requests)


class Death:
    """Comes once, the `nth` time that a point is reached."""

    def __init__(self, point: str, nth: int = 1) -> None:
        self.point, self.left = point, nth

    def at(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                raise Killed


def kill(branch: Branch, trigger: Trigger, point: str) -> None:
    """Let a worker die while it deals with a trigger."""
    with pytest.raises(Killed):
        branch.run(trigger, parts(branch.deps, Death(point)))  # type: ignore[arg-type]
