"""Runs one command in a session of its own and ends all of its processes."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH102, PTH108, PTH123, PTH208

import contextlib
import fcntl
import os
import select
import signal
import stat
import time
from functools import cache
from importlib import import_module
from typing import NoReturn

from sandbox.image.frames import CHUNK, Json, write_all
from sandbox.image.preview import PREVIEW, Capture
from sandbox.image.users import PR_SET_DUMPABLE, Users, prctl

OUT, DATA = "/tmp/_out", "/tmp/data"
ARGUMENT = 100_000  # the kernel takes 128 KiB in one argument
LINGER = 0.2  # seconds after the shell's end in which `>(tee file)` and the like may finish
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LOGNAME": "sandbox",
    "PATH": "/opt/sandpiper/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "USER": "sandbox",  # for programs that ask for a name: the uid has none
}
IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
F_SETPIPE_SZ = 1031
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def make_folder(path: str) -> None:
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.mkdir(path)


def _spawn_command(command: bytes, cwd: str, out: int, err: int, users: Users) -> int:
    """Start bash in a session of its own, as the OOM killer's first choice."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        nothing = os.open("/dev/null", os.O_RDONLY)
        for fd, number in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(fd, number)
        for number in (*IGNORED_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        users.become_command()
        prctl(PR_SET_DUMPABLE, 1)  # otherwise root owns the file below
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
        os.chdir(cwd)
        arguments: list[bytes | str] = ["bash", "-c", command]
        if len(command) > ARGUMENT or b"\0" in command:
            script = os.memfd_create("command", 0)
            write_all(script, command)
            arguments = ["bash", f"/dev/fd/{script}"]
        os.execvpe("bash", arguments, ENVIRONMENT)
    except OSError as error:
        os.write(2, f"{cwd}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(126)


def reap_children(pid: int = 0) -> tuple[int | None, bool]:
    """Reap ended children; returns the status of `pid` if it ended, and whether any is left."""
    status = None
    try:
        while True:
            child, code = os.waitpid(-1, os.WNOHANG)
            if not child:
                return status, True
            status = code if child == pid else status
    except ChildProcessError:
        return status, False


def list_descendants(ancestor: int) -> list[int]:
    """List the processes that descend from `ancestor`, according to /proc.

    A process's name, which stands in the same file, may be of any bytes.
    """
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            parents[int(name)] = int(file.read().rsplit(b")", 1)[1].split()[1])
    family = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {ancestor})


def _kill_tree(pid: int, users: Users) -> int | None:
    """Kill the group of `pid` and all our descendants, also those that left the group.

    Raises OSError, such as for want of descriptors.
    """
    status, deadline = None, time.monotonic() + 2
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    while True:
        own_status, has_children = reap_children(pid)
        status = own_status if own_status is not None else status
        if not has_children:
            return status
        for child in list_descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        if time.monotonic() > deadline:
            # A fork bomb forks faster than we can list it; a signal to the whole uid stops it.
            users.kill_commands()
            return status
        time.sleep(0.005)


class _OutputReader:
    """Reads the command's output until it ends or its deadline passes."""

    def __init__(self, pid: int, pipes: dict[int, Capture], wake: int) -> None:
        self.pid, self.pipes, self.wake = pid, pipes, wake
        self.status: int | None = None
        self.poll = select.poll()
        for fd in (*pipes, wake):
            self.poll.register(fd, select.POLLIN)

    def read(self, fd: int) -> None:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(fd, CHUNK)
            if data:
                self.pipes[fd].feed(data)
                return
            self.close_pipe(fd)

    def close_pipe(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self.pipes[fd]
        os.close(fd)

    def step(self, seconds: float) -> None:
        for fd, _ in self.poll.poll(max(0.0, seconds) * 1000):
            if fd != self.wake:
                self.read(fd)
                continue
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 512)
            status, _ = reap_children(self.pid)
            self.status = status if status is not None else self.status

    def run(self, deadline: float) -> bool:
        """Read until the end or the deadline; returns whether the command ended in time."""
        until = deadline
        while (self.status is None or self.pipes) and (now := time.monotonic()) < until:
            self.step(until - now)
            if self.status is not None and until == deadline:
                until = min(deadline, time.monotonic() + LINGER)
        return self.status is not None

    def drain(self) -> None:
        """Read what killed processes left in the pipes."""
        until = time.monotonic() + 1
        while self.pipes and time.monotonic() < until:
            self.step(0.05)
        for fd in list(self.pipes):
            self.close_pipe(fd)


@cache
def open_child_signal() -> int:
    """Open a descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _open_pipe(capture: Capture, pipes: dict[int, Capture]) -> int:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):
        fcntl.fcntl(reader, F_SETPIPE_SZ, CHUNK)
    pipes[reader] = capture
    return writer


def set_limits(limits: dict[str, int]) -> None:
    """Limit this process and its children; `limits` maps names of `resource` to values."""
    resource = import_module("resource")
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def give_up(users: Users) -> NoReturn:
    """Kill all commands, then ourselves: after an error nobody knows what still runs.

    The host sees that the runner was killed, and asks the engine what is left.
    """
    with contextlib.suppress(OSError, MemoryError):
        users.kill_commands()
    while True:
        os.kill(os.getpid(), signal.SIGKILL)


def _count_memory_kills() -> int | None:
    """Count the processes that the kernel has killed for want of memory; None if it is unknown."""
    for path in COUNTERS:
        with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as file:
            return int(file.read().split(b"oom_kill ")[1].split()[0])
    return None


def do_exec(request: Json, users: Users) -> Json:
    """Run one command; returns its report, which includes failures.

    Raises OSError if the command could not be begun. After any later error, all commands and this
    process are ended: it is not known what a command has done to them.
    """
    deadline = time.monotonic() + float(request["timeout"])
    make_folder(OUT)
    make_folder(DATA)
    wake = open_child_signal()
    pipes = dict[int, Capture]()
    path, caps = f"{OUT}/{request['number']}", (request["cap"], request.get("preview", PREVIEW))
    out, err = Capture(f"{path}.txt", *caps), Capture(f"{path}.err.txt", *caps)
    kills = _count_memory_kills()
    ends: list[int] = []
    try:
        ends += [_open_pipe(out, pipes)]
        ends += [_open_pipe(err, pipes)]
        command = request["command"].encode("utf-8", "replace")
        pid = _spawn_command(command, request["cwd"], ends[0], ends[1], users)
    except OSError:
        for reader in pipes:
            os.close(reader)
        raise
    finally:
        for end in ends:
            os.close(end)
    report: Json = {}
    is_done = False
    try:
        watch = _OutputReader(pid, pipes, wake)
        in_time = watch.run(deadline)
        _kill_tree(pid, users)
        watch.drain()
        code = None
        if in_time and watch.status is not None:
            code = os.waitstatus_to_exitcode(watch.status)
            code = 128 - code if code < 0 else code
        report = {"exit_code": code, "timed_out": not in_time}
        if request.get("alone"):
            users.clear_memory()
        report |= {"stdout": out.make_report(), "stderr": err.make_report()}
        killed = _count_memory_kills()
        if kills is not None and killed is not None:
            report["out_of_memory"] = killed > kills
        is_done = True
    finally:
        if not is_done:
            give_up(users)
    return report
