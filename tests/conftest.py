"""Parts that are started once for the whole suite. `make test` provides the services."""

from collections.abc import Iterator

import pytest

from tests.stores import S3Server, running_s3

pytest_plugins = ["tests.sandboxes", "tests.brokers"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server in its own process."""
    with running_s3() as server:
        yield server
