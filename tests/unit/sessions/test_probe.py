"""What a probe says of a store that is away: never that the store has no conditional writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import S3Server, running_s3
from worker.errors import StoreError
from worker.sessions.bucket import S3Store
from worker.sessions.folder import Folder
from worker.sessions.objects import Stored
from worker.sessions.store import SessionStore


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as running:
        yield running


@pytest.mark.attack("store")
@pytest.mark.parametrize("kind", [*OddS3, "down"])
def test_a_gateway_that_answers_for_s3_is_no_store_without_conditions(
    server: S3Server, kind: str
) -> None:
    with S3Gateway(server.endpoint) as gateway:
        store = S3Store(server.bucket(), "p", gateway.url, session=server.session, attempts=1)
        store.probe()
        odd = kind in list(OddS3)
        spoilt = gateway.answering(OddS3(kind)) if odd else gateway.refusing()
        with spoilt, pytest.raises(StoreError) as told:
            store.probe()
        assert told.value.transient
        assert "honours" not in str(told.value)
        store.probe()


class Confused(Folder):
    """A store in whose place something else answers."""

    def __init__(self, folder: Path, creates: bool, reads: bytes | None) -> None:
        super().__init__(folder, 1.0)
        self._creates, self._reads = creates, reads

    def create(self, name: str, content: bytes) -> bool:
        return self._creates

    def read(self, name: str, limit: int) -> Stored | None:
        return None if self._reads is None else Stored(self._reads, "a-version")


@pytest.mark.attack("store")
@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize("reads", [None, b"<html>", b""])
def test_answers_that_contradict_each_other_are_an_outage(
    tmp_path: Path, creates: bool, reads: bytes | None
) -> None:
    with pytest.raises(StoreError, match="is the store up") as told:
        SessionStore(Confused(tmp_path, creates, reads)).probe()
    assert told.value.transient
