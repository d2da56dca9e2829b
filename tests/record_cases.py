"""Records the logs of the bundled cases anew:  python -m tests.record_cases [NAME…]

Each log of a case's `record.yaml` is what its script really prints, on the files of the merge
request's head or of the target branch, in the form in which the GitLab runner writes it. Needs root
for the runner's folder, and the tools that the scripts call.
"""

import os
import shutil
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.record_case import BUILDS, Trace, keep_log, run_commands, write_files
from worker.lab.cases import Case, load_case

CASES = Path(__file__).with_name("cases")
START = datetime(2026, 11, 20, 9, 2, 11, tzinfo=UTC)
CUT = "\x1b[33;1mJob's log exceeded limit of {} bytes.\x1b[0;m"


@dataclass(frozen=True)
class Recording:
    """How one log is made. `ending` takes the place of the runner's last line; `limit` is the most
    bytes that the runner keeps, 0 for all."""

    image: str
    script: list[str]
    tree: str = "head"
    ending: str = ""
    limit: int = 0
    variables: dict[str, str] = field(default_factory=dict)


def record_log(case: Case, made: Recording) -> bytes:
    """Run a script on the case's files, and return its log."""
    folder = BUILDS / case.content.project.path
    write_files(_choose_files(case, made.tree), folder)
    trace = Trace(START)
    trace.write("\x1b[0KRunning with gitlab-runner 18.5.0 (bda84871)\x1b[0;m")
    for _ in trace.section("prepare_executor", 'Preparing the "docker" executor'):
        trace.write(f"\x1b[0KUsing Docker executor with image {made.image} ...\x1b[0;m", after=0.1)
    for _ in trace.section("get_sources", "Getting source from Git repository"):
        trace.write("\x1b[32;1mFetching changes with git depth set to 20...\x1b[0;m", "01O")
    for _ in trace.section("step_script", 'Executing "step_script" stage of the job script'):
        code = run_commands(trace, made.script, folder, _choose_variables(made), stop=True)
    trace.joins = False
    failed = made.ending or f"ERROR: Job failed: exit code {code}"
    if not code:
        sys.exit(f"{case.name}: the script passes")
    log = b"\n".join(trace.lines) + b"\n"
    if 0 < made.limit < len(log):
        kept = log[: made.limit].rpartition(b"\n")[0]
        return kept + b"\n" + CUT.format(made.limit).encode() + b"\n"
    trace.write(f"\x1b[31;1m{failed}\x1b[0;m")
    return b"\n".join(trace.lines) + b"\n"


def _choose_variables(made: Recording) -> dict[str, str]:
    """The job's variables, and where the tools of this machine lie."""
    tools = Path(sys.executable).parent
    kept = {"PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1", "GOFLAGS": "-mod=mod"}
    for name in ("RUSTUP_HOME", "CARGO_HOME"):
        kept[name] = os.environ.get(name, str(Path.home() / f".{name[:-5].lower()}"))
    return kept | made.variables


def _choose_files(case: Case, tree: str) -> dict[str, bytes]:
    files = case.read_tree("base") | (case.read_tree("head") if tree == "head" else {})
    deleted = case.content.merge_request.deleted_files if tree == "head" else ()
    return {path: content for path, content in files.items() if path not in deleted}


def record_case(folder: Path) -> None:
    """Record every log of a case."""
    listed: dict[str, Any] = yaml.safe_load((folder / "record.yaml").read_text("utf-8"))["logs"]
    (folder / "logs").mkdir(exist_ok=True)
    for name, fields in listed.items():
        (folder / "logs" / name).unlink(missing_ok=True)
        try:
            log = record_log(load_case(folder), Recording(**fields))
        finally:
            shutil.rmtree(BUILDS, ignore_errors=True)
        keep_log(folder / "logs" / name, log)


def main() -> None:
    """Record the cases that are named, or all."""
    if BUILDS.exists():
        sys.exit(f"{BUILDS} exists already: this is not a machine to record on")
    wanted = sys.argv[1:]
    for file in sorted(CASES.glob("*/record.yaml")):
        if not wanted or file.parent.name in wanted:
            record_case(file.parent)


if __name__ == "__main__":
    main()
