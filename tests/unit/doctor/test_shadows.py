"""Other packages called `worker` or `sandbox`: which are found, and what is said of them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from worker.doctor.shadows import HOME, find_shadows

OWN = "install Sandpiper into an environment of its own (pipx, `uv tool`, a new venv)"
HIDES = (
    "Sandpiper's `worker` hides another one from Python: TMP/other/worker: "
    f"if that is needed, {OWN}"
)


def say_hidden(file: str, name: str) -> str:
    return (
        f"Python takes TMP/other/{file} for Sandpiper's `{name}`: "
        f"take TMP/other out of PYTHONPATH, or {OWN}"
    )


def say_mixed(called: str) -> str:
    return f"has put files of its own into Sandpiper's {called}: uninstall both, then {OWN}"


def lay(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


def install(folder: Path, name: str, *files: str) -> None:
    """What an installer leaves of a distribution that has these files."""
    about = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n")
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def told(path: Sequence[Path], home: Path) -> list[str]:
    found = find_shadows([str(each) for each in path], home)
    return [f"{each.finding}: {each.advice}" for each in found]


@pytest.mark.parametrize(
    ("file", "is_first", "said"),
    [
        ("worker/__init__.py", False, HIDES),
        ("worker/__init__.py", True, say_hidden("worker", "worker")),
        ("worker.py", True, say_hidden("worker.py", "worker")),
        ("sandbox/__init__.py", True, say_hidden("sandbox", "sandbox")),
        ("sandbox.abi3.so", True, say_hidden("sandbox.abi3.so", "sandbox")),
        ("sandbox/__init__.pyc", True, say_hidden("sandbox", "sandbox")),
        ("worker/tasks.py", True, ""),  # without __init__ a folder hides no package
        ("workers/__init__.py", True, ""),
        ("worker.txt", True, ""),
    ],
)
def test_another_one_is_named_with_what_to_do(
    file: str, is_first: bool, said: str, tmp_path: Path
) -> None:
    lay(tmp_path / "other", file)
    path = [tmp_path / "other", tmp_path / "home"]
    path = path if is_first else path[::-1]
    expected = [said.replace("TMP", str(tmp_path))] if said else []
    assert told([*path, *path], tmp_path / "home") == expected


@pytest.mark.parametrize(
    ("name", "files", "said"),
    [
        ("queue-worker", ["worker/app.py", "worker/__init__.py"], "`worker`"),
        ("both", ["sandbox/x.py", "worker/y.py"], "`worker` and `sandbox`"),
        ("sandpiper", ["worker/cli/__init__.py"], "`worker`"),
        ("sandpiper-ci", ["worker/cli/__init__.py", "sandbox/base.py"], ""),
        ("neighbour", ["neighbour/worker/app.py", "worker-1.dist-info/RECORD"], ""),
    ],
)
def test_whoever_has_installed_into_our_packages_is_named(
    name: str, files: Sequence[str], said: str, tmp_path: Path
) -> None:
    install(tmp_path, name, *files)
    expected = [f"{name} 1.2 {say_mixed(said)}"] if said else []
    assert told([tmp_path], tmp_path) == expected
    assert told([tmp_path], tmp_path / "elsewhere") == []


def test_this_installation_is_not_taken_for_a_stranger() -> None:
    assert told([Path(entry) for entry in sys.path], HOME) == []


def test_a_command_that_finds_another_sandbox_says_so_in_one_line(tmp_path: Path) -> None:
    lay(tmp_path / "other", "sandbox/__init__.py")
    done = subprocess.run(
        [Path(sys.executable).with_name("sandpiper"), "doctor", "--only", "packages"],
        env={"PYTHONPATH": str(tmp_path / "other")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    said = say_hidden("sandbox", "sandbox").replace("TMP", str(tmp_path))
    assert line == f"sandpiper: {said}"
    assert (done.returncode, done.stdout) == (1, "")
