"""What the kernel keeps by uid or by namespace: nobody takes the share of the next one."""

import os
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import DATA, Sandbox
from sandbox.bubblewrap import BubblewrapDriver

pytestmark = pytest.mark.attack("sandbox")

LEAVE = """
import ctypes, os
libc = ctypes.CDLL(None)
for _ in range(3):
    made = libc.shmget(0, 20 << 20, 0o600), libc.semget(0, 5, 0o600), libc.msgget(0, 0o600)
    assert min(made) >= 0, made
libc.shmat.restype = ctypes.c_void_p
ctypes.memset(ctypes.c_void_p(libc.shmat(made[0], None, 0)), 1, 20 << 20)
os.chdir("/dev/shm")
for number in range(1200):
    os.mkdir("d", 0o700)
    open("d/f", "w").close()
    os.chdir("d")
"""
LEFT = "cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg | grep -v key; ls -A /dev/shm"
QUEUE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).mq_open(b'/left', 0o100, 0o600, None) >= 0)"

WATCH = """
import ctypes
libc = ctypes.CDLL(None)
made = [libc.inotify_init1(0) for _ in range(130)]
print(sum(each >= 0 for each in made), flush=True)
open("/tmp/full", "w").close()
import os, time
while not os.path.exists("/tmp/done"):
    time.sleep(0.02)
"""


def said(sandbox: Sandbox, command: str) -> str:
    done = sandbox.exec(command, timeout=20, number=1)
    return done.stdout.preview + done.stderr.preview


def python(program: str) -> str:
    return shlex.join(["python3", "-c", program])


def test_what_a_command_leaves_in_shared_memory_ends_with_it(
    any_driver: PoolableDriver, record_property: Callable[[str, object], None]
) -> None:
    rounds = 10
    record_property("tried", rounds)
    with any_driver.start("left") as sandbox:
        sandbox.put(f"{DATA}/kept", [b"kept"])
        for _ in range(rounds):
            assert said(sandbox, python(LEAVE)) == ""
            assert said(sandbox, LEFT) == ""
        assert said(sandbox, python(QUEUE)) == ""
        assert b"".join(sandbox.export())


def test_no_two_sandboxes_share_what_the_kernel_counts_by_uid(any_driver: PoolableDriver) -> None:
    """128 watchers of files is all that a uid usually has."""
    if isinstance(any_driver, BubblewrapDriver) and os.geteuid() != 0:
        pytest.skip("an ordinary user has one uid for all sandboxes of bubblewrap")
    with (
        any_driver.start("greedy") as greedy,
        any_driver.start("modest") as modest,
        ThreadPoolExecutor(1) as pool,
    ):
        watching = pool.submit(greedy.exec, python(WATCH), timeout=60, number=1)
        said(greedy, "until [ -e /tmp/full ]; do sleep 0.02; done")
        asked = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)"
        assert said(modest, python(asked)) == "True\n"
        greedy.put("/tmp/done", [])
        assert 100 < int(watching.result(60).stdout.preview) < 130
