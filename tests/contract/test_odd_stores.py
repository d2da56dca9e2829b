"""A gateway answers 200 in S3's place: nothing stored is lost for it, or believed to be absent."""

from collections.abc import Callable, Iterator

import pytest

from tests.fakes import HandClock
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import S3Server
from worker.conversation.context import SessionKey
from worker.conversation.triggers import PipelineFailed
from worker.errors import StoreError
from worker.queue.journal import FOLDER, Journal, name_entry
from worker.queue.leases import Leases, Registration
from worker.sessions.bucket import S3Store
from worker.sessions.checked import SECOND_LOOK
from worker.sessions.store import Claim
from worker.turns.day_budget import DayBudget

pytestmark = pytest.mark.attack("odd answers")

KEY = SessionKey(7, 42, "0123456789abcdef0123")
TRIGGERS = [PipelineFailed(7, number, f"{number:040x}", "main", 42, 7) for number in range(1, 7)]
EVERYTHING = [(kind, method) for kind in OddS3 for method in ("GET", "")]


class Between:
    """A store behind a gateway, and the same one without it."""

    def __init__(self, server: S3Server, gateway: S3Gateway) -> None:
        bucket = server.bucket()
        self.gateway, self.clock = gateway, HandClock()
        self.store = S3Store(bucket, "p", gateway.url, session=server.session, attempts=1)
        self.truth = S3Store(bucket, "p", server.endpoint, session=server.session, attempts=1)
        self.journal = self.open_journal(self.store)

    def open_journal(self, store: S3Store) -> Journal:
        return Journal(store.records, Leases(store, self.clock), self.clock)


@pytest.fixture
def between(s3_server: S3Server) -> Iterator[Between]:
    with S3Gateway(s3_server.endpoint) as gateway:
        yield Between(s3_server, gateway)


def attempt(task: Callable[[], object]) -> object:
    """What it returns, or the error, if it says to try again."""
    try:
        return task()
    except StoreError as error:
        if not error.transient:
            raise
        return error


@pytest.mark.parametrize(("kind", "method"), EVERYTHING)
def test_no_accepted_trigger_is_lost_while_a_gateway_answers_wrongly(
    between: Between, kind: OddS3, method: str
) -> None:
    for trigger in TRIGGERS:
        between.journal.add_trigger(trigger)
    names = [name_entry(trigger) for trigger in TRIGGERS]
    with between.gateway.answering(kind, method):
        for wait in (0.0, SECOND_LOOK / 2, SECOND_LOOK * 2):
            between.clock.time += wait
            for name in names:
                attempt(lambda name=name: between.journal.read_entry(name))  # type: ignore[misc]
            for trigger in TRIGGERS:
                again = attempt(
                    lambda trigger=trigger: between.journal.take_trigger(trigger, "w/1")  # type: ignore[misc]
                )
                assert isinstance(again, StoreError)
    assert between.gateway.given
    truth = between.open_journal(between.truth)
    for name, trigger in zip(names, TRIGGERS, strict=True):
        stored = truth.read_entry(name)
        assert stored is not None
        assert stored.entry.trigger == trigger


@pytest.mark.parametrize("kind", list(OddS3))
def test_a_list_that_is_none_does_not_say_that_there_is_nothing(
    between: Between, kind: OddS3
) -> None:
    between.store.commit_turn(KEY, 0, b"{}")
    with between.gateway.answering(kind, "GET"):
        for task in (
            lambda: between.store.find_latest_turn(KEY),
            lambda: list(between.store.list_sessions()),
            lambda: list(between.journal.list_names()),
        ):
            assert isinstance(attempt(task), StoreError)
    assert between.store.find_latest_turn(KEY) == 0


@pytest.mark.parametrize("kind", [OddS3.PAGE, OddS3.EMPTY])
def test_nothing_is_taken_for_written_that_s3_has_not_taken(between: Between, kind: OddS3) -> None:
    claim = Claim("w/1", "t", 1e12)
    with between.gateway.answering(kind, "PUT"):
        for task in (
            lambda: between.store.commit_turn(KEY, 0, b"{}"),
            lambda: between.store.claim_turn(KEY, 0, claim, 0.0),
            lambda: between.store.write_checkpoint(KEY, 0, b"{}"),
            lambda: between.journal.add_trigger(TRIGGERS[0]),
        ):
            assert isinstance(attempt(task), StoreError)
    assert between.truth.find_latest_turn(KEY) is None
    assert not list(between.truth.records.list_names(FOLDER))


@pytest.mark.parametrize("kind", list(OddS3))
def test_neither_a_worker_nor_its_claim_nor_the_day_is_given_up_for_an_odd_answer(
    between: Between, kind: OddS3
) -> None:
    ours = Registration("w1", between.store.records, between.clock)
    between.store.claim_turn(KEY, 0, Claim("w1/1", "t", 1e12), 0.0)
    kept = DayBudget(between.store.records, between.clock, 1.0)
    kept.add_cost(7, "abcd", 0, 5.0)
    with between.gateway.answering(kind):
        assert isinstance(attempt(ours.send_heartbeat), StoreError)
        assert isinstance(attempt(lambda: between.store.find_holder(KEY, 0, 1.0)), StoreError)
        assert isinstance(attempt(lambda: kept.explain_used_up(7)), StoreError)
        kept.add_cost(7, "bcde", 0, 5.0)
    assert not ours.is_lost
    ours.send_heartbeat()
    assert between.store.find_holder(KEY, 0, 1.0) == Claim("w1/1", "t", 1e12)
    assert kept.explain_used_up(7)


@pytest.mark.parametrize("kind", list(OddS3))
def test_files_that_came_from_elsewhere_are_not_unpacked(between: Between, kind: OddS3) -> None:
    between.store.write_files(KEY, 0, [b"files of the sandbox"])

    def read() -> bytes:
        files = between.store.open_files(KEY, 0)
        assert files is not None
        with files as chunks:
            return b"".join(chunks)

    with between.gateway.answering(kind, "GET"):
        assert isinstance(attempt(read), StoreError)
    assert read() == b"files of the sandbox"


def test_what_older_versions_have_written_is_read_without_a_hash_of_ours(
    between: Between, s3_server: S3Server
) -> None:
    between.journal.add_trigger(TRIGGERS[0])
    name = name_entry(TRIGGERS[0])
    (bucket,) = {between.truth.records.describe_place("").split("/")[2]}
    body = s3_server.client.get_object(Bucket=bucket, Key=f"p/{name}")["Body"].read()
    s3_server.client.put_object(Bucket=bucket, Key=f"p/{name}", Body=body)
    assert between.journal.read_entry(name) is not None
    between.gateway.answer_next(OddS3.HALF, "GET", "/journal/")
    assert isinstance(attempt(lambda: between.journal.read_entry(name)), StoreError)
    assert between.journal.read_entry(name) is not None
