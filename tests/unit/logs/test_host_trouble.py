"""Lines that may tell of the network or the host, and what a change breaks by itself."""

import pytest

from worker.logs.line_kinds import may_tell_of_host, tells_of_host

OUTSIDE = (
    "requests.exceptions.ConnectionError: [Errno 111] Connection refused",
    "curl: (6) Could not resolve host: pypi.example",
    "fatal: unable to access 'https://git.example/x.git/': Recv failure: Connection reset by peer",
    "E   TimeoutError: no answer in 5 s",
    "npm ERR! network request to https://npm.example failed, reason: ETIMEDOUT",
    "dial tcp: lookup db.example on 10.0.0.2:53: no such host",
    "psycopg2.OperationalError: could not connect to server",
    "ERROR: failed to pull image: 429 Too Many Requests",
    "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
    "server returned 502",
    "x509: certificate signed by unknown authority",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
    "The license server did not answer: license checkout failed",
)
USED_UP = (
    "OSError: [Errno 28] No space left on device",
    "c++: fatal error: Killed signal terminated program cc1plus",
    "ci/build.sh: line 12:   481 Killed                  cc1plus",
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    "ERROR: Job failed: exit code 137",
    "Segmentation fault (core dumped)",
)
OWN = (
    "E   AssertionError: assert 3 == 4",
    "FAILED tests/test_server.py::test_total - assert 3 == 4",
    "src/server/index.ts(7,3): error TS2304: Cannot find name 'fetch'.",
    "error: cannot find symbol: class Connector",
    "src/net.c:31:9: error: implicit declaration of function 'open_peer'",
    "ModuleNotFoundError: No module named 'app.hosts'",
    "Error: Could not resolve './missing' from src/index.js",
    "app/device.py:3:5: F821 undefined name 'display'",
    "AttributeError: 'Heap' object has no attribute 'push'",
    "--- FAIL: TestClock (0.00s)",
    "would reformat app/service.py",
    "ERROR: Job failed: exit code 1",
    "expected: <200> but was: <404>",
)


@pytest.mark.parametrize("line", [*OUTSIDE, *USED_UP])
def test_trouble_of_the_network_or_the_host_is_seen(line: str) -> None:
    assert may_tell_of_host(["it began", line])


@pytest.mark.parametrize("line", OWN)
def test_what_the_code_does_wrong_is_none(line: str) -> None:
    assert not may_tell_of_host([line])


@pytest.mark.parametrize("line", [*OUTSIDE, *USED_UP])
def test_what_a_program_may_have_used_up_itself_tells_of_no_host(line: str) -> None:
    assert tells_of_host([line]) is (line in OUTSIDE)
