"""The uids inside a sandbox, and what a runner may do to processes of the commands' uid.

Signals, limits, priorities and tracing compare uids, so a runner whose uid is not the commands'
cannot be touched by them. Where the container can give it one, it begins as root and gives up
everything but the rights to become the commands' uid and to signal it; it still opens files with
the commands' rights. Elsewhere (pods, bubblewrap) both have one uid, and nothing here changes it.
Standard library only.

`main` ends all that runs in a container but its main process, for the host. Its arguments are the
uids of commands, runners and sweepers; without them, what has this process's own uid is ended. What
commands have left in memory is removed too.
"""

import binascii
import ctypes
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH101, PTH104, PTH106, PTH108, PTH123, PTH208


SHARED = "/dev/shm"
SEGMENTS = "/proc/sysvipc"
CLEANING_SECONDS = 5.0

PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NAME, PR_CAPBSET_DROP = 4, 8, 15, 24
PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 22, 36, 38
_FILTER = 2  # SECCOMP_MODE_FILTER
_INSTRUCTION = 8
_VERSION = 0x20080522  # of capset(2): two sets of 32 bits
_KILL, _SETGID, _SETUID = 1 << 5, 1 << 6, 1 << 7
_BOUND = 1 << 8  # CAP_SETPCAP
_BECOME = _SETGID | _SETUID
_KEPT = _BECOME | _KILL
_REMOVE = 0  # IPC_RMID

load_libc = cache(lambda: ctypes.CDLL(None, use_errno=True))


def prctl(option: int, value: int | bytes) -> int:
    return int(load_libc().prctl(option, value, 0, 0, 0))


class _Program(ctypes.Structure):
    """struct sock_fprog: a system call filter."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def install_filter(filters: dict[str, str]) -> None:
    """Have the kernel refuse system calls to this process and its children.

    `filters` has a program in Base64 for each machine. Raises OSError.
    """
    encoded = filters.get(os.uname().machine)
    if encoded:
        steps = binascii.a2b_base64(encoded)
        program = ctypes.byref(_Program(len(steps) // _INSTRUCTION, steps))
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if load_libc().prctl(PR_SET_SECCOMP, _FILTER, program, 0, 0):
            raise OSError(ctypes.get_errno(), "the kernel takes no system call filter")


def _set_capabilities(effective: int, permitted: int) -> None:
    """Set the capabilities of this process. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(effective, permitted, 0, 0, 0, 0)
    if load_libc().capset(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")


class Users:
    """The uids of the commands, of the runners, and of what ends them.

    `commands` 0 means that all have this process's own uid.
    """

    def __init__(self, commands: int = 0, runner: int = 0, sweeper: int = 0) -> None:
        self.commands, self.runner, self.sweeper = commands, runner, sweeper

    def become_runner(self) -> None:
        """Change from root to the runner's uid, for good. Raises OSError."""
        if not self.commands:
            return
        capability = 0
        while prctl(PR_CAPBSET_DROP, capability) == 0:
            capability += 1
        prctl(PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(self.runner, self.runner, self.runner)
        os.setresuid(self.runner, self.runner, self.runner)
        _set_capabilities(_KEPT, _KEPT)
        self._open_files_as_commands()

    def _open_files_as_commands(self) -> None:
        load_libc().setfsgid(self.commands)
        load_libc().setfsuid(self.commands)

    def become_command(self) -> None:
        """Change from the runner's uid to the commands', for good. Raises OSError."""
        if self.commands:
            os.setresgid(self.commands, self.commands, self.commands)
            os.setresuid(self.commands, self.commands, self.commands)
            _set_capabilities(0, 0)

    def list_popen_options(self) -> dict[str, Any]:
        """Options with which subprocess.Popen starts a program as the commands' uid."""
        if not self.commands:
            return {}
        return {"user": self.commands, "group": self.commands, "extra_groups": []}

    @contextmanager
    def _act_as(self, uid: int) -> Iterator[None]:
        """Act with the rights of `uid`, and as somebody whom `uid` cannot signal or limit."""
        if not self.commands:
            yield
            return
        _set_capabilities(_BECOME, _KEPT)
        os.setresuid(self.sweeper, uid, self.runner)
        try:
            yield
        finally:
            os.setresuid(self.runner, self.runner, self.runner)
            _set_capabilities(_KEPT, _KEPT)
            self._open_files_as_commands()

    def kill_commands(self) -> None:
        """Kill every process of the commands' uid but this one and process 1, all at once."""
        with self._act_as(self.commands), suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def kill_beginners(self) -> None:
        """Kill the runners that still are root, as this process is, and have not yet changed."""
        if self.commands:
            _set_capabilities(_BECOME | _BOUND, _KEPT | _BOUND)
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)

    def kill_runners(self) -> None:
        """Kill every other runner; where they have the commands' uid, `kill_commands` does."""
        if self.commands:
            with self._act_as(self.runner), suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)

    def clear_memory(self) -> None:
        """Remove what commands have left in memory that belongs to no process.

        That is System V shared memory, semaphores and queues, and the files of /dev/shm. A
        container's memory limit counts them, and so does a limit on files in memory.
        """
        found = list[tuple[str, int]]()
        for kind in ("shm", "sem", "msg"):
            with (
                suppress(OSError, ValueError, IndexError),
                open(f"{SEGMENTS}/{kind}", "rb") as file,
            ):
                found += [(kind, int(line.split()[1])) for line in file.read().splitlines()[1:]]
        if found:
            libc = load_libc()
            with self._act_as(self.commands):
                for kind, number in found:
                    if kind == "sem":
                        libc.semctl(number, 0, _REMOVE)
                    else:
                        getattr(libc, f"{kind}ctl")(number, _REMOVE, None)
        _clear_folder(SHARED, time.monotonic() + CLEANING_SECONDS)


def _clear_folder(path: str, until: float) -> None:
    """Remove what is in a folder, as far as it can be by `until`.

    What is in a folder below is moved up and removed in the next round: trees may be of any depth.
    """
    moved = f".{os.urandom(8).hex()}-"
    with suppress(OSError):
        while names := os.listdir(path):
            removed = 0
            for number, name in enumerate(names):
                below = f"{path}/{name}"
                with suppress(OSError):
                    if stat.S_ISDIR(os.lstat(below).st_mode):
                        _move_up(below, f"{path}/{moved}{number}-")
                        os.rmdir(below)
                    else:
                        os.unlink(below)
                    removed += 1
                if time.monotonic() > until:
                    return
            if not removed:
                return


def _move_up(folder: str, target: str) -> None:
    """Move all that is in a folder to names that begin with `target`. Raises OSError."""
    os.chmod(folder, 0o700)
    for number, name in enumerate(os.listdir(folder)):
        inner = f"{folder}/{name}"
        if stat.S_ISDIR(os.lstat(inner).st_mode):
            os.chmod(inner, 0o700)  # otherwise it cannot be moved
        os.rename(inner, f"{target}{number}")


def sweep(users: Users) -> None:
    """Kill every command and every other runner, and remove what they have left in memory."""
    users.kill_commands()
    users.kill_runners()
    users.clear_memory()


def main() -> None:
    users = Users(*map(int, sys.argv[1:]))
    users.kill_beginners()
    users.become_runner()
    sweep(users)
