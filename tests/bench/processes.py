"""The product's processes, run for a measurement."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process; `port` is 0 for one that serves nothing."""

    pid: int
    port: int
    path: Path

    def log(self) -> str:
        """What it has written."""
        return self.path.read_text(errors="replace")


@contextmanager
def running(words: Sequence[str], env: Mapping[str, str], folder: str) -> Iterator[Process]:
    """`sandpiper WORDS…`, or a program if they begin with a path; one that serves answers already.

    A command `serve` gets a `--port`, and a program finds it in $PORT.
    """
    serves = words[0] != "worker"
    port = _free_port() if serves else 0
    command = list(words)
    if "/" not in words[0]:
        command = [str(Path(sys.executable).with_name("sandpiper")), *words]
        command += ["--port", str(port)] if serves else []
    path = Path(folder) / f"{Path(words[0]).name}-{port}.log"
    with path.open("wb") as log:
        popen = subprocess.Popen(
            command,
            env={**_kept(), "PORT": str(port), **env},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    process = Process(popen.pid, port, path)
    try:
        if serves:
            _until_healthy(process, popen)
        yield process
    finally:
        popen.terminate()
        try:
            popen.wait(30)
        finally:
            popen.kill()
            popen.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, in user and kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> int:
    """Bytes of a process that are in memory, shared libraries counted in full."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def _kept() -> dict[str, str]:
    names = ("PATH", "HOME", "PYTHONPATH", "DOCKER_HOST")
    return {name: os.environ[name] for name in names if name in os.environ}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until_healthy(process: Process, popen: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{process.port}/healthz", timeout=2).raise_for_status()
        except httpx.HTTPError:
            assert popen.poll() is None, f"it did not start: {process.log()}"
            assert time.monotonic() < deadline, f"it does not answer: {process.log()}"
            time.sleep(0.05)
        else:
            return
