"""The health check: whom it asks, and what it says."""

import pytest

from tests.clusters import Answer, Loopback, ok
from worker.health import check_url, find_url


@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("python sandpiper serve", "http://127.0.0.1:8080/healthz"),
        ("python sandpiper serve --host 0.0.0.0 --port 9000", "http://127.0.0.1:9000/healthz"),
        ("python sandpiper serve --port=9000", "http://127.0.0.1:9000/healthz"),
        ("python sandpiper worker --metrics-port=9090", "http://127.0.0.1:9090/metrics"),
        ("python sandpiper worker --concurrency 4", ""),
        ("python sandpiper analyze group/project!1", ""),
    ],
)
def test_the_first_process_says_whom_to_ask(command: str, url: str) -> None:
    assert find_url(command.split()) == url


class Receiver(Loopback):
    """Well at one place, unwell at another."""

    def get(self, path: str, query: dict[str, str]) -> Answer:
        return ok({}) if path == "/healthz" else (503, b"no broker", {})


def test_only_an_answer_of_200_is_health() -> None:
    with Receiver() as receiver:
        assert check_url(f"{receiver.url}/healthz") == ""
        assert "answers 503: no broker" in check_url(f"{receiver.url}/readyz")
    assert "does not answer" in check_url(f"{receiver.url}/healthz")
