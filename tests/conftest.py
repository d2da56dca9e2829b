"""Parts that are started once for the whole suite. `make test` provides the services."""

from collections.abc import Iterator

import pytest

from tests.stores import S3Server, running_s3

pytest_plugins = ["tests.parallel", "tests.sandboxes", "tests.brokers", "tests.gitlab_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--attack-inputs`: how many inputs a fuzzing test tries."""
    parser.addoption("--attack-inputs", type=int, default=1_000, help="inputs of a fuzzing test")


@pytest.fixture(scope="session")
def attack_inputs(pytestconfig: pytest.Config) -> int:
    """How many inputs a fuzzing test tries: 1,000, and more in `python -m tests.bench attacks`."""
    return int(pytestconfig.getoption("--attack-inputs"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server in its own process."""
    with running_s3() as server:
        yield server
