"""What lies in the repository, and what is said in it."""

import re
import subprocess
from collections.abc import Iterable
from functools import cache

import pytest

from tests.law.house import ROOT, none

FOLDERS = {"worker", "workflows", "sandbox", "tests", "helm"}
FILES = {
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"),
    *("compose.yaml", "SECURITY.md", "CODE_OF_CONDUCT.md"),
}

PLACED = "put it into one of the rooms; what all have agreed on is FOLDERS and FILES in this law"

MACHINE = re.compile(rb"(?<![\w.])/(?:work|farm|root|home)/[a-z]")
REGISTRY = re.compile(
    b"|".join(
        re.escape(b".".join(host))
        for host in (
            (b"pypi", b"org"),
            (b"pythonhosted", b"org"),
            (b"deb", b"debian", b"org"),
            (b"registry-1", b"docker", b"io"),
            (b"registry", b"npmjs", b"org"),
            (b"proxy", b"golang", b"org"),
        )
    )
)


@cache
def files() -> tuple[str, ...]:
    """Every file that is tracked, or would be if it were added."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True).stdout
    return tuple(path for path in sorted(listed.decode().split("\0")) if (ROOT / path).is_file())


def strangers(paths: Iterable[str]) -> set[str]:
    """Top-level entries that were never agreed on; names that begin with a dot are free."""
    tops = {(path.partition("/")[0], "/" in path) for path in paths}
    return {
        name
        for name, folder in tops
        if not name.startswith(".") and name not in (FOLDERS if folder else FILES)
    }


def test_the_top_level_holds_only_what_was_agreed() -> None:
    assert none(strangers(files()), PLACED)


def test_a_planted_stranger_is_found() -> None:
    planted = ["worker/a.py", "scripts/run", "notes.txt", ".ci/run", "README.md"]
    assert strangers(planted) == {"scripts", "notes.txt"}


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["paths", "registry hosts"])
def test_no_file_tells_of_one_machine(pattern: re.Pattern[bytes]) -> None:
    found = [
        f"{path}:{number}"
        for path in files()
        for number, line in enumerate((ROOT / path).read_bytes().splitlines(), 1)
        if pattern.search(line)
    ]
    assert none(found, "say it without this machine's folders and without a registry's address")


def test_workflows_hold_no_code() -> None:
    texts = [path for path in files() if path.startswith("workflows/")]
    assert [path for path in texts if not path.endswith(".md")] == []
