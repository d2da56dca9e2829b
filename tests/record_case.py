"""Records the bundled case's job logs anew:  python -m tests.record_case

Runs the script of each job of `worker/lab/case/` on the merge request's head, as the GitLab runner
would, in the folder that the runner uses, and writes `worker/lab/case/logs/*.log.gz`.
Needs root for that folder, and a package index for pip.
"""

import gzip
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import yaml

from worker.lab.cases import load_case
from worker.lab.gitlab.state import Job, MergeRequest
from worker.lab.gitlab.world import World
from worker.lab.running import stage_case
from worker.lab.story import CASE

BUILDS = Path("/builds")
START = datetime(2026, 11, 19, 8, 39, 41, tzinfo=UTC)
LEAKS = (b"/root", b"/home/", b"/work/", b".pyenv", b"Looking in ", b"http://127.")
OPTIONAL: dict[str, Any] = {"before_script": [], "after_script": [], "artifacts": {}}


@dataclass
class Trace:
    """A job's log as it grows. `now` is the case's time, not that of the recording."""

    now: datetime
    lines: list[bytes] = field(default_factory=list)
    joins: bool = False

    def write(self, text: str | bytes, stream: str = "00O", after: float = 0.0002) -> None:
        """One physical line, `after` seconds later than the one before."""
        self.now += timedelta(seconds=after)
        flag = "+" if self.joins else " "
        self.joins = False
        raw = text.encode() if isinstance(text, str) else text
        self.lines.append(f"{self.now:%Y-%m-%dT%H:%M:%S.%f}Z {stream}{flag}".encode() + raw)

    def section(self, name: str, title: str) -> Iterator[None]:
        """The marks around a section; the runner joins them with what follows."""
        self.write(f"section_start:{self.now.timestamp():.0f}:{name}\r\x1b[0K")
        self.joins = True
        self.write(f"\x1b[0K\x1b[36;1m{title}\x1b[0;m\x1b[0;m")
        yield
        self.write(f"section_end:{self.now.timestamp():.0f}:{name}\r\x1b[0K")
        self.joins = True


def record(mr: MergeRequest, job: Job, config: dict[str, Any], start: datetime) -> bytes:
    """The log of `job`."""
    settings = OPTIONAL | config["default"] | config[job.name]
    project = BUILDS / mr.project.path
    trace = Trace(start)
    _prologue(trace, mr, settings["image"])
    for _ in trace.section("step_script", 'Executing "step_script" stage of the job script'):
        trace.write(f"\x1b[0KUsing docker image {settings['image']} ...\x1b[0;m")
        commands = settings["before_script"] + settings["script"]
        code = run_commands(trace, commands, project, config["variables"], stop=True)
    if settings["after_script"]:
        for _ in trace.section("after_script", "Running after_script"):
            trace.write("\x1b[0;33mRunning after script...\x1b[0;m")
            run_commands(trace, settings["after_script"], project, config["variables"], stop=False)
    _upload(trace, settings["artifacts"].get("reports", {}), job)
    for _ in trace.section(
        "cleanup_file_variables", "Cleaning up project directory and file based variables"
    ):
        trace.now += timedelta(seconds=0.41)
    trace.joins = False
    trace.write(
        f"\x1b[31;1mERROR: Job failed: exit code {code}\x1b[0;m"
        if code
        else "\x1b[32;1mJob succeeded\x1b[0;m"
    )
    if (code != 0) != (job.status == "failed"):
        sys.exit(f"{job.name} ended with {code}, but case.yaml says {job.status}")
    return b"\n".join(trace.lines) + b"\n"


def _prologue(trace: Trace, mr: MergeRequest, image: str) -> None:
    digest = hashlib.sha256(image.encode()).hexdigest()
    trace.write("\x1b[0KRunning with gitlab-runner 18.5.0 (bda84871)\x1b[0;m")
    trace.write("\x1b[0K  on quay-runner-2 x1yPqAa7b, system ID: s_8d5a1c3f0b2e\x1b[0;m")
    for _ in trace.section("prepare_executor", 'Preparing the "docker" executor'):
        trace.write(f"\x1b[0KUsing Docker executor with image {image} ...\x1b[0;m", after=0.1)
        trace.write(f"\x1b[0KPulling docker image {image} ...\x1b[0;m", after=0.02)
        trace.write(f"\x1b[0KUsing docker image sha256:{digest} for {image} ...\x1b[0;m", after=3.4)
    for _ in trace.section("prepare_script", "Preparing environment"):
        runner = f"runner-x1ypqaa7b-project-{mr.project.id}-concurrent-0"
        trace.write(f"Running on {runner} via quay-runner-2...", "01O", after=0.6)
    for _ in trace.section("get_sources", "Getting source from Git repository"):
        folder = BUILDS / mr.project.path
        ref = f"refs/merge-requests/{mr.iid}/head"
        trace.write(
            "\x1b[32;1mFetching changes with git depth set to 20...\x1b[0;m", "01O", after=0.5
        )
        trace.write(f"Initialized empty Git repository in {folder}/.git/", "01O")
        trace.write("\x1b[32;1mCreated fresh repository.\x1b[0;m", "01O", after=0.7)
        checkout = f"Checking out {mr.sha[:8]} as detached HEAD (ref is {ref})..."
        trace.write(f"\x1b[32;1m{checkout}\x1b[0;m", "01O")
        trace.write("\x1b[32;1mSkipping Git submodules setup\x1b[0;m", "01O", after=0.1)


