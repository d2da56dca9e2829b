"""A flood: many merge requests fail because of their red branch, within two minutes."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.parts import change_parts
from tests.product_stories import ProductStory
from tests.simulators.gitlab import GitLabSim
from worker.clock import SystemClock
from worker.conversation.triggers import PipelineFailed
from worker.queue.leases import Leases
from worker.sessions.folder import Folder
from worker.sessions.incidents import IncidentStore
from worker.sessions.objects import Objects, Stored
from worker.sessions.store import SessionStore

ERROR = "AssertionError: the ferry has 12 seats, not 13 in tests/test_ferry.py::test_seats"
OTHER_ERROR = "ConnectionError: the harbour does not answer"
FIRST_MR, FIRST_PIPELINE = 100, 1000
OTHER_MR = 6
"""The merge request of the other project."""


def make_story(requests: int, within: float = 120.0) -> Mapping[str, Any]:
    """A story in which `main` turns red, so many merge requests fail alike within so many seconds,
    and `main` is green again; another project's merge request fails in their midst."""
    every = f"{max(1, int(within / max(requests, 1)))}s"
    green, red = {"unit": "ok", "lint": "ok"}, {"unit": "E", "lint": "ok"}
    return {
        "errors": {"E": ERROR, "F": OTHER_ERROR},
        "events": [
            {"at": "0m", "land": "A", "mr": 1},
            {"at": "6m", "pipeline": 11, "commit": "A", "jobs": green},
            {"at": "10m", "land": "B", "mr": 2, "files": ["src/ferry.py"]},
            {"at": "16m", "pipeline": 12, "commit": "B", "jobs": red},
            {"at": "17m", "land": "Z", "mr": 5, "project": "two"},
            {"at": "17m", "open": OTHER_MR, "base": "Z", "files": ["src/z.py"], "project": "two"},
            {
                "at": "17m",
                "open": FIRST_MR,
                "base": "B",
                "files": ["src/own.py"],
                "times": requests,
                "every": "0s",
            },
            {
                "at": "18m",
                "pipeline": FIRST_PIPELINE,
                "mr": FIRST_MR,
                "jobs": red,
                "times": requests,
                "every": every,
            },
            {"at": "19m", "pipeline": 900, "mr": OTHER_MR, "project": "two", "jobs": {"unit": "F"}},
            {"at": "40m", "land": "C", "mr": 3, "files": ["src/ferry.py"]},
            {"at": "46m", "pipeline": 13, "commit": "C", "jobs": green},
        ],
        "expect": [],
    }


class CountedObjects:
    """Objects whose calls are counted by their kind."""

    def __init__(self, objects: Objects, counts: Counter[str]) -> None:
        self._objects, self._counts = objects, counts
        self.write, self.upload, self.delete = objects.write, objects.upload, objects.delete
        self.describe_place = objects.describe_place

    def exists(self, name: str) -> bool:
        self._counts["reads"] += 1
        return self._objects.exists(name)

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        self._counts["reads"] += 1
        return self._objects.open(name)

    def read(self, name: str, limit: int) -> Stored | None:
        self._counts["reads"] += 1
        return self._objects.read(name, limit)

    def find_modification_time(self, name: str) -> float | None:
        self._counts["reads"] += 1
        return self._objects.find_modification_time(name)

    def list_names(self, prefix: str) -> Iterator[str]:
        self._counts["lists"] += 1
        return self._objects.list_names(prefix)

    def create(self, name: str, content: bytes) -> bool:
        self._counts["writes"] += 1
        return self._objects.create(name, content)

    def replace(self, name: str, content: bytes, version: str) -> bool:
        self._counts["writes"] += 1
        return self._objects.replace(name, content, version)


@dataclass
class Flood:
    """A played flood: what it cost, and what came of it."""

    product: ProductStory
    store: Counter[str] = field(default_factory=Counter)

    @classmethod
    def make(cls, sim: GitLabSim, folder: Path, requests: int) -> "Flood":
        """Make the world of so many merge requests, in which nothing has happened."""
        made = cls(ProductStory(make_story(requests), sim, folder))
        store = SessionStore(CountedObjects(Folder(folder / "store", 10.0), made.store))
        made.product.deps = change_parts(
            made.product.deps,
            sessions=store,
            known_failures=store.known_failures,
            recent=store.recent_turns,
            incidents=IncidentStore(store.records),
            leases=Leases(store, SystemClock()),
        )
        return made

    @property
    def sim(self) -> GitLabSim:
        """The simulated GitLab."""
        return self.product.sim

    def run(self) -> "Cost":
        """Play the flood to its end; return what each step of it has cost."""
        product = self.product
        product.deliver(product.play("6m"))
        red = self._count(lambda: product.deliver(product.play("16m")))
        one = product.player.projects["one"].id
        triggers = product.play("30m")
        own = [each for each in triggers if isinstance(each, PipelineFailed)]
        notes = [
            self._count(partial(product.deliver, [each])) for each in own if each.project_id == one
        ]
        product.deliver([each for each in own if each.project_id != one])
        paid, told = len(product.model.sessions), product.look().notes
        green = self._count(lambda: product.deliver(product.play("50m")))
        return Cost(red, notes, green, paid, told, product.look().notes)

    def _count(self, step: Callable[[], object]) -> "Step":
        """Take a step, and count what it asks of GitLab and of the store."""
        asked, stored, begun = len(self.sim.requests), Counter(self.store), time.monotonic()
        step()
        paths = Counter(f"{each.method} {shorten(each.path)}" for each in self.sim.requests[asked:])
        return Step(paths, self.store - stored, time.monotonic() - begun)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step asked of GitLab, by the kind of request, and of the store; how long it took."""

    asked: Counter[str]
    stored: Counter[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a flood has cost: the branch that turns red, the failure of each merge request in their
    order, and the branch that is green again; and what the notes said before that and after."""

    red: Step
    notes: list[Step]
    green: Step
    paid: int
    told: dict[int, str]
    told_at_last: dict[int, str]


def shorten(path: str) -> str:
    """Return a path with its numbers and names left out."""
    parts = path.partition("?")[0].removeprefix("/api/v4").split("/")
    return "/".join("N" if part.isdecimal() or len(part) >= 40 else part for part in parts)
