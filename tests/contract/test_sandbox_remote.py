"""The Docker driver over TCP, plain and with TLS, as DOCKER_HOST names it; and dead workers."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sandbox import bubblewrap, bubblewrap_options
from sandbox.background import Pool
from sandbox.base import SandboxGone, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver, remove_stale_containers
from sandbox.engine import open_engine
from sandbox.spec import SESSION_LABEL, ContainerSpec
from sandbox.wire import EngineWire
from tests.contract.sandbox_relay import certificates, relay
from tests.flow.product import containers


@pytest.fixture(params=["tcp", "tls"])
def remote(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    container_spec: ContainerSpec,
) -> Iterator[DockerDriver]:
    """A driver that finds the engine as DOCKER_HOST says."""
    tls = certificates(tmp_path) if request.param == "tls" else None
    with relay(tls) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        if tls:
            monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
            monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        yield DockerDriver(container_spec)


def test_commands_and_files_pass(remote: DockerDriver) -> None:
    noise = random.Random(1).randbytes(5 << 20)
    remote.check()
    with remote.start("remote") as sandbox:
        for number in range(20):
            result = sandbox.exec(f"echo {number}; seq 1 5000", timeout=20, number=number)
            assert result.stdout.preview.startswith(f"{number}\n1\n2\n")
        assert sandbox.put("/tmp/data/noise", [noise]) == len(noise)
        assert sandbox.get("/tmp/data/noise", limit=len(noise)) == noise
        saved = list(sandbox.export())
    with remote.start("remote", saved) as again:
        assert again.get("/tmp/data/noise", limit=len(noise)) == noise


def test_a_deadline_holds(remote: DockerDriver) -> None:
    with remote.start("remote") as sandbox:
        result = sandbox.exec("echo begun; sleep 60", timeout=0.5, number=1)
        assert (result.timed_out, result.stdout.preview) == (True, "begun\n")
        assert sandbox.exec("echo on", timeout=20, number=2).stdout.preview == "on\n"


def test_an_engine_that_goes_away_is_gone(
    container_spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relay() as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        sandbox = DockerDriver(container_spec).start("lost")
        sandbox.exec("true", timeout=20, number=1)
    with pytest.raises(SandboxGone):
        sandbox.exec("true", timeout=5, number=2)
    sandbox.close()
    monkeypatch.undo()
    assert "lost" in remove_stale_containers(None, older_than=-1, session="lost")


class Frail:
    """A way to the engine that breaks once after `cut`, with the engine's next answer.

    After `forget` every connection that there is breaks so. Each has a thread of its own.
    """

    def __init__(self) -> None:
        self.cut = threading.Event()
        self.known: set[threading.Thread] = set()
        self.forgotten: set[threading.Thread] = set()

    def forget(self) -> None:
        self.forgotten |= self.known

    def __call__(self, size: int) -> None:
        self.known.add(threading.current_thread())
        if self.cut.is_set() or threading.current_thread() in self.forgotten:
            self.cut.clear()
            raise ConnectionResetError


@pytest.fixture
def frail() -> Frail:
    return Frail()


@pytest.fixture
def breaking(frail: Frail, container_spec: ContainerSpec) -> Iterator[DockerDriver]:
    """A driver over the frail way."""
    with relay(count=frail) as port:
        yield DockerDriver(container_spec, f"tcp://127.0.0.1:{port}")


def test_a_silent_connection_is_probed(remote: DockerDriver) -> None:
    with remote.start("probed") as sandbox:
        wire = sandbox.container.connect(time.monotonic() + 20)
        assert isinstance(wire, EngineWire)
        with closing(wire):
            stream = wire._socket
            assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60


def test_a_connection_that_breaks_costs_the_output_and_no_files(
    frail: Frail, breaking: DockerDriver
) -> None:
    with breaking.start("broken") as sandbox:
        sandbox.put("/tmp/data/kept", [b"kept"])
        frail.cut.set()
        lost = sandbox.exec("echo lost", timeout=20, number=1)
        assert (lost.exit_code, lost.stdout.preview) == (137, "")
        assert "the connection to it broke" in lost.stderr.preview
        assert sandbox.exec("cat data/kept", timeout=20, number=2).stdout.preview == "kept"


def test_a_pool_gives_out_no_sandbox_whose_connection_breaks(
    frail: Frail, breaking: DockerDriver
) -> None:
    with closing(Pool(breaking, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        frail.forget()
        with pool.start("fine") as sandbox:
            assert sandbox.exec("echo fine", timeout=20, number=1).stdout.preview == "fine\n"


def test_a_connection_that_breaks_is_not_blamed_on_the_archive(
    frail: Frail, breaking: DockerDriver, driver: DockerDriver
) -> None:
    with driver.start("saving") as saving:
        saving.put("/tmp/data/kept", [b"kept"])
        saved = list(saving.export())

    def download() -> Iterator[bytes]:
        frail.cut.set()
        yield from saved

    with pytest.raises(SandboxUnavailable, match="restoring the files"):
        breaking.start("broken", download())
    assert not frail.cut.is_set()
    assert containers("broken") == []


def test_an_engine_that_goes_away_is_not_blamed_on_the_archive(
    container_spec: ContainerSpec,
) -> None:
    way = ExitStack()

    def download() -> Iterator[bytes]:
        yield b"\x1f\x8b"
        way.close()
        yield from [bytes(1 << 16)] * 200

    with way:
        remote = DockerDriver(container_spec, f"tcp://127.0.0.1:{way.enter_context(relay())}")
        with pytest.raises(SandboxUnavailable, match="restoring the files"):
            remote.start("away", download())
    assert remove_stale_containers(None, older_than=-1, session="away") == ["away"]


def test_a_stranger_s_certificate_is_refused(
    container_spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    certificates(ours)
    with relay(certificates(theirs)) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(ours))
        with pytest.raises(SandboxUnavailable, match="no Docker engine answers"):
            DockerDriver(container_spec).start("x")


# ----------------------------------------------------------------------------------- dead workers

WORKER = """
import sys, time
from sandbox.{module} import {driver}
from sandbox.spec import ContainerSpec
sandbox = {driver}(ContainerSpec(image=sys.argv[1], memory="256m", disk="64m")).start(sys.argv[2])
sandbox.exec("echo > /tmp/alive; (exec -a {mark} sleep 300) & disown", timeout=5, number=1)
print("started", flush=True)
sandbox.exec("exec -a {mark} sleep 300", timeout=300, number=2)
"""


def killed_worker(module: str, driver: str, image: str, session: str, mark: str) -> None:
    """A worker that was killed by the kernel's own hand in the middle of a command."""
    program = WORKER.format(module=module, driver=driver, mark=mark)
    command = [sys.executable, "-c", program, image, session]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"started\n"
        until(lambda: running(mark))
        worker.send_signal(signal.SIGKILL)


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def running(mark: str) -> bool:
    """Whether a process of this name runs on this machine, containers included."""
    for folder in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.read_bytes().startswith(mark.encode()):
                return True
        except OSError:
            continue
    return False


