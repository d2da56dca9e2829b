"""`.ci/once`, which runs a check of `make check` unless it has passed on these very files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.law.house import ROOT

CHECK = "echo run >>ran.log"


class Tree:
    """A repository of two files with an environment, and a check whose runs are counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir()
        for name in ("once", "common.sh"):
            shutil.copy(ROOT / ".ci" / name, folder / ".ci" / name)
        self.record = folder / ".venv/lib/python3/site-packages/a-1.dist-info/RECORD"
        self.record.parent.mkdir(parents=True)
        self.record.write_text("a.py,sha256=1,1\n")
        (folder / ".venv/bin").mkdir()
        (folder / ".venv/bin/python").symlink_to(sys.executable)
        (folder / ".gitignore").write_text("/.venv\n/.cache\n/ran.log\n")
        self.file = folder / "a.py"
        self.file.write_text("a = 1\n")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True, timeout=60)
        subprocess.run(["git", "add", "a.py"], cwd=folder, check=True, timeout=60)

    def check(self, command: str = CHECK, **given: str) -> int:
        """Make the check; returns its exit status."""
        return subprocess.run(
            [self.folder / ".ci/once", "law", "bash", "-c", command],
            env={"PATH": os.environ["PATH"]} | given,
            capture_output=True,
            timeout=60,
            check=False,
        ).returncode

    @property
    def runs(self) -> int:
        """How often the check has run."""
        log = self.folder / "ran.log"
        return log.read_text().count("run") if log.exists() else 0


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_check_that_has_passed_is_not_made_again_on_the_same_files(tree: Tree) -> None:
    assert [tree.check(), tree.check(), tree.runs] == [0, 0, 1]
    os.utime(tree.file, (1, 1))
    assert [tree.check(), tree.runs] == [0, 1]


def rewrite_within_the_same_second_and_size(tree: Tree) -> None:
    times = tree.file.stat()
    tree.file.write_text("a = 2\n")
    os.utime(tree.file, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: list[Callable[[Tree], object]] = [
    rewrite_within_the_same_second_and_size,
    lambda tree: (tree.folder / "new.py").write_text("not added yet"),
    lambda tree: tree.file.unlink(),
    lambda tree: tree.file.rename(tree.folder / "b.py"),
    lambda tree: tree.file.chmod(0o755),
    lambda tree: tree.record.write_text("a.py,sha256=2,1\n"),
    lambda tree: tree.record.parent.rename(tree.record.parent.with_name("a-2.dist-info")),
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_check_may_depend_on_makes_it_run_again(
    tree: Tree, change: Callable[[Tree], object]
) -> None:
    tree.check()
    change(tree)
    assert [tree.check(), tree.runs] == [0, 2]


def test_another_command_or_a_variable_of_the_tools_makes_it_run_again(tree: Tree) -> None:
    tree.check()
    tree.check(f"{CHECK}; true")
    tree.check(f"{CHECK}; true", PYTEST_ADDOPTS="-x")
    tree.check(f"{CHECK}; true", PYTEST_ADDOPTS="-x", AGAIN="1")
    assert tree.runs == 4


def test_a_check_that_fails_is_made_again(tree: Tree) -> None:
    assert [tree.check(f"{CHECK}; exit 3"), tree.check(f"{CHECK}; exit 3")] == [3, 3]
    assert tree.runs == 2


def test_a_failure_forgets_that_it_has_passed_before(tree: Tree) -> None:
    tree.check()
    tree.file.write_text("a = 2\n")
    tree.check(f"{CHECK}; exit 3")
    tree.file.write_text("a = 1\n")
    assert [tree.check(), tree.runs] == [0, 3]


def test_a_file_that_changes_meanwhile_is_not_taken_for_checked(tree: Tree) -> None:
    changing = f"{CHECK}; echo '#' >>{tree.file}"
    tree.check(changing)
    tree.check(changing)
    assert tree.runs == 2
