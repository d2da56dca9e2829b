"""Real brokers for tests: `make test` provides them."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import kombu
import pytest
import redis

from tests.certificates import Server
from tests.parallel import worker_number
from worker import app
from worker.conversation.triggers import Reacted
from worker.jobs.process import Sandpiper
from worker.queue.broker import Publisher
from worker.queue.messages import TASK
from worker.settings import Settings
from worker.turns.parts import Deps

QUEUE = "celery"
KEEPING = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


@dataclass
class RedisServer:
    """A Redis of its own that writes all it is told to a file, so that it may be restarted."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    popen: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Where it answers, if it runs."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Run it until it answers, with all that it knew before."""
        program = shutil.which("redis-server")
        assert program, "redis-server is not installed: run the tests by `make test`"
        words = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            self.popen = subprocess.Popen(
                [program, *words, *KEEPING, *self.options],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 20
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "redis.log").read_text()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it. SIGKILL loses nothing either: what it has written is the machine's to keep."""
        if self.popen is not None:
            self.popen.send_signal(how)
            self.popen.wait(20)
            self.popen = None

    def _answers(self) -> bool:
        with (
            suppress(redis.RedisError),
            redis.Redis.from_url(self.url, socket_timeout=2) as client,
        ):
            try:
                return bool(client.ping())
            except redis.AuthenticationError:  # it answers, and wants a password
                return True
        return False


def make_tls_options(port: int, server: Server) -> tuple[str, ...]:
    """What lets a Redis, or a Sentinel, speak TLS at a port of its own."""
    return (
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", server.cert_file, "--tls-key-file", server.key_file),
        *("--tls-ca-cert-file", server.authority.ca_file),
    )


def build_app(broker: str, **settings: object) -> Sandpiper:
    """The product's Celery app for a broker, without the parts of a job."""
    return app.build_app(Settings.model_validate({"broker": broker, **settings}), _make_no_deps)


def _make_no_deps() -> Deps:
    raise AssertionError("only a worker needs them")


def round_trip(built: Sandpiper) -> bool:
    """Whether a trigger that is published can be read again."""
    publish = Publisher(built, TASK)
    publish(Reacted(1, 2, 3, 4))
    with built.connection_for_read() as connection:
        queue = connection.SimpleQueue(built.amqp.default_queue.name)
        message = queue.get(timeout=20)
        message.ack()
        queue.close()
    publish.close()
    return bool(message.headers["task"] == TASK)


@contextmanager
def running_redis(folder: Path, port: int, *options: str) -> Iterator[RedisServer]:
    """A Redis of its own on a free port."""
    server = RedisServer(folder, port, options)
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An empty database of the Redis at SANDPIPER_TEST_REDIS, another one for each test process."""
    parts = urlsplit(_named("SANDPIPER_TEST_REDIS"))
    first = int(parts.path.strip("/") or 0)
    url = parts._replace(path=f"/{first + (worker_number() or 0)}").geturl()
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()


@pytest.fixture
def rabbit_url() -> Iterator[str]:
    """The RabbitMQ at SANDPIPER_TEST_RABBIT, without the worker's queue.

    Each of several test processes has a virtual host of its own: gw0, gw1, …
    """
    url, number = _named("SANDPIPER_TEST_RABBIT"), worker_number()
    if number is not None:
        url = urlsplit(url)._replace(path=f"/gw{number}").geturl()
    _without_queue(url)
    yield url
    _without_queue(url)


def _without_queue(url: str) -> None:
    with kombu.Connection(url, connect_timeout=5) as connection:
        connection.default_channel.queue_delete(QUEUE)


def _named(variable: str) -> str:
    url = os.environ.get(variable)
    if not url:
        pytest.fail(f"{variable} names no broker: run the tests by `make test`")
    return url
