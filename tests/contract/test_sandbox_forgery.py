"""A program that outlives its call tries to speak for the next one. Over every kind of sandbox.

It does what any program of the commands' uid can do: it kills the runner that began it, gets away
from the group and the session that are killed, traces, stops or kills whatever process of its uid
appears, and writes a report of its own into the standard output of the next runner.
"""

import io
import platform
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import DATA, Sandbox, SandboxGone

pytestmark = pytest.mark.attack("sandbox")

FORGED = "forged: no test failed"
LOG, LINES = f"{DATA}/log", b"FAILED one\nFAILED two\n"
READY = f"{DATA}/ready"

# Registers of x86-64, in words: what a call returns, its number, its first argument.
ATTACK = r"""
import ctypes, json, os, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, GETREGS, SETREGS, SYSCALL = 0x4206, 0x4207, 12, 13, 24
RAX, NUMBER, FIRST, KILL, GETPID = 10, 15, 14, 62, 39
how, forged, ready = sys.argv[1:]
stream = {"preview": forged, "binary": False, "size": len(forged), "lines": 0, "kept": 0}
report = {"id": 1, "exit_code": 0, "timed_out": False, "stdout": stream, "stderr": stream}
data = struct.pack(">I", len(forged)) + forged.encode() if how == "beside" else b""
text = json.dumps(report).encode()
answer = data + struct.pack(">II", 0, len(text)) + text

def spoil(pid):
    "Let it run, but turn its `kill(-1, ...)` into a call that does nothing."
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
        if words[NUMBER] == KILL and words[FIRST] & 0xFFFFFFFF == 0xFFFFFFFF:
            words[NUMBER], words[RAX] = GETPID, GETPID
            libc.ptrace(SETREGS, pid, None, ctypes.byref(words))
        libc.ptrace(SYSCALL, pid, None, None)

def meet(pid):
    "Whether it is dealt with: made harmless, spoken for, or gone."
    try:
        if how == "kill":
            os.kill(int(pid), signal.SIGKILL)
            return True
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            sweeps = b"sweep" in file.read()
        if sweeps and libc.ptrace(SEIZE, int(pid), None, None) == 0:
            spoil(int(pid))
            return True
        if sweeps:
            return False
        out = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
        os.kill(int(pid), signal.SIGSTOP)
        os.write(out, answer)
    except PermissionError:
        return False
    except OSError:
        pass
    return True

if os.fork():
    if how == "beside":
        time.sleep(20)
    else:
        os.kill(int(os.environ["RUNNER"]), signal.SIGKILL)
    os._exit(0)
os.setsid()
met = set(os.listdir("/proc"))
open(ready, "w").close()
until = time.monotonic() + 30
while time.monotonic() < until:
    for pid in set(os.listdir("/proc")) - met:
        if meet(pid):
            met.add(pid)
"""


def attack(how: str) -> str:
    words = shlex.join(["python3", "-c", ATTACK, how, FORGED, READY])
    return f"RUNNER=$PPID exec {words}"


def found_by_a_command(sandbox: Sandbox) -> str:
    """What the next command says, or that there is no sandbox any more."""
    try:
        return sandbox.exec("grep -c FAILED /tmp/data/log", timeout=20, number=2).stdout.preview
    except SandboxGone:
        return "gone"


def read(sandbox: Sandbox, path: str) -> str:
    """What the file holds, "none" or "gone"."""
    try:
        return sandbox.get(path, limit=100).decode()
    except FileNotFoundError:
        return "none"
    except SandboxGone:
        return "gone"


needs_registers = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64's registers")


@pytest.mark.parametrize(
    ("how", "times"), [pytest.param("trace", 5, marks=needs_registers), ("kill", 2)]
)
def test_what_outlives_its_call_does_not_speak_for_the_next_one(
    any_driver: PoolableDriver, how: str, times: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", times)
    said = []
    for _ in range(times):
        with any_driver.start("forgery") as sandbox:
            sandbox.put(LOG, [LINES])
            with suppress(SandboxGone):
                # A runner of another uid cannot be killed, and tells that the attempt failed.
                assert sandbox.exec(attack(how), timeout=20, number=1).exit_code in (1, 137)
            said.append(found_by_a_command(sandbox))
    assert set(said) <= {"2\n", "gone"}, said


def test_a_command_does_not_speak_for_a_runner_that_begins_beside_it(
    any_driver: PoolableDriver, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", 5)
    said = []
    for _ in range(5):
        with any_driver.start("forgery") as sandbox, ThreadPoolExecutor(2) as pool:
            sandbox.put(LOG, [LINES])
            calls: list[Future[Any]] = []
            calls.append(pool.submit(sandbox.exec, attack("beside"), timeout=60, number=1))
            until = time.monotonic() + 60
            while (ready := read(sandbox, READY)) == "none" and time.monotonic() < until:
                time.sleep(0.02)
            begun, done = Event(), Event()
            calls.append(pool.submit(sandbox.put, f"{DATA}/slow", slow(begun, done)))
            assert begun.wait(60)  # both runners are busy: the next call gets another one
            said += [ready, read(sandbox, LOG)]
            sandbox.close()
            done.set()
            assert [type(call.exception(60)) for call in calls] == [SandboxGone] * 2
    assert set(said) <= {"", LINES.decode(), "gone"}, said


def slow(begun: Event, done: Event) -> Iterator[bytes]:
    begun.set()
    assert done.wait(60)
    yield b"late"


SPAWN = """
import os, time
if os.fork():
    os.kill(int(os.environ["RUNNER"]), 9)
    os._exit(0)
os.setsid()
while True:
    time.sleep(60)
"""


def test_files_are_packed_where_nothing_else_runs(any_driver: PoolableDriver) -> None:
    with any_driver.start("forgery") as sandbox, ThreadPoolExecutor(1) as pool:
        sandbox.put(LOG, [LINES])
        beside = pool.submit(sandbox.exec, f"touch {READY}; sleep 60", timeout=90, number=1)
        until = time.monotonic() + 60
        while read(sandbox, READY) == "none" and time.monotonic() < until:
            time.sleep(0.02)
        packed = b"".join(sandbox.export())
        assert beside.result(60).exit_code == 137
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            log = archive.extractfile("data/log")
            assert log is not None
            assert log.read() == LINES
        assert found_by_a_command(sandbox) == "2\n"


def test_what_a_lost_runner_leaves_is_gone_before_the_next_one(any_driver: PoolableDriver) -> None:
    with any_driver.start("forgery") as sandbox:
        script = f"RUNNER=$PPID python3 -c {shlex.quote(SPAWN)}"
        sandbox.exec(script, timeout=20, number=1)
        sandbox.put(LOG, [LINES])
        until = time.monotonic() + 20
        while (count := sandbox.container.count_processes()) != 1 and time.monotonic() < until:
            time.sleep(0.02)
        assert count == 1
