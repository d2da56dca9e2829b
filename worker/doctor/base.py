"""The input and the output of a check."""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sandbox.about import ClusterFacts, Engine
from sandbox.base import Driver
from worker.conversation.model import Model
from worker.doctor.gitlab import Accounts
from worker.errors import QueueError, SandpiperError
from worker.models.discovery import Comparison
from worker.sessions.objects import Records
from worker.settings import Settings

LIMIT = 20.0
"""Seconds that a check may take; all checks start at the same time."""

T = TypeVar("T")


class Status(StrEnum):
    """The status of a line. Only FAILED makes the doctor fail."""

    GOOD = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Line:
    """The result of a check: what was found, and what to do about it ("" for nothing)."""

    name: str
    status: Status
    finding: str
    advice: str = ""


class Unchecked(SandpiperError):
    """A check cannot run because something that it needs is missing; the message says what."""


def report_good(name: str, finding: str) -> Line:
    """Make a line for something that works."""
    return Line(name, Status.GOOD, finding)


def report_warning(name: str, finding: str, advice: str) -> Line:
    """Make a line for something that works, but not as it should or not for long."""
    return Line(name, Status.WARNING, finding, advice)


def report_failed(name: str, finding: str, advice: str = "") -> Line:
    """Make a line for a failure. `finding` may include the advice, as error messages do."""
    return Line(name, Status.FAILED, finding, advice)


def report_unchecked(name: str, reason: str, advice: str = "") -> Line:
    """Make a line for something that could not be checked."""
    return Line(name, Status.UNCHECKED, reason, advice)


class Lazy(Generic[T]):
    """A value, or its SandpiperError, computed at the first call and shared by all threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value: list[T] = []
        self._error: SandpiperError | None = None

    def __call__(self) -> T:
        """Return the value. Raises the SandpiperError that computing it raised."""
        with self._lock:
            if not self._value and self._error is None:
                try:
                    self._value.append(self._make())
                except SandpiperError as error:
                    self._error = error
            if self._error:
                raise self._error
            return self._value[0]


class ProbedStore(Protocol):
    """The part of a session store that the doctor checks."""

    @property
    def records(self) -> Records:
        """See sessions.base.SessionStore."""
        ...

    def probe(self) -> None:
        """Raise StoreError unless the store accepts writes and honours conditional ones."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configured model. `is_listed` and `has_price` say what the catalogue knows about it.

    `roles` lists the roles it is configured for; `level` is the reasoning level of its requests.
    `assumed_like` is the listed model whose price and window are assumed for it, "" for none.
    `refusal` says why it is refused for want of a price, "" if it is not; `is_charged` says that
    limits.assumed_price stands for its own. `calls_tools` says whether it must be able to call
    tools.
    """

    name: str
    roles: str
    level: str
    is_listed: bool
    has_price: bool
    assumed_like: str
    open: Callable[[], AbstractContextManager[Model]]
    calls_tools: bool = True
    refusal: str = ""
    is_charged: bool = False


@dataclass(frozen=True, slots=True)
class ModelList:
    """The model list of a configured model's provider; `compare` requests and compares it."""

    provider: str
    compare: Callable[[], Comparison]


@dataclass(frozen=True, slots=True)
class Installation:
    """The parts of an installation that the checks examine.

    `url` is our address for GitLab, "" if unknown; `file` is the configuration file, if any.
    `other_addressing` returns the `s3_addressing` that the server answers to, None unless it is
    another than is set. `broker` returns why the broker cannot be used, or None; `workers` lists
    the workers that answer through it. `import_path` lists the folders that Python searches. `now`
    is in epoch seconds, `monotonic` in seconds of a monotonic clock.
    """

    settings: Settings
    file: Path | None
    url: str
    fix: bool
    gitlab: Accounts
    store: Callable[[], ProbedStore]
    other_addressing: Callable[[], str | None]
    driver: Callable[[], Driver]
    engine: Callable[[], Engine]
    cluster: Callable[[], ClusterFacts]
    missing_limits: Callable[[], Sequence[str]]
    models: Callable[[], Sequence[Candidate]]
    model_lists: Callable[[], Sequence[ModelList]]
    broker: Callable[[], QueueError | None]
    workers: Callable[[], Sequence[str]]
    tools: Callable[[], Sequence[str]]
    import_path: Sequence[str]
    now: Callable[[], float]
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table. An error of `run` makes a failed line; Unchecked, an unchecked one."""

    name: str
    group: str
    run: Callable[[Installation], Iterable[Line]]
