"""Sandboxes as pods beside those of the Docker driver, in the same run.

With SANDPIPER_TEST_CLUSTER (a kubeconfig) and SANDPIPER_TEST_IMAGE on that cluster; else on the
simulated one, whose pods are containers of the same engine: then the difference is the protocol's.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from sandbox import build
from sandbox.background import Pool, PoolableDriver
from sandbox.docker import DockerDriver
from sandbox.framed import FramedSandbox
from sandbox.kubernetes.driver import KubernetesDriver
from sandbox.spec import ContainerSpec
from tests.sandboxes import running_simulator

MEGABYTES = 100
STARTS, COMMANDS, SAVES, TAKEN = 5, 100, 4, 5
_MAKE = f"head -c {MEGABYTES}M /dev/urandom | base64 -w 100 | head -c {MEGABYTES}M > data/log"


def main() -> None:
    """Print each figure of both drivers, and their ratio."""
    image = build.ensure_image(say=lambda _: None)
    docker = DockerDriver(ContainerSpec(image=image))
    with _cluster() as (where, theirs):
        pods = KubernetesDriver(ContainerSpec(image=theirs or image))
        print(f"pods of {where}: pods / Docker / ratio")
        for what, measure in FIGURES.items():
            ours, floor = measure(pods), measure(docker)
            numbers = f"{ours * 1000:9.1f} ms / {floor * 1000:8.1f} ms / {ours / floor:6.2f}"
            print(f"  {what:44s} {numbers}")


@contextmanager
def _cluster() -> Iterator[tuple[str, str]]:
    """Where pods run, and their image if it is another one; $KUBECONFIG leads there."""
    named = os.environ.get("SANDPIPER_TEST_CLUSTER", "")
    if named:
        os.environ["KUBECONFIG"] = named
        yield "a cluster", os.environ["SANDPIPER_TEST_IMAGE"]
        return
    with tempfile.TemporaryDirectory() as folder, running_simulator(Path(folder, "config")):
        os.environ["KUBECONFIG"] = str(Path(folder, "config"))
        yield "a simulated cluster", ""


def _run(sandbox: FramedSandbox, command: str = "true") -> None:
    done = sandbox.exec(command, timeout=60, number=1)
    assert done.exit_code == 0, done.stderr.preview


def _start(driver: PoolableDriver) -> float:
    """Seconds up to the first command's answer."""
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        with driver.start("bench") as sandbox:
            _run(sandbox)
            taken.append(time.perf_counter() - began)
    return median(taken)


def _command(driver: PoolableDriver) -> float:
    with driver.start("bench") as sandbox:
        _run(sandbox)
        taken = []
        for _ in range(COMMANDS):
            began = time.perf_counter()
            _run(sandbox)
            taken.append(time.perf_counter() - began)
    return median(taken)


def _save(driver: PoolableDriver) -> float:
    with driver.start("bench") as sandbox:
        _run(sandbox, _MAKE)
        taken = []
        for _ in range(SAVES):
            began = time.perf_counter()
            assert sum(map(len, sandbox.export())) > MEGABYTES * 500_000
            taken.append(time.perf_counter() - began)
    return min(taken)


def _take(driver: PoolableDriver) -> float:
    """Seconds up to the first command's answer in a sandbox from a pool."""
    taken = []
    with closing(Pool(driver, 1)) as pool:
        for _ in range(TAKEN):
            pool.fill()
            while not pool.count_ready():
                time.sleep(0.01)
            time.sleep(0.2)
            began = time.perf_counter()
            with pool.start("bench") as sandbox:
                _run(sandbox)
                taken.append(time.perf_counter() - began)
    return median(taken)


FIGURES: dict[str, Callable[[PoolableDriver], float]] = {
    "start and first command": _start,
    "command": _command,
    f"save {MEGABYTES} MB": _save,
    "first command from the pool": _take,
}
