"""What the bubblewrap driver promises beyond the contract: limits, clear refusals, no remains."""

import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandbox import bubblewrap_options
from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.bubblewrap import UNLIMITED, BubblewrapDriver
from sandbox.spec import ContainerSpec

SPEC = ContainerSpec(memory="256m", disk="64m", pids=64, grace=1.5)

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")


def without_groups(name: str, spec: ContainerSpec) -> bubblewrap_options.ControlGroup | None:
    """As on a machine whose control groups are not ours."""
    return None


class Named:
    """Makes the control groups of a driver and keeps the names: others have sandboxes too."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, spec: ContainerSpec) -> bubblewrap_options.ControlGroup | None:
        self.names.append(name)
        return bubblewrap_options.make_group(name, spec)

    def remains(self) -> list[Path]:
        """What there is of them."""
        folders = [
            Path(tempfile.gettempdir()),
            bubblewrap_options.MOUNT,
            bubblewrap_options.MOUNT / "memory",
        ]
        places = [folder / name for folder in folders for name in self.names]
        return [place for place in places if place.exists()]


@needs_bwrap
def test_what_no_group_can_limit_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    driver = BubblewrapDriver(SPEC, without_groups)
    assert driver.list_missing_limits() == UNLIMITED
    with caplog.at_level(logging.WARNING):
        driver.start("one").close()
        driver.start("two").close()
    (record,) = caplog.records
    assert "no control group" in record.message
    assert all(each in record.message for each in UNLIMITED)


@needs_bwrap
def test_without_groups_each_process_and_their_number_are_limited_still() -> None:
    with BubblewrapDriver(SPEC, without_groups).start("limits") as sandbox:
        bomb = "python3 -c 'x = b\"x\" * (300 << 20)'"
        assert "MemoryError" in sandbox.exec(bomb, timeout=20, number=1).stderr.preview
        forks = "for i in $(seq 100); do sleep 1 & done; wait"
        assert "Resource temporarily" in sandbox.exec(forks, timeout=20, number=2).stderr.preview
        full = sandbox.exec("head -c 100M /dev/zero > big", timeout=20, number=3)
        assert "No space left" in full.stderr.preview
        assert sandbox.exec("echo alive", timeout=20, number=4).stdout.preview == "alive\n"


@needs_bwrap
def test_with_groups_the_memory_of_all_processes_is_limited() -> None:
    driver = BubblewrapDriver(SPEC)
    if driver.list_missing_limits():
        pytest.skip("control groups are not ours on this machine")
    eat = "import time; x = b'x' * (100 << 20); time.sleep(3)"
    with driver.start("limits") as sandbox:
        result = sandbox.exec(f'for i in 1 2 3 4; do python3 -c "{eat}" & done; wait -n; echo $?',
                              timeout=20, number=1)  # fmt: skip
        assert result.stdout.preview == "137\n"
        assert sandbox.exec("echo alive", timeout=20, number=2).stdout.preview == "alive\n"


@needs_bwrap
def test_nothing_is_left_behind() -> None:
    named = Named()
    driver = BubblewrapDriver(SPEC, named)
    driver.check()
    with pytest.raises(SandboxError):
        driver.start("fails", [b"no archive"])
    with driver.start("left") as sandbox:
        assert named.remains()
        sandbox.exec("setsid sleep 60 &", timeout=20, number=1)
    assert len(named.names) == 3
    assert named.remains() == []


@needs_bwrap
def test_only_usr_and_the_workspace_are_there() -> None:
    with BubblewrapDriver(SPEC).start("look") as sandbox:
        seen = sandbox.exec("ls /; ls /etc", timeout=20, number=1).stdout.preview.split()
    links = {"bin", "lib", "lib32", "lib64", "sbin"}
    made = {"dev", "etc", "opt", "proc", "tmp", "usr", "passwd", "group"}
    assert set(seen) - links - {"alternatives", "ld.so.cache", "magic"} == made


ELSEWHERE = """
import os, sys, tempfile
from sandbox.base import SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.spec import ContainerSpec

tempfile.tempdir = sys.argv[1]
before = len(os.listdir("/proc/self/fd"))
try:
    BubblewrapDriver(ContainerSpec()).check()
except SandboxUnavailable as error:
    print(error)
print(len(os.listdir("/proc/self/fd")) - before, "left open")
"""


@needs_bwrap
@pytest.mark.parametrize("folder", ["missing", "x" * 90])
def test_a_folder_that_does_not_serve_is_refused_with_what_to_set(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / ("x" * 90)).mkdir()
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / folder)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert "set TMPDIR" in told
    assert told.endswith("\n0 left open\n")


def test_a_missing_bwrap_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        BubblewrapDriver(SPEC).start("x")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo bubblewrap 0.6.1", r"0\.8 or newer is needed.*0\.6\.1"),
        ("echo nonsense", "nonsense"),
        (
            'test "$*" = --version && echo bubblewrap 0.8.0 || echo bwrap: No permissions >&2',
            "could not start a sandbox .bwrap: No permissions.*unprivileged_userns_clone",
        ),
    ],
)
def test_a_bwrap_that_does_not_serve_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    named = Named()
    tool = tmp_path / "bwrap"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest" in str(folder):
            folder.chmod(0o755)  # where this is root, bwrap is run as somebody else
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxUnavailable, match=why):
        BubblewrapDriver(SPEC, named).start("x")
    assert named.remains() == []
