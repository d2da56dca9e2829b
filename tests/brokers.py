"""A real Redis for tests: `make test` provides one."""

import os
from collections.abc import Iterator

import pytest
import redis


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An empty database of the Redis at SANDPIPER_TEST_REDIS."""
    url = os.environ.get("SANDPIPER_TEST_REDIS")
    if not url:
        pytest.fail("SANDPIPER_TEST_REDIS names no Redis: run the tests by `make test`")
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()
