"""A store that is away, slow or full: the run goes on, and what was lost is said."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow import crew
from tests.flow.product import Product
from tests.flow.proxy import Proxy
from tests.stores import CREDENTIALS, S3Server
from worker.lab.script import Asked, Say
from worker.sessions.folder import FolderStore
from worker.sessions.store import SessionStore

pytestmark = pytest.mark.usefixtures("bubblewrap")

AWAY = 1.0
"""Seconds; stands for two minutes: what waits is patient for three (leases.OUTAGE)."""

PLACES = [rb"PUT .*/checkpoint\.json", rb"PUT .*/sandbox\.tar\.gz", rb"PUT .*/context\.json"]


@pytest.fixture
def between(s3_server: S3Server) -> Iterator[Proxy]:
    """What stands between the worker and the server."""
    with Proxy(("127.0.0.1", int(s3_server.endpoint.rpartition(":")[2]))) as proxy:
        yield proxy


def in_a_bucket(made: Product, s3: S3Server, between: Proxy) -> SessionStore:
    """The product keeps its sessions behind the proxy; the test looks past it."""
    bucket = s3.bucket()
    made.env |= CREDENTIALS | {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": between.url,
        "SANDPIPER_STORE": f"s3://{bucket}/sandpiper",
    }
    return s3.store(bucket, "sandpiper")


def test_a_bucket_that_goes_away_at_a_checkpoint_at_the_files_and_at_the_commit_costs_nothing(
    tmp_path: Path, redis_url: str, s3_server: S3Server, between: Proxy
) -> None:
    with crew.hasty(tmp_path, crew.script(), redis_url) as made:
        store = in_a_bucket(made, s3_server, between)
        for place in PLACES:
            between.away_at(place, AWAY)
        crew.fails(made, store=store)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(store), "it did not end")
        assert between.struck == PLACES
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body
        assert len(made.model.requests) == 3
        assert [name for name in store.records.list_names("sessions/") if name.endswith(".tar.gz")]
        crew.assert_nothing_left(made, store)


def test_a_slow_bucket_is_waited_for_and_nobody_is_taken_for_dead(
    tmp_path: Path, redis_url: str, s3_server: S3Server, between: Proxy
) -> None:
    with crew.hasty(tmp_path, crew.script(), redis_url) as made:
        store = in_a_bucket(made, s3_server, between)
        between.delay = 0.03
        crew.fails(made, store=store)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(store), "it did not end")
        assert "dead" not in worker.log.read_text()
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body
        assert len(made.model.requests) == 3
        crew.assert_nothing_left(made, store)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk of a known size")
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], check=False
    )
    if made.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_keeps_the_finding_until_there_is_room(
    tmp_path: Path, redis_url: str, small: Path
) -> None:
    ballast = small / "ballast"

    def fill(asked: Asked) -> Say:
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        return crew.conclude(asked)

    with crew.hasty(tmp_path, crew.script(last=fill), redis_url) as made:
        made.env["SANDPIPER_STORE"] = f"file://{small}/store"
        store = FolderStore(small / "store")
        crew.fails(made, store=store)
        with crew.at_work(made) as worker:
            worker.until(lambda: len(made.model.answers) == 3, "the model was not asked")
            worker.until(lambda: "the disk is full" in worker.log.read_text(), "it was not full")
            ballast.unlink()
            worker.until(lambda: crew.ended(store), "it did not end")
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body
        assert len(made.model.requests) == 3
        crew.assert_nothing_left(made, store)
