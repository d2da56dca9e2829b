"""A control group for a sandbox without an engine, where this process may make one."""

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
    """Folders of the kernel's, one for each hierarchy, in which a process is limited."""

    folders: tuple[Path, ...]

    def add(self, pid: int) -> None:
        """Put a process there; what it starts follows. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Once nothing runs there any more. Never raises."""
        until = time.monotonic() + _REMOVE_SECONDS
        for folder in self.folders:
            while folder.exists() and time.monotonic() < until:
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.01)


def make(
    name: str, spec: ContainerSpec, mount: Path = MOUNT, own: Path = OWN
) -> ControlGroup | None:
    """A group with the limits of `spec` on memory, processes and processors, or None.

    None where the kernel's tree is not mounted, is not ours to write, or lacks a controller.
    """
    made = []
    try:
        for parent, limits in wanted(spec, mount, own).items():
            folder = parent / name
            folder.mkdir()
            made.append(folder)
            for file, value in limits.items():
                _limit(folder / file, value)
    except OSError:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        return None
    return ControlGroup(tuple(made))


def find(name: str, mount: Path = MOUNT, own: Path = OWN) -> ControlGroup:
    """The group of that name, as `make` would have made it; of it may be anything left."""
    parents = wanted(ContainerSpec(), mount, own)
    return ControlGroup(tuple(parent / name for parent in parents))


def wanted(spec: ContainerSpec, mount: Path, own: Path) -> dict[Path, dict[str, str]]:
    """Where groups are to be made, and what is to stand in which of their files."""
    unified = (mount / "cgroup.controllers").exists()
    return _unified(spec, mount, own) if unified else _legacy(spec, mount)


def _limit(file: Path, value: str) -> None:
    """The kernel's files exist before they are written: one that does not is a limit it lacks."""
    fd = os.open(file, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _unified(spec: ContainerSpec, mount: Path, own: Path) -> dict[Path, dict[str, str]]:
    """cgroup v2: beside this process's own group, so that no process stands above a limit."""
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


def _legacy(spec: ContainerSpec, mount: Path) -> dict[Path, dict[str, str]]:
    """cgroup v1: a tree for each controller."""
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
