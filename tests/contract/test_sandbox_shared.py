"""Containers of an engine that cannot limit single ones (`shared_limits`): what holds still."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from sandbox.base import ExecResult, Sandbox, SandboxGone
from sandbox.docker import DockerContainer, DockerDriver, DockerSandbox
from sandbox.spec import ContainerSpec

pytestmark = pytest.mark.attack("sandbox")

HOLD = "import time; x = b'x' * (150 << 20); time.sleep(60)"
SEGMENTS = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(4):
    part = libc.shmget(0, 100 << 20, 0o600)
    at = ctypes.c_void_p(libc.shmat(part, None, 0))
    ctypes.memset(at, 1, 100 << 20)
    libc.shmdt(at)
"""


@pytest.fixture(scope="module")
def sharing(container_spec: ContainerSpec) -> DockerDriver:
    return DockerDriver(
        replace(container_spec, memory="256m", disk="192m", pids=64, shared_limits=True)
    )


@pytest.fixture
def shared(sharing: DockerDriver) -> Iterator[DockerSandbox]:
    with sharing.start("sharing") as running:
        yield running


def run(sandbox: Sandbox, command: str) -> ExecResult:
    return sandbox.exec(command, timeout=30, number=1)


def test_each_process_is_limited_and_commands_work(shared: DockerSandbox) -> None:
    told = run(shared, "ulimit -c -Hn -q -u -v | grep -o '[0-9]*$'; echo $HOME; wc -l < /dev/null")
    assert told.stdout.preview.split() == ["0", "4096", "0", "64", str(256 << 10), "/tmp", "0"]
    bomb = run(shared, "python3 -c 'x = b\"x\" * (300 << 20)'")
    assert "MemoryError" in bomb.stderr.preview
    assert run(shared, "ulimit -v unlimited || ulimit -u 1000").exit_code == 1


def test_one_sandbox_s_processes_take_none_of_another_s(
    sharing: DockerDriver, shared: DockerSandbox
) -> None:
    full = "for i in $(seq 100); do sleep 60 & done; echo $(jobs | wc -l) > n; wait"
    with sharing.start("neighbour") as neighbour:
        filled = run(shared, f"({full}) 2>&1 | grep -m 1 -o Resource.temporarily; sleep 1")
        assert filled.stdout.preview.startswith("Resource temporarily")
        many = run(neighbour, "for i in $(seq 40); do sleep 1 & done; wait; echo all")
        assert many.stdout.preview == "all\n"


@pytest.mark.parametrize(
    "script",
    [
        f'for i in 1 2 3; do python3 -c "{HOLD}" & done; wait',
        f'head -c 150M /dev/zero > /tmp/big; python3 -c "{HOLD}"',
        f"python3 -c '{SEGMENTS}'; sleep 60",
        f"pkill -9 sleep; kill -9 1; pkill -STOP -f watch[.]py; for i in 1 2 3; do "
        f'python3 -c "{HOLD}" & done; wait',
    ],
    ids=["processes", "files", "segments", "unwatched"],
)
def test_a_sandbox_that_takes_too_much_in_all_is_ended(shared: DockerSandbox, script: str) -> None:
    with pytest.raises(SandboxGone, match="its processes and files took more than 256m of memory"):
        run(shared, script)


def test_a_lost_runner_costs_no_files(sharing: DockerDriver, shared: DockerSandbox) -> None:
    shared.put("/tmp/data/kept", [b"kept"])
    run(shared, "setsid sleep 60 & kill -9 $PPID")
    shared.kill_commands()
    assert run(shared, "cat data/kept; pgrep -x sleep -u $(id -u)").stdout.preview == "kept"
    assert b"".join(shared.export())
    adopted = sharing.adopt("sharing")
    assert adopted is not None
    assert run(adopted, "cat data/kept").stdout.preview == "kept"
    adopted.close()


@pytest.mark.parametrize("running", [0, 3])
def test_processes_are_counted_where_the_engine_cannot_list_them(
    shared: DockerSandbox, running: int
) -> None:
    """An engine without control groups refuses `top`; here both ways are open, and agree."""
    shared.kill_commands()
    wires = [shared.container.connect(time.monotonic() + 60) for _ in range(running)]
    until = time.monotonic() + 20
    while (counts := both_counts(shared)) != (running, running) and time.monotonic() < until:
        pass  # the engine answers before the process is there
    for wire in wires:
        wire.close()
    assert counts == (running, running)


def both_counts(sandbox: DockerSandbox) -> tuple[int, int]:
    return sandbox.container.count_processes(), cast(
        DockerContainer, sandbox.container
    )._count_inside()
