"""Fixtures over the real engine: name this module in `pytest_plugins`.

The engine is Docker's usual choice (DOCKER_HOST, the context, the default socket). Without one the
tests fail: `make test` provides it.
"""

from collections.abc import Iterator

import pytest

from sandbox import build
from sandbox.docker import DockerDriver, DockerSandbox
from sandbox.spec import ContainerSpec


@pytest.fixture(scope="session")
def sandbox_image() -> str:
    """The tag of the image, built if need be."""
    return build.ensure()


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
