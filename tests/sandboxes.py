"""Fixtures over the real engine: name this module in `pytest_plugins`.

The engine is Docker's usual choice (DOCKER_HOST, the context, the default socket). Without one the
tests fail: `make test` provides it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sandbox import build
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver, DockerSandbox
from sandbox.framed import FramedSandbox
from sandbox.soon import Warmable
from sandbox.spec import ContainerSpec

Kind = Callable[[ContainerSpec], Warmable]
KINDS = ("docker", "bubblewrap", *os.environ.get("SANDPIPER_TEST_RUNTIMES", "").split())
"""Further runtimes of the engine, such as runsc, are tested where the variable names them."""


@pytest.fixture(scope="session")
def sandbox_image() -> str:
    """The tag of the image, built if need be."""
    return build.ensure_image()


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
    if request.param == "bubblewrap":
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
        return BubblewrapDriver
    if request.param == "docker":
        return DockerDriver
    return lambda spec: DockerDriver(replace(spec, runtime=request.param))


@pytest.fixture(scope="session")
def any_driver(kind: Kind, container_spec: ContainerSpec) -> Warmable:
    return kind(container_spec)


@pytest.fixture
def any_sandbox(any_driver: Warmable) -> Iterator[FramedSandbox]:
    """A fresh sandbox, removed afterwards."""
    with any_driver.start("test") as running:
        yield running
