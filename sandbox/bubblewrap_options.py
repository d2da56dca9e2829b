"""What limits and isolates a sandbox without an engine: its control group, and what bwrap is told.

bwrap makes the namespaces, the rights and the files. A control group is there only on machines
where this process may make one.
"""

import io
import os
import time
import zipfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sandbox import seccomp
from sandbox.spec import ContainerSpec, choose_users, parse_size

USER = 10001
"""The uid inside the sandbox, of commands and runners."""

RUNNER = "/opt/sandpiper.zip"

_PACKAGE = Path(__file__).parent
_LOG = "/opt/sandpiper/bin/log"
_PASSWD = b"root:x:0:0::/:/usr/sbin/nologin\nsandbox:x:10001:10001::/tmp:/bin/bash\n"
_GROUP = b"root:x:0:\nsandbox:x:10001:\n"
_HIDDEN = ("kcore", "keys", "key-users", "latency_stats", "sched_debug", "timer_list", "kallsyms")
_LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
_SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/magic")


def make_user_options() -> dict[str, Any]:
    """Return options for Popen: as root, run bwrap as a uid that no other sandbox has.

    So no root rights get inside, and no sandbox uses up what the kernel counts by uid. An ordinary
    user has one uid only, which all sandboxes share.
    """
    if os.geteuid() != 0:
        return {}
    uid = choose_users().commands
    return {"user": uid, "group": uid, "extra_groups": []}


def make_isolation_options(spec: ContainerSpec) -> list[str]:
    """Return bwrap's options for namespaces, rights and the empty file system."""
    size, links = str(spec.workspace), []
    for name in _LINKS:
        if Path("/usr", name).is_dir():
            links += ["--symlink", f"usr/{name}", f"/{name}"]
    present = [f"/proc/{name}" for name in _HIDDEN if Path("/proc", name).exists()]
    hidden = [["--ro-bind", "/dev/null", path] for path in present]
    settings = [["--ro-bind-try", path, path] for path in _SETTINGS]
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
        *("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox", "--cap-drop", "ALL"),
        *("--ro-bind", "/usr", "/usr", *links),
        *("--proc", "/proc", *chain(*hidden), "--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(16 << 20), "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/tmp", *chain(*settings)),
        *("--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--chdir", "/tmp"),
    ]


def make_file_options(files: ExitStack, inherited: list[int]) -> list[str]:
    """Return bwrap's options for the sandbox's own files: runner, users, `log`, seccomp filter."""
    bundle = io.BytesIO()  # the in-container code, as an archive that python3 can run
    with zipfile.ZipFile(bundle, "w") as packed:
        packed.writestr("sandbox/__init__.py", b"")
        for path in sorted((_PACKAGE / "image").glob("*.py")):
            packed.writestr(f"sandbox/image/{path.name}", path.read_bytes())
        packed.writestr("__main__.py", (_PACKAGE / "image/keeper.py").read_bytes())
    arguments = []
    for option, content, target in (
        ("--seccomp", seccomp.build_filter(), None),
        ("--ro-bind-data", bundle.getvalue(), RUNNER),
        ("--ro-bind-data", _PASSWD, "/etc/passwd"),
        ("--ro-bind-data", _GROUP, "/etc/group"),
        ("--ro-bind-data", (_PACKAGE / "image/log").read_bytes(), _LOG),
    ):
        fd = os.memfd_create("content")
        files.callback(os.close, fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        inherited.append(fd)
        mode = ["--perms", "0555"] if target == _LOG else []
        arguments += [*mode, option, str(fd), *([target] if target else [])]
    return [*arguments, "--remount-ro", "/"]


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
                # Without O_CREAT: a missing file means that the kernel lacks this limit.
                with os.fdopen(os.open(folder / file, os.O_WRONLY), "wb", 0) as limit:
                    limit.write(value.encode())
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
    memory, quota = str(parse_size(spec.memory)), str(int(spec.cpus * _PERIOD))
    if (mount / "cgroup.controllers").exists():
        # cgroup v2: a sibling of this process's group, as parents may hold no process.
        path = own.read_text().strip().rpartition("::")[2].lstrip("/")
        parent = (mount / path).parent if path else mount
        return {
            parent: {
                "memory.max": memory,
                "memory.swap.max": "0",
                "pids.max": str(spec.pids),
                "cpu.max": f"{quota} {_PERIOD}",
            }
        }
    # cgroup v1 has a tree for each controller.
    limits = {"memory.limit_in_bytes": memory}
    if (mount / "memory/memory.memsw.limit_in_bytes").exists():
        limits["memory.memsw.limit_in_bytes"] = memory
    return {
        mount / "memory": limits,
        mount / "pids": {"pids.max": str(spec.pids)},
        mount / "cpu": {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": quota},
    }
