"""Wheels, built for real, and environments of their own that they are installed into."""

import subprocess
import sys
import sysconfig
from pathlib import Path


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def build_wheel(project: Path, folder: Path) -> Path:
    """Build a project's wheel into an empty folder; returns its path."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir")
    _run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, project)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, *wheels: Path) -> Path:
    """Make a virtual environment with the wheels; returns the folder of its programs.

    What they depend on is taken from this environment, without what is installed in it as editable:
    the wheels' own files are the only ones of theirs.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    programs = folder / "bin"
    install = (sys.executable, "-m", "uv", "--quiet", "pip", "install", "--offline", "--no-deps")
    _run(*install, "--python", programs / "python", *wheels)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder that a .pth file names is searched, but its own .pth files are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs
