"""100,000 turns in a folder: `sandpiper report` and the operators' pages, in seconds and memory.

The floor of the report is the reading of the same rows' bytes.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from worker.conversation.context import SessionKey
from worker.conversation.limits import Limits
from worker.jobs.verdict_days import count_ended_days, read_days
from worker.pages.http import Pages
from worker.pages.sign_in import Signer
from worker.sessions.folder import FolderStore
from worker.sessions.recent import Row, dump_row

TURNS, PROJECTS = 100_000, 300
VERDICTS = ("caused by this change", "flaky", "infrastructure", "unknown")
GOAL_SECONDS, GOAL_MEMORY, GOAL_PAGE = 60, 300, 0.2
TOKEN = "the-operators-token-0123"


def main() -> None:
    """Print the seconds, the peak memory, and the ratio to the floor."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), time.time())
        floor = _read_all(Path(folder))
        seconds = _time_report(folder)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"report over {TURNS:,} turns: {seconds:.1f} s (goal {GOAL_SECONDS})")
        print(f"  {seconds / floor:.1f} times the reading of the rows, {floor:.1f} s")
        print(f"  {peak:.0f} MB at most (goal {GOAL_MEMORY})")
        _print_counted(folder)
        _print_pages(folder)


def _time_report(folder: str) -> float:
    begun = time.monotonic()
    environment = {"SANDPIPER_STORE": f"file://{folder}", "PATH": os.environ["PATH"]}
    command = [str(Path(sys.executable).with_name("sandpiper")), "report", "--days", "60"]
    done = subprocess.run(
        [*command, "--json"], env=environment, cwd=folder, stdout=subprocess.PIPE, check=True
    )
    (everything,) = json.loads(done.stdout)["all"]
    assert everything["verdicts"] == TURNS
    return time.monotonic() - begun


def _print_counted(folder: str) -> None:
    begun = time.monotonic()
    days = list(count_ended_days(FolderStore(Path(folder)), time.time(), most=TURNS))
    print(f"sweep counts {len(days)} days: {time.monotonic() - begun:.1f} s")
    print(f"  report then: {_time_report(folder):.1f} s")


def _print_pages(folder: str) -> None:
    store = FolderStore(Path(folder))
    pages = Pages(lambda: store, lambda: Signer(TOKEN), TOKEN, Limits(), time.time, read_days)
    client = TestClient(Starlette(routes=pages.make_routes()))
    for path in (
        "/sessions",
        "/sessions?project=3",
        "/sessions/report",
        "/sessions/report?days=90",
    ):
        answer, times = client.get(path, auth=("me", TOKEN)), list[float]()
        assert answer.status_code == 200
        for _ in range(9):
            begun = time.monotonic()
            client.get(path, auth=("me", TOKEN))
            times.append(time.monotonic() - begun)
        median = statistics.median(times)
        print(f"  {path}: {median * 1000:.0f} ms (goal of the list {GOAL_PAGE * 1000:.0f})")


def _fill(folder: Path, now: float) -> None:
    recent = FolderStore(folder).recent_turns
    for number in range(TURNS):
        project, session = 1 + number % PROJECTS, f"{number:020x}"
        at = now - number * 40.0
        row = Row(
            session_id=session,
            project_id=project,
            project=f"group/project-{project}",
            mr_iid=1 + number % 50,
            web_url=f"https://gitlab.example.com/{project}",
            pipeline_id=1 + number,
            turn=0,
            started_at=at,
            status="done",
            verdict=VERDICTS[number % 4],
            model="anthropic/claude-sonnet-5-5",
            iterations=4,
            cost_usd=0.05,
        )
        recent.put_row(SessionKey(project, 1 + number % 50, session), 0, at, dump_row(row))


def _read_all(folder: Path) -> float:
    begun = time.monotonic()
    for path in folder.glob("recent/*/*.json"):
        path.read_bytes()
    return time.monotonic() - begun
