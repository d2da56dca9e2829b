"""The proof that a pod reaches nothing, against sockets of this machine."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from sandbox.image import isolation
from sandbox.kubernetes.cluster import list_targets

PROGRAM = Path(isolation.__file__)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def name_server(answers: bool) -> Iterator[int]:
    """A UDP port that answers a query, or keeps silent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)

        def serve() -> None:
            with suppress(OSError):
                query, peer = server.recvfrom(512)
                server.sendto(query[:2] + b"\x80\x00", peer)

        thread = threading.Thread(target=serve)
        if answers:
            thread.start()
        yield int(server.getsockname()[1])
        if answers:
            thread.join(15)


def test_what_accepts_and_what_refuses_is_reached(listening: int, closed_port: int) -> None:
    addresses = [f"127.0.0.1:{listening}", f"127.0.0.1:{closed_port}"]
    assert sorted(isolation.find_answers(addresses)) == sorted(addresses)


def test_what_has_no_way_there_is_not_reached() -> None:
    assert isolation.find_answers(["[fe80::1]:80", "255.255.255.255:80"]) == []


@pytest.mark.parametrize("answers", [True, False])
def test_a_name_server_is_reached_when_it_answers(answers: bool) -> None:
    with name_server(answers) as port:
        probe = isolation.open_probe(f"127.0.0.1:{port}", socket.SOCK_DGRAM)
        assert probe is not None
        with closing(probe):
            probe.setblocking(True)
            probe.settimeout(2 if answers else 0.1)
            assert isolation.has_answered(probe) is answers


def test_the_api_server_that_the_kubelet_names_is_tried_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert isolation.list_addresses(["10.0.0.1:53"]) == ["10.0.0.1:53", "[fd00::1]:443"]
    assert isolation.parse_address("[fd00::1]:443") == ("fd00::1", 443)


@pytest.mark.parametrize("reached", [True, False])
def test_the_program_says_what_it_reached_and_exits_with_1(listening: int, reached: bool) -> None:
    address = f"127.0.0.1:{listening}" if reached else "255.255.255.255:80"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "0", address],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == ((1, address) if reached else (0, ""))


def test_the_targets_are_what_is_near_a_worker(tmp_path: Path) -> None:
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(
        "search x\nnameserver 10.96.0.10\nnameserver fd00::10\nnameserver 127.0.0.53\n"
    )
    found = list_targets("https://10.96.0.1", "10.1.2.3", resolver)
    assert found[:4] == ["10.96.0.1:443", "10.96.0.10:53", "[fd00::10]:53", "10.1.2.3:8080"]
    assert {"169.254.169.254:80", "1.1.1.1:443"} <= set(found)
    assert not any(each.startswith("127.") for each in found)
