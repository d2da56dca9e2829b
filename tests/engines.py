"""A Docker engine that a test may restart, apart from the one that the suite uses."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

LONGEST = 30.0
ALONE = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false")
"""Sandboxes have no network, so it needs none, and changes none."""


@dataclass
class Engine:
    """A dockerd of its own, below a folder whose path is short enough for a socket."""

    folder: Path
    popen: "subprocess.Popen[bytes] | None" = None
    coming: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers, if it runs."""
        return f"unix://{self.folder}/sock"

    def start(self) -> bool:
        """Run it until it answers, with all that it had before; whether it does."""
        words = ["dockerd", "--shutdown-timeout=1", "--ip-masq=false", *ALONE, "--host", self.url]
        for option, name in (("data-root", "data"), ("exec-root", "exec"), ("pidfile", "pid")):
            words += [f"--{option}", str(self.folder / name)]
        with (self.folder / "log").open("ab") as log:
            self.popen = subprocess.Popen(words, stdout=log, stderr=log)
        deadline = time.monotonic() + LONGEST
        while not self._answers():
            if self.popen.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def restart(self) -> None:
        """End it, and have it come back in the background: the containers die."""
        self.stop()
        self.coming = threading.Thread(target=self.start)
        self.coming.start()

    def stop(self) -> None:
        """End it, and all that it runs."""
        if self.coming is not None:
            self.coming.join()
        if self.popen is None:
            return
        self.popen.terminate()
        try:
            self.popen.wait(LONGEST)
        finally:
            self.popen.kill()
        self.popen = None

    def take_image(self, tag: str) -> None:
        """Copy an image from the suite's engine."""
        with closing(docker.from_env(timeout=120)) as other, closing(self.client()) as own:
            packed = other.images.get(tag).save(named=tag)
            own.images.load(packed)  # type: ignore[arg-type]

    def client(self) -> docker.DockerClient:
        """Talks to it, as soon as it is there; the caller closes it."""
        if self.coming is not None:
            self.coming.join()
        return docker.DockerClient(self.url, timeout=120)

    def last_words(self) -> str:
        """The end of its log."""
        return (self.folder / "log").read_text()[-500:]

    def _answers(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(LONGEST)
            peer.connect(str(self.folder / "sock"))
            peer.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in peer.recv(100)
        return False


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine of its own; the test is skipped where none can be."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("an engine of the test's own needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="sandpiper-engine-"))
    engine = Engine(folder)
    try:
        if not engine.start():
            pytest.skip(f"dockerd does not start here: {engine.last_words()}")
        yield engine
    finally:
        engine.stop()
        _unmounted(folder)
        # What a dying container still writes there must not fail the test.
        shutil.rmtree(folder, ignore_errors=True)


def _unmounted(folder: Path) -> None:
    """dockerd leaves mounts behind, of its data and of network namespaces."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted(mounts, reverse=True):
        if mount.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", mount], check=True)
