"""What is said of a broker that cannot be used."""

import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty
from urllib.parse import urlsplit

import amqp
import kombu
import pytest

from tests import forks
from tests.brokers import QUEUE, running_redis
from tests.flow.product import free_port
from worker import app
from worker.errors import QueueError
from worker.jobs.process import Sandpiper, end_broken_read
from worker.queue.broker import Publisher, find_broker_failure, make_readiness_check, require_login
from worker.queue.messages import TASK
from worker.settings import Settings
from worker.turns.parts import Deps

WRONG = "of-no-worth-at-all"
WORK = """
import sys
from worker import app
from worker.queue import process
from worker.settings import Settings

process.run_worker(app.build_app(Settings(broker=sys.argv[1]), dict), 1, 30.0)
"""


def no_deps() -> Deps:
    raise AssertionError("only a worker needs them")


def build(url: str) -> Sandpiper:
    return app.build_app(Settings(broker=url), no_deps)


@pytest.fixture(params=["redis_url", "rabbit_url"])
def refused_url(request: pytest.FixtureRequest) -> str:
    """A real broker's URL with a user whom it does not let in."""
    parts = urlsplit(str(request.getfixturevalue(request.param)))
    return parts._replace(netloc=f"guest:{WRONG}@{parts.hostname}:{parts.port}").geturl()


def test_a_wrong_password_is_told_with_the_broker_and_without_the_password(
    refused_url: str,
) -> None:
    failure = find_broker_failure(build(refused_url))
    assert failure is not None
    assert not failure.transient
    assert f"://127.0.0.1:{urlsplit(refused_url).port}/" in str(failure)
    assert "refuses this login" in str(failure)
    assert WRONG not in str(failure)
    with pytest.raises(QueueError, match="set SANDPIPER_BROKER"):
        require_login(build(refused_url))


def test_strangers_are_not_told_why_it_is_not_ready(refused_url: str) -> None:
    assert make_readiness_check(build(refused_url))() == "the broker does not answer"


def test_a_broker_that_lets_in_has_no_failure(redis_url: str, rabbit_url: str) -> None:
    for url in (redis_url, rabbit_url, "memory://"):
        assert find_broker_failure(build(url)) is None


@pytest.mark.parametrize(
    ("there", "asked"), [("quorum", "server"), ("quorum", "classic"), ("", "quorum")]
)
def test_a_queue_of_another_kind_is_refused_at_start_with_what_to_do(
    rabbit_url: str, there: str, asked: str
) -> None:
    settings = Settings.model_validate({"broker": rabbit_url, "broker_queue": asked})
    built = app.build_app(settings, no_deps)
    require_login(built)
    arguments = {"x-queue-type": there} if there else None
    with kombu.Connection(rabbit_url) as connection:
        channel = connection.channel()
        with pytest.raises(amqp.NotFound):  # the look itself makes none
            channel.queue_declare(QUEUE, passive=True)
        connection.channel().queue_declare(
            QUEUE, durable=True, auto_delete=False, arguments=arguments
        )
    with pytest.raises(QueueError, match="set broker_queue to the kind that it has") as refused:
        require_login(built)
    assert "inequivalent arg 'x-queue-type' for queue 'celery'" in str(refused.value)
    assert "guest" not in str(refused.value)
    with closing(Publisher(built, TASK)) as publish, pytest.raises(QueueError) as told:
        publish.count_waiting()
    assert "set broker_queue to the kind that it has" in str(told.value)
    fitting = {"broker": rabbit_url, "broker_queue": there or "server"}
    require_login(app.build_app(Settings.model_validate(fitting), no_deps))


@pytest.mark.parametrize("kind", ["server", "classic", "quorum"])
def test_each_kind_of_queue_gets_messages_by_the_same_way(kind: str) -> None:
    usual = build("amqp://there").amqp.default_queue
    settings = Settings.model_validate({"broker": "amqp://there", "broker_queue": kind})
    queue = app.build_app(settings, no_deps).amqp.default_queue
    assert (queue.name, queue.exchange, queue.routing_key) == (
        usual.name,
        usual.exchange,
        usual.routing_key,
    )
    wanted = None if kind == "server" else {"x-queue-type": kind}
    assert queue.queue_arguments == wanted


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_away_may_come_back(scheme: str) -> None:
    away = build(f"{scheme}://127.0.0.1:9/0")
    failure = find_broker_failure(away)
    assert failure is not None
    assert failure.transient
    assert "127.0.0.1:9/" in str(failure)
    require_login(away)


@pytest.mark.slow
def test_a_receiver_that_is_refused_ends_soon_and_in_one_line(
    refused_url: str, tmp_path: Path
) -> None:
    env = {
        "SANDPIPER_BROKER": refused_url,
        "SANDPIPER_STORE": f"file://{tmp_path}/store",
        "GITLAB_WEBHOOK_SECRET": "a-secret-of-no-worth-at-all",
    }
    began = time.monotonic()
    done = forks.run((forks.SANDPIPER, "serve", "--port", "0"), env, tmp_path, 60)
    assert time.monotonic() - began < 20
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("sandpiper: the broker ")
    assert "set SANDPIPER_BROKER" in line


@pytest.mark.slow
def test_a_worker_that_is_refused_ends_soon_and_says_so(refused_url: str) -> None:
    words = [sys.executable, "-c", WORK, refused_url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "refuses this login" in done.stderr.splitlines()[-1]
    assert "celery" not in done.stderr
    assert WRONG not in done.stderr


@pytest.mark.slow
def test_a_redis_lost_in_the_middle_of_a_read_ends_no_worker(tmp_path: Path) -> None:
    """What Celery does after it has lost the connection, and a run that ends later."""
    with running_redis(tmp_path, free_port()) as redis:
        connection = build(redis.url).connection_for_read()
        runs = connection.SimpleQueue("runs")
        runs.put({})
        message = runs.get(timeout=10)
        other = connection.SimpleQueue("other", channel=connection.channel())
        with suppress(Empty):  # both channels begin a read
            other.get(timeout=0.1)
        redis.stop(signal.SIGKILL)
        end_broken_read(runs.channel, connection)
        connection.collect()
        connection.close()
        redis.start()
        message.ack()
        runs.channel.pool.disconnect()
