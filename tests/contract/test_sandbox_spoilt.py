"""A command spoils the processes that serve it, and tries to outlive its call by that.

Over every kind of sandbox. Whatever it does to them, the next call finds no process of it, gets a
runner that works, and is told the truth.
"""

import platform
import shlex
import time
from collections.abc import Callable

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import Sandbox, SandboxGone
from sandbox.framed import FramedSandbox

pytestmark = pytest.mark.attack("sandbox")

Record = Callable[[str, object], None]
ROUNDS = 10

LOWER = """
import os, resource, sys
kind, value = getattr(resource, "RLIMIT_" + sys.argv[1]), int(sys.argv[2])
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        try:
            resource.prlimit(int(pid), kind, (value, value))
        except OSError:
            pass
"""
LINGER = "setsid -f sleep 4711 > /dev/null 2>&1 < /dev/null"
LIMITS = {
    "NOFILE": 3,
    "NPROC": 0,
    "FSIZE": 0,
    "CPU": 1,
    "AS": 1 << 20,
    "DATA": 1 << 12,
    "SIGPENDING": 0,
}


def lower(limit: str) -> str:
    """Lowers a limit of all processes but itself, last of all, and leaves a process."""
    lowering = shlex.join(["python3", "-c", LOWER, limit, str(LIMITS[limit])])
    return f"{LINGER}; exec {lowering}"


def assert_as_new(sandbox: FramedSandbox, number: int) -> None:
    """The sandbox works, and nothing runs in it but an idle runner."""
    look = f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -a -o 'sleep [4]711'; exit {number}"
    said = sandbox.exec(look, timeout=20, number=2)
    assert (said.exit_code, said.stdout.preview, said.stderr.preview) == (number, "", "")
    until = time.monotonic() + 20
    while (count := sandbox.container.count_processes()) != 1 and time.monotonic() < until:
        time.sleep(0.02)
    assert count == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_lowered_limits_let_nothing_outlive_its_command(
    any_driver: PoolableDriver, limit: str, record_property: Record
) -> None:
    rounds = ROUNDS if limit == "NOFILE" else 2
    record_property("tried", rounds)
    with any_driver.start("spoilt") as sandbox:
        for number in range(rounds):
            sandbox.exec(lower(limit), timeout=20, number=1)
            assert_as_new(sandbox, number)


# Registers of x86-64, in words: what a call returns, its number, its first argument.
TRACE = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, GETREGS, SETREGS, SYSCALL = 0x4206, 0x4207, 12, 13, 24
NUMBER, FIRST, EXIT_GROUP = 15, 14, 231

def mislead(pid):
    "Let it run, but have it exit with 0."
    words = (ctypes.c_ulonglong * 27)()
    libc.ptrace(INTERRUPT, pid, None, None)
    while True:
        try:
            _, status = os.waitpid(pid, 0x40000000)
        except ChildProcessError:
            return
        if not os.WIFSTOPPED(status):
            return
        libc.ptrace(GETREGS, pid, None, ctypes.byref(words))
        if words[NUMBER] == EXIT_GROUP and words[FIRST] == 1:
            words[FIRST] = 0
            libc.ptrace(SETREGS, pid, None, ctypes.byref(words))
        libc.ptrace(SYSCALL, pid, None, None)

if os.fork():
    os._exit(0)
os.setsid()
for fd in range(3):
    os.close(fd)
met, until = set(os.listdir("/proc")), time.monotonic() + 20
while time.monotonic() < until:
    for pid in set(os.listdir("/proc")) - met:
        met.add(pid)
        if libc.ptrace(SEIZE, int(pid), None, None) == 0:
            mislead(int(pid))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64's registers")
def test_a_failing_command_is_not_made_a_passing_one(
    any_driver: PoolableDriver, record_property: Record
) -> None:
    record_property("tried", ROUNDS)
    with any_driver.start("spoilt") as sandbox:
        for _ in range(ROUNDS):
            tracing = shlex.join(["python3", "-c", TRACE])
            lowering = shlex.join(["python3", "-c", LOWER, "NOFILE", "3"])
            sandbox.exec(f"{tracing}; exec {lowering}", timeout=20, number=1)
            assert sandbox.exec("sleep 0.05; exit 1", timeout=20, number=2).exit_code == 1


def test_a_process_whose_name_is_no_utf_8_is_killed_and_counted(
    any_driver: PoolableDriver, record_property: Record
) -> None:
    record_property("tried", ROUNDS)
    copied = r"cp /usr/bin/sleep $'/tmp/\xff\xfe)'; setsid -f $'/tmp/\xff\xfe)' 4711"
    with any_driver.start("spoilt") as sandbox:
        for number in range(ROUNDS):
            sandbox.exec(f"{copied} > /dev/null 2>&1 < /dev/null", timeout=20, number=1)
            assert_as_new(sandbox, number)


def test_such_a_process_is_counted_while_it_runs(any_driver: PoolableDriver) -> None:
    """Also with a runner that is lost at once: the host's count is all that is left then."""
    copied = r"cp /usr/bin/sleep $'/tmp/\xff\xfe'; setsid -f $'/tmp/\xff\xfe' 4711"
    with any_driver.start("spoilt") as sandbox:
        sandbox.exec(f"{copied} > /dev/null 2>&1 < /dev/null; kill -9 $PPID", timeout=20, number=1)
        assert_as_new(sandbox, 7)


def test_no_signal_to_process_1_ends_the_sandbox(
    any_driver: PoolableDriver, record_property: Record
) -> None:
    record_property("tried", 64)
    with any_driver.start("spoilt") as sandbox:
        sandbox.put("/tmp/data/kept", [b"kept"])
        sandbox.exec("for s in $(seq 64); do kill -$s 1; done", timeout=20, number=1)
        sandbox.exec("kill -INT 1 $PPID; kill -USR1 $PPID", timeout=20, number=2)
        assert sandbox.get("/tmp/data/kept", limit=9) == b"kept"
        assert_as_new(sandbox, 3)


SLOWED = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        for spoil in (
            lambda: os.setpriority(os.PRIO_PROCESS, int(pid), 19),
            lambda: os.sched_setscheduler(int(pid), os.SCHED_IDLE, os.sched_param(0)),
            lambda: os.sched_setaffinity(int(pid), [min(os.sched_getaffinity(0))]),
        ):
            try:
                spoil()
            except OSError:
                pass
"""


def test_a_command_is_not_slower_than_the_one_before(any_driver: PoolableDriver) -> None:
    """Priorities, policies and processors that a command sets for others end with it."""
    asked = (
        "import os; print(os.getpriority(0, 0), os.sched_getscheduler(0), os.sched_getaffinity(0))"
    )
    with any_driver.start("spoilt") as sandbox:
        before = said(sandbox, shlex.join(["python3", "-c", asked]))
        said(sandbox, shlex.join(["python3", "-c", SLOWED]))
        assert said(sandbox, shlex.join(["python3", "-c", asked])) == before != ""


def said(sandbox: Sandbox, command: str) -> str:
    try:
        return sandbox.exec(command, timeout=20, number=1).stdout.preview
    except SandboxGone as error:
        return f"gone: {error}"
