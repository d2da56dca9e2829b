"""What bwrap is told: the namespaces, the rights and the files of a sandbox without an engine."""

import io
import os
import zipfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from sandbox import seccomp
from sandbox.spec import ContainerSpec, choose_users

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
    arguments = []
    for option, content, target in (
        ("--seccomp", seccomp.build_filter(), None),
        ("--ro-bind-data", _pack_runner(), RUNNER),
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


def _pack_runner() -> bytes:
    """Pack the in-container code into an archive that python3 can run."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        bundle.writestr("sandbox/__init__.py", b"")
        for path in sorted((_PACKAGE / "image").glob("*.py")):
            bundle.writestr(f"sandbox/image/{path.name}", path.read_bytes())
        bundle.writestr("__main__.py", (_PACKAGE / "image/keeper.py").read_bytes())
    return buffer.getvalue()
