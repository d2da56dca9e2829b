"""Control groups for sandboxes without an engine, on machines where this process may make them."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.spec import ContainerSpec, parse_size

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

_PERIOD = 100_000
_REMOVE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group: one kernel folder in each hierarchy."""

    folders: tuple[Path, ...]

    def add(self, pid: int) -> None:
        """Add a process; its children belong to the group too. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def count_processes(self) -> int | None:
        """Count the processes and threads of the group; None if the kernel does not say."""
        for folder in self.folders:
            with suppress(OSError, ValueError):
                return int((folder / "pids.current").read_text())
        return None

    def remove(self) -> None:
        """Remove the group, which must have no processes left. Never raises."""
        until = time.monotonic() + _REMOVE_SECONDS
        for folder in self.folders:
            while folder.exists() and time.monotonic() < until:
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.01)


def make_group(
    name: str, spec: ContainerSpec, mount: Path = MOUNT, own: Path = OWN
) -> ControlGroup | None:
    """Make a group with the limits of `spec` on memory, processes and processors.

    Returns None if the kernel's tree is not mounted, cannot be written, or lacks a controller.
    """
    folders = []
    try:
        for parent, limits in plan_limits(spec, mount, own).items():
            folder = parent / name
            folder.mkdir()
            folders.append(folder)
            for file, value in limits.items():
                _write_limit(folder / file, value)
    except OSError:
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
        return None
    return ControlGroup(tuple(folders))


def find_group(name: str) -> ControlGroup:
    """Return the group that `make_group` made under this name; parts of it may be gone."""
    parents = plan_limits(ContainerSpec(), MOUNT, OWN)
    return ControlGroup(tuple(parent / name for parent in parents))


def plan_limits(spec: ContainerSpec, mount: Path, own: Path) -> dict[Path, dict[str, str]]:
    """Return the folders to make, and for each one which value goes into which file."""
    unified = (mount / "cgroup.controllers").exists()
    return _plan_version_2(spec, mount, own) if unified else _plan_version_1(spec, mount)


def _write_limit(file: Path, value: str) -> None:
    """Write one limit. A missing file means that the kernel lacks this limit: raises OSError."""
    fd = os.open(file, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _plan_version_2(spec: ContainerSpec, mount: Path, own: Path) -> dict[Path, dict[str, str]]:
    """Plan for cgroup v2: a sibling of this process's group, as parents may hold no process."""
    path = own.read_text().strip().rpartition("::")[2].lstrip("/")
    parent = (mount / path).parent if path else mount
    return {
        parent: {
            "memory.max": str(parse_size(spec.memory)),
            "memory.swap.max": "0",
            "pids.max": str(spec.pids),
            "cpu.max": f"{int(spec.cpus * _PERIOD)} {_PERIOD}",
        }
    }


def _plan_version_1(spec: ContainerSpec, mount: Path) -> dict[Path, dict[str, str]]:
    """Plan for cgroup v1, which has a tree for each controller."""
    memory = str(parse_size(spec.memory))
    limits = {"memory.limit_in_bytes": memory}
    if (mount / "memory/memory.memsw.limit_in_bytes").exists():
        limits["memory.memsw.limit_in_bytes"] = memory
    quota = {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(int(spec.cpus * _PERIOD))}
    return {
        mount / "memory": limits,
        mount / "pids": {"pids.max": str(spec.pids)},
        mount / "cpu": quota,
    }
