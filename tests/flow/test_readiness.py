"""A worker is ready while it takes messages from its broker, and only then."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers import RedisServer, running_redis
from tests.flow import crew
from tests.flow.product import Process, free_port
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import CREDENTIALS, running_s3


def test_a_worker_is_ready_only_with_a_broker_and_lives_on_without(tmp_path: Path) -> None:
    place, ready = tmp_path / "redis", tmp_path / "ready"
    place.mkdir()
    ready.touch()
    broker = RedisServer(place, free_port())
    with (
        crew.hasty(tmp_path, crew.script(), broker.url) as made,
        made.process("worker", "--metrics-port", "0", "--ready-file", str(ready)) as worker,
    ):
        worker.until(lambda: "does not answer: no" in worker.log.read_text(), "it misses no broker")
        assert not ready.exists(), "what another process has left says nothing"
        with running_redis(place, broker.port) as running:
            worker.until(ready.exists, "not ready")
            first = ready.stat().st_mtime_ns
            worker.until(lambda: ready.stat().st_mtime_ns > first, "not renewed")
            running.stop(signal.SIGKILL)
            worker.until(lambda: not ready.exists(), "ready without a broker")
            assert "is back" not in worker.log.read_text()
            running.start()
            worker.until(ready.exists, "not ready again")
            worker.until(lambda: "the broker is back" in worker.log.read_text(), "not said")
            end(worker)
    assert not ready.exists()
    lines = worker.log.read_text().splitlines()
    assert [line for line in lines if not line.strip()] == []
    assert lines[-1].endswith("shutdown: the runs of this worker end after their current step")


@pytest.mark.parametrize("kind", [OddS3.PAGE, OddS3.EMPTY])
def test_a_worker_waits_for_an_s3_for_which_somebody_else_answers(
    kind: OddS3, tmp_path: Path, redis_url: str
) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    with (
        running_s3() as s3,
        S3Gateway(s3.endpoint) as gateway,
        crew.hasty(tmp_path, crew.script(), redis_url) as made,
    ):
        made.env |= {**CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1"}
        made.env["AWS_ENDPOINT_URL_S3"] = gateway.url
        made.env["SANDPIPER_STORE"] = f"s3://{s3.bucket()}/team"
        with ExitStack() as spoilt:
            spoilt.enter_context(gateway.answering(kind))
            with made.process(
                "worker", "--metrics-port", "0", "--ready-file", str(ready)
            ) as worker:
                said = "the store cannot be used yet; next look in"
                worker.until(lambda: worker.log.read_text().count(said) > 1, "it does not wait")
                assert not ready.exists()
                spoilt.close()
                worker.until(ready.exists, "not ready")
                end(worker)


def end(worker: Process) -> None:
    """Let the worker end while it has its broker."""
    worker.popen.terminate()
    assert worker.popen.wait(30) == 0
