"""What was run of a change is found by its file, whatever characters the file's name has."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import ExecResult, Output
from tests.contexts import call, context
from tests.fakes import EMPTY, MemorySandbox
from tests.jobs import START, Job, OneLog
from tests.simulators.gitlab import GitLabSim
from worker.answer.trials import CheckRun, Trial
from worker.conversation.context import CallCost, Context, Outcome, Status
from worker.conversation.messages import Assistant, ToolResult, Usage, User
from worker.turns.trials import MAX_COPIES, find_trials
from worker.verdict.finding import JobLog, Place
from worker.verdict.jobs import FailingJob, Group, Survey

OLD = ["def total(xs):", "    return 4"]
FIX = (
    "## Verdict\ncaused by this change\n\n## Failed\nunit: `./run-tests --all`\n\n## Cause\nx\n\n"
    "## What to do\n```suggestion {}:2\n  0\n```"
)


class Repository(OneLog):
    """Every file of it is the same, and one job has a log."""

    def read_lines(self, place: Place) -> list[str]:
        if place == JobLog(7):
            return ["$ sh ci/lint.sh", "$ prove t"]
        return OLD


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Job]:
    with GitLabSim() as running:
        yield Job(running, tmp_path / "store")


def look_in(folder: Path) -> MemorySandbox:
    """A sandbox whose files are in a folder."""

    def answer(command: str) -> ExecResult:
        there = command.replace("/tmp", str(folder))
        done = subprocess.run(["bash", "-c", there], capture_output=True, text=True, check=False)
        return ExecResult(done.returncode, Output(done.stdout, 0, 0), EMPTY, 0.0)

    return MemorySandbox(answer)


def answered(path: str, command: str) -> Context:
    """A turn that ran a command with the file's change in place, and advises this."""
    made = context(
        User("event"),
        Assistant("", (call("c", "sandbox_exec", json.dumps({"command": command})),)),
        ToolResult("c", "sandbox_exec", json.dumps({"exit_code": 0})),
        outcome=Outcome(Status.DONE, FIX.format(path), ""),
    )
    return context(
        *made.messages,
        outcome=made.outcome,
        calls=(CallCost(0, "m", Usage(), 0.0, START + 9.0, 1.0, 1),),
    )


@pytest.mark.parametrize("name", ["sum.py", "[id].tsx", "$id.tsx", "*", "what?.md", "it's {x}, a"])
def test_a_change_is_found_by_the_name_of_its_file_alone(
    at: Job, tmp_path: Path, name: str
) -> None:
    for other in ("i.tsx", "sum2.py", "whats.md"):
        (tmp_path / "files" / "app").mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / "app" / other).write_text("def total(xs):\n  0\n")
    path, sandbox = f"app/{name}", look_in(tmp_path / "files")
    turn = answered(path, f"# {path}\ncd {tmp_path}/files; prove t")
    (found,) = find_trials(turn, sandbox, Repository(), at.build_deps()).values()
    assert found == Trial()
    (tmp_path / "files" / "app" / name).write_text("def total(xs):\n  0\n")
    (found,) = find_trials(turn, sandbox, Repository(), at.build_deps()).values()
    assert found == Trial((CheckRun("prove t", 0),))


def test_over_a_file_that_stands_alone_no_check_of_the_project_has_run(
    at: Job, tmp_path: Path
) -> None:
    (tmp_path / "sum.py").write_text("def total(xs):\n  0\n")
    turn = answered("app/sum.py", f"cd {tmp_path}; prove t sum.py")
    (found,) = find_trials(turn, look_in(tmp_path), Repository(), at.build_deps()).values()
    assert found == Trial()


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("cd {0} && prove t", "prove t"),
        ("cd {0}/app && prove t", "prove t"),
        ("prove {0}/t", "prove {0}/t"),
        ("cd {0}/../other && prove t", ""),
        ("prove t", ""),
        ("cd {0} && ./run-tests --all", "./run-tests --all"),
        ("cd {0} && sh ci/lint.sh", "sh ci/lint.sh"),
        ("cd {0} && sh ci/other.sh", ""),
    ],
)
def test_a_check_counts_that_ran_in_the_folder_of_the_change(
    at: Job, tmp_path: Path, command: str, run: str
) -> None:
    root = tmp_path / "work" / "src"
    (root / "app").mkdir(parents=True)
    (root / "app" / "sum.py").write_text("def total(xs):\n  0\n")
    sandbox = look_in(tmp_path)
    turn = answered("app/sum.py", f"ls sum.py; {command.format(root)}")
    survey = Survey((Group("", "", (FailingJob(7, "unit"),)),))
    turn = replace(turn, survey=survey)
    (found,) = find_trials(turn, sandbox, Repository(), at.build_deps()).values()
    runs = (CheckRun(run.format(root), 0),) if run else ()
    assert found == Trial(runs, is_foreign=run.startswith("./run-tests"))


def test_of_very_many_copies_the_oldest_are_looked_at(at: Job, tmp_path: Path) -> None:
    for number in range(MAX_COPIES + 1):
        copy = tmp_path / f"copy{number}" / "app" / "sum.py"
        copy.parent.mkdir(parents=True)
        copy.write_text("def total(xs):\n  0\n")
    last = tmp_path / f"copy{MAX_COPIES}"
    for folder, runs in ((tmp_path / "copy0", 1), (last, 0)):
        turn = answered("app/sum.py", f"ls sum.py; cd {folder} && prove t")
        (found,) = find_trials(turn, look_in(tmp_path), Repository(), at.build_deps()).values()
        assert len(found.runs) == runs
