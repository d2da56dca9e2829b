"""Processes of the product that start at once: forked from one that has imported it already.

Starting an interpreter and importing the product takes a second of a core, more than most tests of
`tests/flow` need besides. Apart from that, such a process is what `subprocess.Popen` starts: it has
its own environment, folder, signals and exit status. The server that is forked ends with its tests.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
SANDPIPER = "sandpiper"
"""The first word of a command line of the product; any other names a module to run."""

_LATER = (
    *("celery.app.amqp", "celery.app.control", "celery.app.events", "celery.app.log"),
    *("celery.backends.base", "celery.bin.celery", "celery.concurrency.thread"),
    *("celery.fixups.django", "celery.worker.autoscale", "celery.worker.components"),
    *("celery.worker.consumer", "celery.worker.consumer.delayed_delivery"),
    *("celery.worker.pidbox", "celery.worker.strategy"),
    *("kombu.transport.pyamqp", "kombu.transport.redis", "worker.queue.messages"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.loops.uvloop"),
    *("boto3.s3.inject", "gitlab.v4.objects", "worker.sessions.bucket"),
)
"""What the commands import only when they need it, most of it by a name in a setting."""

_MOST = 1 << 20


class Fork:
    """A running process, with what tests use of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], connection: socket.socket, pid: int) -> None:
        self.pid, self._words = pid, words
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """Return the exit status, minus a signal's number; None while it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status. Raises subprocess.TimeoutExpired."""
        status = self._read_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(list(self._words), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(self._connection.recv(_MOST) or -signal.SIGKILL)
            self._connection.close()
        return self.returncode


def start(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: IO[str], stderr: IO[str]
) -> Fork:
    """Start `sandpiper WORDS…` or `python -m MODULE WORDS…`; it reads nothing."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(_start_server()))
    order = json.dumps({"words": list(words), "env": dict(env), "cwd": str(cwd)}).encode()
    socket.send_fds(connection, [order], [stdout.fileno(), stderr.fileno()])
    return Fork(words, connection, int(connection.recv(_MOST)))


def run(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises subprocess.TimeoutExpired, having killed it."""
    with _open_stream() as out, _open_stream() as errors:
        process = start(words, env, cwd, out, errors)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        for stream in (out, errors):
            stream.seek(0)
        return subprocess.CompletedProcess(list(words), status, out.read(), errors.read())


def _open_stream() -> IO[str]:
    return tempfile.TemporaryFile("w+", newline="", errors="surrogateescape")


@cache
def _start_server() -> Path:
    """Start the server of this process and return its socket's path."""
    path = Path(tempfile.mkdtemp(prefix="sandpiper-forks-")) / "socket"
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forks", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        cwd=ROOT,
    )
    atexit.register(_end_server, server, path)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return path


def _end_server(server: "subprocess.Popen[bytes]", path: Path) -> None:
    server.communicate()
    path.unlink()
    path.parent.rmdir()


@dataclass(frozen=True)
class _Order:
    """What a new process is to run."""

    words: list[str]
    env: dict[str, str]
    cwd: str
    streams: list[int]

    def run(self) -> None:
        """Become that process, and run it to its end."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in enumerate((nothing, *self.streams)):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.cwd)
        sys.argv = list(self.words)
        if self.words[0] == SANDPIPER:
            importlib.import_module("worker.cli").main()
        else:
            runpy.run_module(self.words[0], run_name="__main__", alter_sys=True)


class _Server:
    """Forks for each order; tells who ordered the process its id, and how it ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)

    def serve(self) -> _Order | None:
        """Return an order in the process that is to run it, None in the server at its end."""
        while True:
            ready, _, _ = select.select([self._listener, self._woken, sys.stdin], [], [])
            if self._woken in ready:
                os.read(self._woken, _MOST)
                self._report_ends()
            if self._listener in ready and (order := self._take_order()):
                return order
            if sys.stdin in ready:
                return None

    def _take_order(self) -> _Order | None:
        connection, _ = self._listener.accept()
        message, streams, _, _ = socket.recv_fds(connection, _MOST, 2)
        pid = os.fork()
        if not pid:
            self._leave(connection)
            return _Order(**json.loads(message), streams=streams)
        for stream in streams:
            os.close(stream)
        self._connections[pid] = connection
        connection.send(str(pid).encode())
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Keep nothing of the server in a process that it has forked."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (connection, self._listener, *self._connections.values()):
            each.close()
        os.close(self._woken)
        os.close(self._wake)

    def _report_ends(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._connections.pop(pid) as connection, suppress(OSError):
                    connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_product() -> None:
    commands = importlib.import_module("worker.cli")
    for module in pkgutil.iter_modules(commands.__path__, "worker.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    importlib.import_module("worker.models.connection").get_ssl_context()


def main(path: str) -> None:
    """Serve until standard input ends."""
    _import_product()
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        order = _Server(listener).serve()
    if order:
        order.run()


if __name__ == "__main__":
    main(sys.argv[1])
