"""A RabbitMQ that a test may kill and start again, apart from the suite's own."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAUNCH = """
rabbit_dir=$1
exec 2>"$rabbit_dir/shell"
. .ci/rabbit.sh
launch_rabbit "$2"
echo "$rabbit_pid"
wait "$rabbit_pid"
"""
LONGEST = 60.0


@dataclass
class RabbitServer:
    """A node of its own, in a folder of its own: what it has confirmed outlives it."""

    folder: Path
    port: int
    shell: "subprocess.Popen[str] | None" = None
    pid: int = 0

    @property
    def url(self) -> str:
        """Where it answers, if it runs."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Run it until it answers, with all that it knew before."""
        words = ["bash", "-c", LAUNCH, "bash", str(self.folder), str(self.port)]
        self.shell = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.shell.stdout
        self.pid = int(self.shell.stdout.readline())
        deadline = time.monotonic() + LONGEST
        while not self._answers():
            alive = self.shell.poll() is None and time.monotonic() < deadline
            assert alive, (self.folder / "log").read_text()
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it; its name server goes with the shell."""
        if self.shell is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, how)
        with self.shell as shell:
            shell.wait(LONGEST)
        self.shell = None

    def _answers(self) -> bool:
        """Its listener is the last part that it starts."""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=2) as peer,
        ):
            peer.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(peer.recv(1))
        return False


@contextmanager
def running_rabbit(folder: Path) -> Iterator[RabbitServer]:
    """A RabbitMQ of its own on free ports."""
    server = RabbitServer(folder, _three_in_a_row())
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _three_in_a_row() -> int:
    """The first of three free ports: AMQP's, Erlang's own, and its name server's."""
    for _ in range(100):
        first = random.randrange(20_000, 32_000, 3)
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + 3):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no three free ports in a row")
