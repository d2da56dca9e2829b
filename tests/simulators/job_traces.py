"""Logs of jobs as GitLab's runner writes them: preparations, the command, its output, the end."""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_TOOLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"\.py::", "pytest -q", ("collected {all} items", "")),
    (r"\.py:\d+:\d+: [A-Z]+\d+ ", "flake8 src tests", ()),
    (r"\.py\b|\w+Error: |\w+\.exceptions\.", "pytest -q", ("collected {all} items", "")),
    (r"No matching distribution|pip ", "pip install -r requirements.txt", ("Collecting wheel",)),
    (r"_test\.go|\.go:", "go test ./...", ("ok  \texample.com/shop/core\t0.{all}s",)),
    (r"\.rs:", "cargo build --locked", ("   Compiling shop v0.4.1",)),
    (r"\.(spec|test)\.[jt]sx?", "npx jest --ci", ("PASS src/base.spec.ts",)),
    (r"\.[jt]sx? ", "npx eslint src", ()),
    (r"CVE-", "trivy image registry.example.com/shop", ("Detecting vulnerabilities...",)),
)
"""What tells a tool by its error, its command, and what it writes before the error."""

_ENDS = {
    "runner_system_failure": "ERROR: Job failed (system failure): prepare environment: the pod was "
    "evicted. Check https://docs.gitlab.com/runner/shells/ for more information",
    "job_execution_timeout": "ERROR: Job failed: execution took longer than 1h0m0s seconds",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What a log tells: how a job of this name ran at a commit, with which errors."""

    job: str
    sha: str
    ref: str
    began: datetime
    errors: Sequence[str] = ()
    status: str = "success"
    reason: str = "script_failure"
    command: str = ""


def choose_command(job: str, errors: Sequence[str]) -> str:
    """Return the command that a job runs which fails with such errors, if it ever does."""
    found = (each for error in errors if (each := _find_tool(error)[0]))
    return next(found, f"make {job}")


def make_trace(told: Told) -> bytes:
    """Make the log of a job that a runner took; the ids and durations in it differ from job to job.

    An error stands in a line of its own.
    """
    lines = [*_prepare(told), *_run(told)]
    if told.status == "success":
        lines.append("\x1b[32;1mJob succeeded\x1b[0;m")
    elif told.status == "failed":
        lines.append(
            f"\x1b[31;1m{_ENDS.get(told.reason, 'ERROR: Job failed: exit code 1')}\x1b[0;m"
        )
    stamps = (told.began + timedelta(milliseconds=370 * at) for at in range(len(lines)))
    return "".join(
        f"{stamp.strftime('%Y-%m-%dT%H:%M:%S.%f')}Z 01O {line}\n"
        for stamp, line in zip(stamps, lines, strict=True)
    ).encode()


def _prepare(told: Told) -> Iterator[str]:
    noise = _make_noise(told)
    yield "Running with gitlab-runner 18.9.0 (07e534ba)"
    yield f"  on shared-runner-{noise % 9} {noise:08x}"[:36]
    yield from _begin(told, "prepare_executor", 'Preparing the "docker" executor')
    yield "Using Docker executor with image registry.example.com/ci/base:12 ..."
    yield from _end(told, "prepare_executor")
    yield from _begin(told, "get_sources", "Getting source from Git repository")
    yield "Fetching changes with git depth set to 20..."
    yield f"Checking out {told.sha[:8]} as detached HEAD (ref is {told.ref})..."
    yield from _end(told, "get_sources")


def _run(told: Told) -> Iterator[str]:
    """What the command writes; nothing if the runner failed before."""
    if told.reason == "runner_system_failure" and told.status == "failed":
        return
    noise = _make_noise(told)
    yield from _begin(told, "step_script", 'Executing "step_script" stage of the job script')
    yield f"\x1b[32;1m$ {told.command or choose_command(told.job, told.errors)}\x1b[0;m"
    _, before = _find_tool(told.errors[0]) if told.errors else ("", ())
    for line in before:
        yield line.format(all=40 + noise % 9)
    for error in told.errors:
        bare = re.match(r"\S+\.(spec|test)\.[jt]sx?: (?!.*Error)", error)
        yield f"Error: {error}" if bare else error
    if told.errors and "::" in told.errors[0]:
        yield f"{len(told.errors)} failed, {38 + noise % 9} passed in {3 + noise % 400 / 100:.2f}s"
    yield from _end(told, "step_script")


def _find_tool(error: str) -> tuple[str, tuple[str, ...]]:
    found = ((command, before) for sign, command, before in _TOOLS if re.search(sign, error))
    return next(found, ("", ()))


def _begin(told: Told, name: str, title: str) -> Iterator[str]:
    begun = f"section_start:{int(told.began.timestamp())}:{name}\r\x1b[0K"
    yield f"{begun}\x1b[0K\x1b[36;1m{title}\x1b[0;m"


def _end(told: Told, name: str) -> Iterator[str]:
    yield f"section_end:{int(told.began.timestamp())}:{name}\r\x1b[0K"


def _make_noise(told: Told) -> int:
    return zlib.crc32(f"{told.job} {told.sha} {told.began}".encode())
