"""The Docker driver over TCP, plain and with TLS, as DOCKER_HOST names it; and dead workers."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sandbox import bubblewrap, cgroup
from sandbox.base import SandboxGone, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver, remove_stale_containers
from sandbox.engine import open_engine
from sandbox.spec import SESSION_LABEL, ContainerSpec
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


def test_a_connection_that_breaks_is_not_blamed_on_the_archive(
    container_spec: ContainerSpec, driver: DockerDriver
) -> None:
    with driver.start("saving") as saving:
        saving.put("/tmp/data/kept", [b"kept"])
        saved = list(saving.export())
    cut = threading.Event()

    def break_once(size: int) -> None:
        if cut.is_set():
            cut.clear()
            raise ConnectionResetError

    def download() -> Iterator[bytes]:
        cut.set()
        yield from saved

    with relay(count=break_once) as port:
        remote = DockerDriver(container_spec, f"tcp://127.0.0.1:{port}")
        with pytest.raises(SandboxUnavailable, match="restoring the files"):
            remote.start("broken", download())
        assert not cut.is_set()
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
    mark = f"orphan-{os.getpid()}"
    with BubblewrapDriver(ContainerSpec(memory="256m", disk="64m")).start("alive") as alive:
        killed_worker("bubblewrap", "BubblewrapDriver", "none", mark, mark)
        until(lambda: not running(mark))
        assert bubblewrap.remove_leftovers(older_than=3600) == []
        (name,) = bubblewrap.remove_leftovers(older_than=-1)
        assert not any(folder.exists() for folder in cgroup.find_group(name).folders)
        assert alive.exec("echo fine", timeout=5, number=1).stdout.preview == "fine\n"
