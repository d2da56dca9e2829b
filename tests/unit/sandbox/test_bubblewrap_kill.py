"""Several threads may end one sandbox: its lifeline is closed once."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from sandbox.bubblewrap import BubblewrapContainer

ROUNDS, THREADS = 200, 4


class Ended:
    """A process that has ended."""

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def kill(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_a_lifeline_is_never_closed_twice(tmp_path: Path) -> None:
    errors: list[OSError] = []

    def kill(container: BubblewrapContainer, begin: threading.Barrier) -> None:
        begin.wait()
        try:
            container.kill()
        except OSError as error:
            errors.append(error)

    for _ in range(ROUNDS):
        reading, lifeline = os.pipe()
        process = cast(subprocess.Popen[bytes], Ended())
        container = BubblewrapContainer(process, tmp_path, lifeline, None)
        begin = threading.Barrier(THREADS)
        threads = [threading.Thread(target=kill, args=(container, begin)) for _ in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        os.close(reading)
    assert errors == []
