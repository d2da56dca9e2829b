"""What a check is given, and what it says."""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sandbox.about import Engine
from sandbox.base import Driver
from worker.core.ports import Model
from worker.core.ports.records import Records
from worker.doctor.gitlab import Accounts
from worker.errors import SandpiperError
from worker.settings import Settings

LIMIT = 20.0
"""Seconds that one check may take; all begin at once."""

T = TypeVar("T")


class Status(StrEnum):
    """What became of a line. Only FAILED makes the doctor fail."""

    GOOD = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: what was found, and what to do about it ("" for nothing)."""

    name: str
    status: Status
    finding: str
    advice: str = ""


class Unchecked(SandpiperError):
    """What a check needs is not there, so that it has nothing to say; the message is why."""


def report_good(name: str, found: str) -> Line:
    """All is well."""
    return Line(name, Status.GOOD, found)


def report_warning(name: str, found: str, advice: str) -> Line:
    """It works, but not for long, or not as it should."""
    return Line(name, Status.WARNING, found, advice)


def report_failed(name: str, found: str, advice: str = "") -> Line:
    """It does not work. `found` may hold the advice already, as messages of errors do."""
    return Line(name, Status.FAILED, found, advice)


def report_unchecked(name: str, why: str, advice: str = "") -> Line:
    """It could not be looked at."""
    return Line(name, Status.UNCHECKED, why, advice)


class Lazy(Generic[T]):
    """A value that is had once, when it is first asked for, whoever asks; so is its error."""

    def __init__(self, have: Callable[[], T]) -> None:
        self._have = have
        self._lock = threading.Lock()
        self._value: list[T] = []
        self._error: SandpiperError | None = None

    def __call__(self) -> T:
        """The value. Raises the SandpiperError that having it raised."""
        with self._lock:
            if not self._value and self._error is None:
                try:
                    self._value.append(self._have())
                except SandpiperError as error:
                    self._error = error
            if self._error:
                raise self._error
            return self._value[0]


class ProbedStore(Protocol):
    """The part of a session store that is tried."""

    @property
    def records(self) -> Records:
        """See core.ports.SessionStore."""
        ...

    def probe(self) -> None:
        """Raise StoreError unless it takes writes and honours their conditions."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configured model. `listed` and `priced` are what the catalogue knows of it."""

    name: str
    is_listed: bool
    has_price: bool
    open: Callable[[], AbstractContextManager[Model]]


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that is looked at.

    `url` is where GitLab reaches us, "" if unknown; `file` is the configuration file, if any.
    `broker` says why the broker cannot be used, or None; `workers` are those that answer it.
    `now` is in epoch seconds, `monotonic` in seconds that never go back.
    """

    settings: Settings
    file: Path | None
    url: str
    fix: bool
    gitlab: Accounts
    store: Callable[[], ProbedStore]
    driver: Callable[[], Driver]
    engine: Callable[[], Engine]
    missing_limits: Callable[[], Sequence[str]]
    models: Callable[[], Sequence[Candidate]]
    broker: Callable[[], str | None]
    workers: Callable[[], Sequence[str]]
    tools: Callable[[], Sequence[str]]
    now: Callable[[], float]
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table. `run` may raise SandpiperError or SandboxError: a failed line."""

    name: str
    group: str
    run: Callable[[Installation], Iterable[Line]]
