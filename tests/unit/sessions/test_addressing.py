"""Where a server expects the bucket's name: found out, set, and named where it is set wrongly."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.certificates import trust_nobody
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import HOST, Naming, S3Gateway
from tests.stores import CREDENTIALS, S3Server, running_s3
from worker.cli.doctor import make_installation
from worker.doctor.stores import check_store
from worker.errors import StoreError
from worker.sessions.table import open_store
from worker.settings import Settings
from worker.wiring import open_session_store
from worker.wiring.stores import PATIENCE, SECOND_LOOK, wait_for_store


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as running:
        yield running


Behind = Callable[[Naming], Settings]


@pytest.fixture
def behind(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """Makes the settings for a store on a server that expects names in one place only."""
    trust_nobody(monkeypatch)
    for name, value in {**CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def start(naming: Naming) -> Settings:
            gateway = stack.enter_context(S3Gateway(server.endpoint, naming))
            monkeypatch.setenv("HTTP_PROXY", gateway.url)
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            bucket = server.bucket()
            return Settings(store=f"s3://{bucket}/team", s3_endpoint=f"http://{HOST}")

        yield start


NAMINGS = [
    Naming("path", "NoSuchBucket"),
    Naming("path", "list"),
    Naming("virtual", "NoSuchBucket"),
    Naming("virtual", "SecondLevelDomainForbidden"),
    Naming("virtual", "PathStyleDomainForbidden"),
    Naming("virtual", "list"),
]


@pytest.mark.parametrize("naming", NAMINGS, ids=str)
def test_the_place_of_the_bucket_s_name_is_found_out(naming: Naming, behind: Behind) -> None:
    store = open_session_store(behind(naming))
    store.probe()
    key = store.read_installation_key()
    assert store.read_installation_key() == key


@pytest.mark.parametrize("naming", NAMINGS, ids=str)
def test_one_that_is_set_wrongly_is_named_by_the_doctor(naming: Naming, behind: Behind) -> None:
    wrong = "path" if naming.form == "virtual" else "virtual"
    settings = behind(naming).model_copy(update={"s3_addressing": wrong})
    (line,) = check_store(make_installation(settings))
    assert line.status == "failed"
    assert line.advice.endswith(f"set s3_addressing: {naming.form}")
    right = settings.model_copy(update={"s3_addressing": naming.form})
    (line,) = check_store(make_installation(right))
    assert line.status == "ok"


def test_a_server_s_own_words_for_it_lead_to_the_setting(behind: Behind) -> None:
    settings = behind(Naming("virtual", "SecondLevelDomainForbidden"))
    with pytest.raises(StoreError, match="set s3_addressing to auto or virtual"):
        open_store(settings.store, settings.s3_endpoint).probe()


def test_a_bucket_that_is_nowhere_is_named_as_that(behind: Behind) -> None:
    settings = behind(Naming("virtual")).model_copy(update={"store": "s3://no-such-bucket/x"})
    with pytest.raises(StoreError, match="NoSuchBucket"):
        open_session_store(settings)


# ------------------------------------------------------------------------------------- at the start


class Hours:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.passed = 0.0

    def sleep(self, seconds: float) -> None:
        self.passed += seconds

    def now(self) -> float:
        return self.passed


@pytest.mark.attack("store")
@pytest.mark.parametrize("kind", [*OddS3, "down"])
def test_odd_answers_at_the_start_are_waited_for(
    kind: str, server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Hours()
    with S3Gateway(server.endpoint) as gateway, ExitStack() as spoilt:
        store = S3Server(gateway.url).store(server.bucket())
        odd = kind in list(OddS3)
        spoilt.enter_context(gateway.answering(OddS3(kind)) if odd else gateway.refusing())

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if clock.passed > 60:
                spoilt.close()

        assert len(wait_for_store(store.read_installation_key, sleep, clock.now)) == 64
    assert 60 < clock.passed < PATIENCE
    assert all("the store cannot be used yet; next look in" in line for line in caplog.messages)
    assert len(caplog.messages) > 3


def test_a_store_that_stays_away_ends_the_start_with_its_error(server: S3Server) -> None:
    clock = Hours()
    with S3Gateway(server.endpoint) as gateway, gateway.refusing():
        store = S3Server(gateway.url).store(server.bucket())
        with pytest.raises(StoreError, match="cannot read s3://"):
            wait_for_store(store.read_installation_key, clock.sleep, clock.now)
    assert PATIENCE <= clock.passed < PATIENCE + 30


def test_a_wrong_bucket_ends_the_start_with_its_error_after_a_second_look(server: S3Server) -> None:
    clock, store = Hours(), server.store("no-such-bucket")
    with pytest.raises(StoreError, match=r"NoSuchBucket.*create the bucket"):
        wait_for_store(store.probe, clock.sleep, clock.now)
    assert SECOND_LOOK <= clock.passed < SECOND_LOOK + 10


def test_what_is_sure_to_last_is_not_waited_for(tmp_path: Path) -> None:
    clock = Hours()

    def look() -> None:
        raise StoreError(f"{tmp_path} ignores conditional writes")

    with pytest.raises(StoreError, match="ignores"):
        wait_for_store(look, clock.sleep, clock.now)
    assert clock.passed == 0
