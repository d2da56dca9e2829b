"""Fixtures over the real engine: name this module in `pytest_plugins`.

The engine is Docker's usual choice (DOCKER_HOST, the context, the default socket). Without one the
tests fail: `make test` provides it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import build
from sandbox.background import PoolableDriver
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver, DockerSandbox
from sandbox.framed import FramedSandbox
from sandbox.kubernetes.driver import KubernetesDriver
from sandbox.spec import ContainerSpec

ROOT = Path(__file__).parents[1]
Kind = Callable[[ContainerSpec], PoolableDriver]
RUNTIMES = os.environ.get("SANDPIPER_TEST_RUNTIMES", "").split()
"""Further runtimes of the engine, such as runsc, are tested where the variable names them."""
CLUSTER = os.environ.get("SANDPIPER_TEST_CLUSTER", "")
"""A kubeconfig: its cluster is tested, and nothing else (`make test-cluster`)."""
KINDS = ("kubernetes",) if CLUSTER else ("docker", "bubblewrap", "kubernetes", *RUNTIMES)


@pytest.fixture(scope="session")
def sandbox_image() -> str:
    """The tag of the image, built if need be; in a cluster the one that its nodes can pull."""
    return os.environ["SANDPIPER_TEST_IMAGE"] if CLUSTER else build.ensure_image()


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Bubblewrap is installed."""
    assert shutil.which("bwrap"), "bubblewrap is not installed: apt-get install bubblewrap"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster that $KUBECONFIG names: the real one, or a simulated one in its own process."""
    with pytest.MonkeyPatch.context() as patch:
        if CLUSTER:
            patch.setenv("KUBECONFIG", CLUSTER)
            yield
            return
        path = tmp_path_factory.mktemp("cluster") / "config"
        with running_simulator(path):
            patch.setenv("KUBECONFIG", str(path))
            yield


@contextmanager
def running_simulator(kubeconfig: Path) -> Iterator[None]:
    """A simulated cluster in a process of its own, so that memory is measured without it."""
    command = [sys.executable, "-m", "tests.simulators.kubernetes", str(kubeconfig)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.fixture(scope="session")
def container_spec(sandbox_image: str) -> ContainerSpec:
    """Small enough for two cores and several containers at once; short of patience."""
    return ContainerSpec(image=sandbox_image, memory="512m", disk="384m", pids=128, grace=1.5)


@pytest.fixture(scope="session")
def driver(container_spec: ContainerSpec) -> DockerDriver:
    return DockerDriver(container_spec)


@pytest.fixture
def sandbox(driver: DockerDriver) -> Iterator[DockerSandbox]:
    """A fresh container, removed afterwards."""
    with driver.start("test") as running:
        yield running


# ------------------------------------------------------------------ whatever sandboxes are made of


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Makes a driver from a spec, one kind after the other."""
    return _choose_kind(request)


def _choose_kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "bubblewrap":
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
        return BubblewrapDriver
    if request.param == "docker":
        return DockerDriver
    if request.param == "kubernetes":
        request.getfixturevalue("cluster")
        return KubernetesDriver
    return lambda spec: DockerDriver(replace(spec, runtime=request.param))


@pytest.fixture(scope="session", params=[kind for kind in KINDS if kind != "bubblewrap"])
def lasting_driver(request: pytest.FixtureRequest, container_spec: ContainerSpec) -> PoolableDriver:
    """Of each kind whose sandboxes outlive their worker."""
    return _choose_kind(request)(container_spec)


@pytest.fixture(scope="session")
def any_driver(kind: Kind, container_spec: ContainerSpec) -> PoolableDriver:
    return kind(container_spec)


@pytest.fixture
def any_sandbox(any_driver: PoolableDriver) -> Iterator[FramedSandbox]:
    """A fresh sandbox, removed afterwards."""
    with any_driver.start("test") as running:
        yield running
