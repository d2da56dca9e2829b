"""A proxy answers in GitLab's place, a gateway in S3's: one final note, nothing paid for twice."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.flow import crew
from tests.simulators.gitlab import OddGitLab
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import CREDENTIALS, S3Server
from worker.lab.script import Asked, Say

pytestmark = [
    pytest.mark.usefixtures("bubblewrap"),
    pytest.mark.attack("odd answers"),
    pytest.mark.slow,
]

FOR_A_WHILE = 3.0
PATIENCE = 150.0


def strike(trouble: AbstractContextManager[None]) -> None:
    """Something else answers from now on, for a while."""
    stack = ExitStack()
    stack.enter_context(trouble)
    threading.Timer(FOR_A_WHILE, stack.close).start()


@pytest.mark.parametrize("kind", list(OddGitLab))
def test_odd_answers_at_the_first_look_and_at_the_result_cost_nothing(
    tmp_path: Path, redis_url: str, kind: OddGitLab
) -> None:
    def last(asked: Asked) -> Say:
        strike(made.gitlab.answering(kind))
        return crew.conclude(asked)

    with (
        crew.hasty(tmp_path, crew.script(last=last), redis_url) as made,
        crew.at_work(made) as worker,
    ):
        worker.until(lambda: any((tmp_path / "store" / "workers").glob("*")), "not at work")
        strike(made.gitlab.answering(kind))
        crew.fails(made)
        worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end", within=PATIENCE)
    (note,) = made.notes()
    assert "The command ran 1 times." in note.body
    assert len(made.model.requests) == 3
    assert len(made.gitlab.given) > 1
    crew.assert_nothing_left(made, crew.folder_store(made))


@pytest.fixture
def gateway(s3_server: S3Server) -> Iterator[S3Gateway]:
    with S3Gateway(s3_server.endpoint) as between:
        yield between


@pytest.mark.parametrize("kind", list(OddS3))
def test_a_gateway_in_front_of_the_bucket_costs_no_trigger_and_no_finding(
    tmp_path: Path, redis_url: str, s3_server: S3Server, gateway: S3Gateway, kind: OddS3
) -> None:
    def second(asked: Asked) -> Say:
        strike(gateway.answering(kind))
        return crew.conclude(asked)

    with crew.hasty(tmp_path, crew.script(last=second), redis_url) as made:
        bucket = s3_server.bucket()
        made.env |= CREDENTIALS | {
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": gateway.url,
            "SANDPIPER_STORE": f"s3://{bucket}/sandpiper",
        }
        store = s3_server.store(bucket, "sandpiper")
        crew.fails(made, store=store)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(store), "it did not end", within=PATIENCE)
        assert gateway.given
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body
        assert len(made.model.requests) == 3
        assert [name for name in store.records.list_names("") if "/kept/" in name] == []