def run_commands(
    trace: Trace, commands: list[str], folder: Path, variables: dict[str, str], *, stop: bool
) -> int:
    """Run the commands in one shell, each printed before it runs, as the runner does."""
    script = "set -eo pipefail\n" if stop else ""
    for command in commands:
        script += f"printf '\\033[32;1m$ %s\\033[0;m\\n' {_quoted(command)}\n{command}\n"
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    offset, begun = trace.now, time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        streams = [
            pool.submit(_timed, process.stdout, "01O"),
            pool.submit(_timed, process.stderr, "01E"),
        ]
    lines = itertools.chain(*(each.result() for each in streams))
    for at, stream, line in sorted(lines, key=lambda entry: entry[0]):
        trace.now = max(trace.now, offset + timedelta(seconds=at - begun))
        trace.write(line, stream, after=0.000003)
    return process.wait()


def _timed(stream: IO[bytes] | None, name: str) -> list[tuple[float, str, bytes]]:
    assert stream is not None
    return [(time.monotonic(), name, line.rstrip(b"\n")) for line in stream]


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


def _environment(variables: dict[str, str]) -> dict[str, str]:
    """A runner's: nothing of this machine but its search path and its certificates."""
    kept = {name: os.environ[name] for name in ("PATH", "PIP_CERT") if name in os.environ}
    own = {"HOME": str(BUILDS), "CI": "true", "COLUMNS": "80", "PIP_NO_CACHE_DIR": "1"}
    own |= {"PIP_CONFIG_FILE": os.devnull, "PIP_ROOT_USER_ACTION": "ignore", "PYTHONUTF8": "1"}
    return {**kept, **own, **variables}


def _upload(trace: Trace, reports: dict[str, Any], job: Job) -> None:
    if not reports:
        return
    for _ in trace.section("upload_artifacts_on_failure", "Uploading artifacts for failed job"):
        for kind in ("junit", "cobertura"):
            name = reports["junit"] if kind == "junit" else reports["coverage_report"]["path"]
            trace.write("\x1b[32;1mUploading artifacts...\x1b[0;m", "01O", after=0.6)
            found = f"{name}: found 1 matching artifact files and directories\x1b[0;m "
            trace.write(found, "01E", after=0.01)
            trace.write(
                f'Uploading artifacts as "{kind}" to coordinator... 201 Created\x1b[0;m '
                f" id\x1b[0;m={job.id} responseStatus\x1b[0;m=201 Created",
                "01E",
                after=0.3,
            )


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Put the files, named by their paths in it, into a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def keep_log(file: Path, log: bytes) -> None:
    """Write a recorded log, packed if its name says so, unless it tells of this machine."""
    if found := [leak for leak in LEAKS if leak in log]:
        sys.exit(f"{file} tells of this machine: {found}")
    file.write_bytes(gzip.compress(log, 9, mtime=0) if file.suffix == ".gz" else log)
    sys.stdout.write(f"{file}: {len(log)} bytes\n")


def main() -> None:
    """Record every job that ran."""
    staged = stage_case(World(), load_case(CASE))
    mr, jobs = staged.mr, [job for job in staged.pipeline.jobs if job.status != "skipped"]
    files = mr.project.commits[mr.sha]
    config = yaml.safe_load(files[".gitlab-ci.yml"])
    if BUILDS.exists():
        sys.exit(f"{BUILDS} exists already: this is not a machine to record on")
    for number, job in enumerate(jobs):
        try:
            write_files(files, BUILDS / mr.project.path)
            log = record(mr, job, config, START + timedelta(seconds=max(0, number - 1) * 31))
        finally:
            shutil.rmtree(BUILDS, ignore_errors=True)
        keep_log(CASE / "logs" / f"{job.name}.log.gz", log)


if __name__ == "__main__":
    main()