def test_what_a_killed_worker_leaves_is_reaped(sandbox_image: str) -> None:
    mark = f"orphan-{os.getpid()}"
    killed_worker("docker", "DockerDriver", sandbox_image, mark, mark)
    with closing(open_engine(None)) as engine:
        label = {"label": f"{SESSION_LABEL}={mark}"}
        assert len(engine.containers(filters=label)) == 1
        assert remove_stale_containers(None, older_than=3600, session=mark) == []
        assert remove_stale_containers(None, older_than=-1, session=mark) == [mark]
        assert engine.containers(all=True, filters=label) == []


def test_bubblewrap_leaves_no_process_of_a_killed_worker_and_its_folder_is_reaped() -> None:
    bubblewrap.remove_leftovers(older_than=-1)  # those of a test run that was killed
    mark = f"orphan-{os.getpid()}"
    with BubblewrapDriver(ContainerSpec(memory="256m", disk="64m")).start("alive") as alive:
        killed_worker("bubblewrap", "BubblewrapDriver", "none", mark, mark)
        until(lambda: not running(mark))
        assert bubblewrap.remove_leftovers(older_than=3600) == []
        (name,) = bubblewrap.remove_leftovers(older_than=-1)
        assert not any(folder.exists() for folder in bubblewrap_options.find_group(name).folders)
        assert alive.exec("echo fine", timeout=5, number=1).stdout.preview == "fine\n"
