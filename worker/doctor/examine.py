"""Runs the checks in parallel, each with a time limit."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import SandboxError
from worker.doctor.base import (
    LIMIT,
    Check,
    Installation,
    Line,
    Status,
    Unchecked,
    report_failed,
    report_unchecked,
)
from worker.errors import SandpiperError


@dataclass(frozen=True, slots=True)
class Report:
    """The results. With `has_hung`, a check still runs, and its thread keeps the process alive."""

    lines: Sequence[tuple[Check, Line]]
    has_hung: bool

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return all(line.status is not Status.FAILED for _, line in self.lines)


def run_checks(
    installation: Installation,
    checks: Sequence[Check],
    redact: Callable[[str], str],
    limit: float = LIMIT,
    tell: Callable[[Check, Line], None] = lambda check, line: None,
) -> Report:
    """Run all checks in parallel, each for at most `limit` seconds.

    The lines are in the order of `checks`; their texts are redacted and made printable. `tell` is
    called with each line as soon as it and all before it are known.
    """
    pool = ThreadPoolExecutor(max(1, len(checks)), thread_name_prefix="doctor")
    running = [(check, pool.submit(_run, check, installation)) for check in checks]
    until = time.monotonic() + limit
    lines: list[tuple[Check, Line]] = []
    for check, future in running:
        wait([future], max(0.0, until - time.monotonic()))
        for line in _list_lines(check, future, limit):
            lines.append((check, _clean_line(line, redact)))
            tell(*lines[-1])
    pool.shutdown(wait=False, cancel_futures=True)
    return Report(lines, any(not future.done() for _, future in running))


def _run(check: Check, installation: Installation) -> list[Line]:
    try:
        return list(check.run(installation))
    except Unchecked as error:
        return [report_unchecked(check.name, str(error))]
    except (SandpiperError, SandboxError, OSError) as error:
        return [report_failed(check.name, str(error))]


def _list_lines(check: Check, future: "Future[list[Line]]", limit: float) -> Iterator[Line]:
    if not future.done():
        advice = "see whether what it asks is up, and reachable from here"
        yield report_failed(check.name, f"no answer within {limit:g} s", advice)
    elif error := future.exception():
        yield report_failed(check.name, f"the check itself failed: {_name_bug(error)}")
    else:
        yield from future.result()


def _clean_line(line: Line, redact: Callable[[str], str]) -> Line:
    return Line(
        line.name, line.status, _clean_text(line.finding, redact), _clean_text(line.advice, redact)
    )


def _clean_text(text: str, redact: Callable[[str], str]) -> str:
    flat = " ".join(redact(text[:4000]).split())
    return "".join(char if char.isprintable() else "�" for char in flat)[:1000]


def _name_bug(error: BaseException) -> str:
    """Describe an unexpected exception, with the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
