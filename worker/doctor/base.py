"""A check: what it is given, the lines that it yields, and how all are run in parallel."""

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sandbox.base import Driver, SandboxError
from sandbox.engine import Engine
from sandbox.kubernetes.cluster import ClusterFacts
from worker.conversation.model import Model
from worker.doctor.gitlab import Accounts
from worker.errors import QueueError, SandpiperError
from worker.models.discovery import Comparison
from worker.sessions.objects import Records
from worker.settings import Settings

LIMIT = 20.0
"""Seconds that a check may take; all checks start at the same time."""

T = TypeVar("T")


class CheckStatus(StrEnum):
    """The status of a line. Only FAILED makes the doctor fail."""

    GOOD = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """The result of a check: what was found, and what to do about it ("" for nothing)."""

    name: str
    status: CheckStatus
    finding: str
    advice: str = ""


class Unchecked(SandpiperError):
    """A check cannot run because something that it needs is missing; the message says what."""


def report_good(name: str, finding: str) -> CheckLine:
    """Make a line for something that works."""
    return CheckLine(name, CheckStatus.GOOD, finding)


def report_warning(name: str, finding: str, advice: str) -> CheckLine:
    """Make a line for something that works, but not as it should or not for long."""
    return CheckLine(name, CheckStatus.WARNING, finding, advice)


def report_failed(name: str, finding: str, advice: str = "") -> CheckLine:
    """Make a line for a failure. `finding` may include the advice, as error messages do."""
    return CheckLine(name, CheckStatus.FAILED, finding, advice)


def report_unchecked(name: str, reason: str, advice: str = "") -> CheckLine:
    """Make a line for something that could not be checked."""
    return CheckLine(name, CheckStatus.UNCHECKED, reason, advice)


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
    """A configured model, and what the catalogue knows about it."""

    name: str
    roles: str
    """The roles that it is configured for, as a list in words."""
    level: str
    """The reasoning level of its requests."""
    is_listed: bool
    """Whether the catalogue has it."""
    has_price: bool
    assumed_like: str
    """The listed model whose price and window are assumed for it, "" for none."""
    open: Callable[[], AbstractContextManager[Model]]
    calls_tools: bool = True
    """Whether it must be able to call tools."""
    refusal: str = ""
    """Why it is refused for want of a price, "" if it is not."""
    is_charged: bool = False
    """Whether limits.assumed_price stands for its own."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The model list of a configured model's provider; `compare` requests and compares it."""

    provider: str
    compare: Callable[[], Comparison]


@dataclass(frozen=True, slots=True)
class Installation:
    """The parts of an installation that the checks examine."""

    settings: Settings
    file: Path | None
    """The configuration file, if there is one."""
    url: str
    """Our address for GitLab, "" if unknown."""
    fix: bool
    """Whether webhooks are made and repaired."""
    gitlab: Accounts
    store: Callable[[], ProbedStore]
    other_addressing: Callable[[], str | None]
    """The `s3_addressing` that the server answers to, None unless another one is set."""
    driver: Callable[[], Driver]
    engine: Callable[[], Engine]
    cluster: Callable[[], ClusterFacts]
    missing_limits: Callable[[], Sequence[str]]
    """The limits that cannot be enforced for each sandbox without an engine."""
    models: Callable[[], Sequence[Candidate]]
    model_lists: Callable[[], Sequence[ModelList]]
    broker: Callable[[], QueueError | None]
    """Why the broker cannot be used, or None."""
    workers: Callable[[], Sequence[str]]
    """The workers that answer through the broker."""
    tools: Callable[[], Sequence[str]]
    """The tools and sources that a workflow may name."""
    import_path: Sequence[str]
    """The folders that Python searches."""
    now: Callable[[], float]
    """Epoch seconds."""
    monotonic: Callable[[], float]
    """Seconds of a monotonic clock."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table. An error of `run` makes a failed line; Unchecked, an unchecked one."""

    name: str
    group: str
    run: Callable[[Installation], Iterable[CheckLine]]


@dataclass(frozen=True, slots=True)
class Report:
    """The results. With `has_hung`, a check still runs, and its thread keeps the process alive."""

    lines: Sequence[tuple[Check, CheckLine]]
    has_hung: bool

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return all(line.status is not CheckStatus.FAILED for _, line in self.lines)


def run_checks(
    installation: Installation,
    checks: Sequence[Check],
    redact: Callable[[str], str],
    limit: float = LIMIT,
    tell: Callable[[Check, CheckLine], None] = lambda check, line: None,
) -> Report:
    """Run all checks in parallel, each for at most `limit` seconds.

    The lines are in the order of `checks`; their texts are redacted and made printable. `tell` is
    called with each line as soon as it and all before it are known.
    """
    pool = ThreadPoolExecutor(max(1, len(checks)), thread_name_prefix="doctor")
    running = [(check, pool.submit(_run, check, installation)) for check in checks]
    until = time.monotonic() + limit
    lines: list[tuple[Check, CheckLine]] = []
    for check, future in running:
        wait([future], max(0.0, until - time.monotonic()))
        for line in _list_lines(check, future, limit):
            finding, advice = (_clean_text(text, redact) for text in (line.finding, line.advice))
            lines.append((check, replace(line, finding=finding, advice=advice)))
            tell(*lines[-1])
    pool.shutdown(wait=False, cancel_futures=True)
    return Report(lines, any(not future.done() for _, future in running))


def _run(check: Check, installation: Installation) -> list[CheckLine]:
    try:
        return list(check.run(installation))
    except Unchecked as error:
        return [report_unchecked(check.name, str(error))]
    except (SandpiperError, SandboxError, OSError) as error:
        return [report_failed(check.name, str(error))]


def _list_lines(
    check: Check, future: "Future[list[CheckLine]]", limit: float
) -> Iterator[CheckLine]:
    if not future.done():
        advice = "see whether what it asks is up, and reachable from here"
        yield report_failed(check.name, f"no answer within {limit:g} s", advice)
    elif error := future.exception():
        # A bug is named with the line of code that raised it.
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        bug = f"{type(error).__name__}: {error}{where}"
        yield report_failed(check.name, f"the check itself failed: {bug}")
    else:
        yield from future.result()


def _clean_text(text: str, redact: Callable[[str], str]) -> str:
    flat = " ".join(redact(text[:4000]).split())
    return "".join(char if char.isprintable() else "�" for char in flat)[:1000]
