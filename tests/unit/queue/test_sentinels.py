"""Redis servers that real Sentinels watch: openly, and with passwords and TLS for all of them."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.brokers import RedisServer, build_app, make_tls_options, round_trip, running_redis
from tests.certificates import Authority, Server, trust_nobody
from tests.flow.product import free_port
from worker.errors import QueueError
from worker.queue.broker import find_broker_failure, require_login

pytestmark = pytest.mark.slow

WORD, SENTINELS_WORD = "the-word-of-the-redis", "the-word-of-the-sentinels"


@dataclass
class Watched:
    """Two Redis servers, one the other's replica, and a Sentinel that watches them.

    `ports` are those that the Sentinel names; `settings` are the product's, complete.
    """

    servers: tuple[RedisServer, RedisServer]
    ports: tuple[int, int]
    port: int
    url: str
    settings: dict[str, object] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def find_master(self) -> int:
        with self.connect() as client:
            return int(client.sentinel_get_master_addr_by_name("mymaster")[1])

    def has_replica(self) -> bool:
        with self.connect() as client:
            (replica,) = client.sentinel_slaves("mymaster") or [{}]
            return bool(replica.get("master-link-status") == "ok")

    def connect(self) -> "redis.Redis":
        return redis.Redis(host="localhost", port=self.port, socket_timeout=5, **self.options)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    trust_nobody(monkeypatch)
    return Authority(tmp_path / "certificates")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield start_watched(stack, tmp_path, None)


@pytest.fixture
def secured(tmp_path: Path, authority: Authority) -> Iterator[Watched]:
    with ExitStack() as stack:
        made = start_watched(stack, tmp_path, authority.sign())
        made.settings["broker_tls"] = {"ca_file": authority.ca_file}
        yield made


def start_watched(stack: ExitStack, folder: Path, server: Server | None) -> Watched:
    plain, hidden, port = (free_port(), free_port()), (free_port(), free_port()), free_port()
    ports = hidden if server else plain
    servers = []
    for number in (0, 1):
        place = folder / str(number)
        place.mkdir()
        options = ["--replicaof", f"127.0.0.1 {ports[0]}"] if number else []
        if server:
            options += [*make_tls_options(hidden[number], server), "--tls-replication", "yes"]
            options += ["--requirepass", WORD, "--masterauth", WORD]
        servers.append(stack.enter_context(running_redis(place, plain[number], *options)))
    start_sentinel(stack, folder, port, ports[0], server)
    made = Watched((servers[0], servers[1]), ports, port, f"sentinel://localhost:{port}/0")
    if server:
        made.url = f"sentinels://:{WORD}@localhost:{port}/0"
        made.settings = {"broker_sentinel_password": SENTINELS_WORD}
        ca_file = server.authority.ca_file
        made.options = {"password": SENTINELS_WORD, "ssl": True, "ssl_ca_certs": ca_file}
    until(lambda: made.find_master() == ports[0] and made.has_replica())
    return made


def start_sentinel(
    stack: ExitStack, folder: Path, port: int, master: int, server: Server | None
) -> None:
    lines = [f"bind 127.0.0.1\ndir {folder}", f"sentinel monitor mymaster 127.0.0.1 {master} 1"]
    if server:
        words = " ".join(make_tls_options(port, server)).replace("--", "\n").strip()
        lines += ["port 0", words, "tls-replication yes", f"requirepass {SENTINELS_WORD}"]
        lines += [f"sentinel auth-pass mymaster {WORD}"]
    else:
        lines += [f"port {port}"]
    lines += ["sentinel down-after-milliseconds mymaster 1000"]
    lines += ["sentinel failover-timeout mymaster 3000"]
    (folder / "sentinel.conf").write_text("\n".join([*lines, ""]))
    words_of = ["redis-server", str(folder / "sentinel.conf"), "--sentinel"]
    with (folder / "sentinel.log").open("wb") as log:
        popen = stack.enter_context(subprocess.Popen(words_of, stdout=log, stderr=log))
    stack.callback(popen.kill)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(redis.RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["watched", "secured"])
def test_the_redis_that_sentinel_names_is_the_queue_before_and_after_a_failover(
    kind: str, request: pytest.FixtureRequest
) -> None:
    made: Watched = request.getfixturevalue(kind)
    built = build_app(made.url, **made.settings)
    assert find_broker_failure(built) is None
    assert round_trip(built)
    made.servers[0].stop(signal.SIGKILL)
    until(lambda: made.find_master() == made.ports[1])
    until(lambda: find_broker_failure(built) is None)
    assert round_trip(built)


@pytest.mark.attack("broker")
def test_sentinels_that_refuse_are_named_with_what_to_set(secured: Watched, tmp_path: Path) -> None:
    complete = secured.settings
    for left_out, named in (
        ({"broker_sentinel_password": ""}, "set SANDPIPER_SENTINEL_PASSWORD"),
        ({"broker_sentinel_password": "wrong"}, "set SANDPIPER_SENTINEL_PASSWORD"),
        (
            {"broker_tls": {"ca_file": Authority(tmp_path / "other").ca_file}},
            "signed by an authority that is not trusted here; let broker_tls.ca_file",
        ),
    ):
        with pytest.raises(QueueError, match=named) as told:
            require_login(build_app(secured.url, **complete | left_out))
        assert WORD not in str(told.value)
        assert SENTINELS_WORD not in str(told.value)
    wrong = secured.url.replace(WORD, "another")
    with pytest.raises(QueueError, match="refuses this login"):
        require_login(build_app(wrong, **complete))


def test_a_sentinel_that_is_taken_for_a_redis_is_named(watched: Watched) -> None:
    with pytest.raises(QueueError, match="is a Sentinel and no Redis; name it as sentinel://"):
        require_login(build_app(watched.url.replace("sentinel://", "redis://")))


def test_a_master_that_no_sentinel_knows_is_a_broker_that_does_not_answer(watched: Watched) -> None:
    failure = find_broker_failure(build_app(watched.url, broker_master="another"))
    assert failure is not None
    assert failure.transient
    assert "another" in str(failure)
