"""Brokers behind TLS, several Redis servers: what is used, and what is refused in plain words."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from tests.brokers import build_app, make_tls_options, round_trip, running_redis
from tests.certificates import DAY, Authority, Server, tls_in_front_of, trust_nobody
from tests.flow.product import free_port
from worker.conversation.triggers import Reacted
from worker.errors import ConfigError, QueueError, StoreError
from worker.queue.broker import Publisher, find_broker_failure, require_login
from worker.queue.messages import TASK
from worker.sessions.folder import FolderStore
from worker.sessions.table import guard_store
from worker.settings import Settings


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    trust_nobody(monkeypatch)
    return Authority(tmp_path)


@pytest.fixture(params=["redis", "rabbit"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Server], str]]:
    """Makes the address of a real broker behind TLS, with this certificate."""
    with ExitStack() as stack:

        def start(server: Server) -> str:
            if request.param == "redis":
                return stack.enter_context(_secured_redis(tmp_path, server))
            plain = urlsplit(str(request.getfixturevalue("rabbit_url")))
            port = stack.enter_context(tls_in_front_of(plain.port or 5672, server))
            user = f"{plain.username}:{plain.password}@" if plain.username else ""
            return f"amqps://{user}localhost:{port}{plain.path}"

        yield start


@contextmanager
def _secured_redis(folder: Path, server: Server, *options: str) -> Iterator[str]:
    port = free_port()
    with running_redis(folder, free_port(), *make_tls_options(port, server), *options):
        yield f"rediss://localhost:{port}/0"


@pytest.mark.attack("broker")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "named"),
    [
        (
            lambda made: Authority(made.folder, "stranger").sign(),
            "signed by an authority that is not trusted here; let broker_tls.ca_file",
        ),
        (lambda made: made.sign(own=True), "signed by itself and not trusted; let broker_tls"),
        (lambda made: made.sign(lasts=-DAY), "has expired; renew it"),
        (lambda made: made.sign("elsewhere.example.com"), "for another host"),
    ],
)
def test_a_broker_whose_certificate_does_not_hold_is_refused_with_what_to_do(
    sign: Callable[[Authority], Server],
    named: str,
    secured: Callable[[Server], str],
    authority: Authority,
) -> None:
    built = build_app(secured(sign(authority)), broker_tls={"ca_file": authority.ca_file})
    failure = find_broker_failure(built)
    assert failure is not None
    assert not failure.transient
    assert named in str(failure)
    with pytest.raises(QueueError, match="its certificate"):
        require_login(built)
    with pytest.raises(QueueError):
        Publisher(built, TASK)(Reacted(1, 2, 3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["broker_tls.ca_file", "SSL_CERT_FILE"])
def test_a_certificate_of_a_named_authority_holds(
    by: str,
    secured: Callable[[Server], str],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls = {"ca_file": authority.ca_file} if by != "SSL_CERT_FILE" else {}
    if not tls:
        monkeypatch.setenv("SSL_CERT_FILE", authority.ca_file)
    built = build_app(secured(authority.sign()), broker_tls=tls)
    assert find_broker_failure(built) is None
    assert round_trip(built)


@pytest.mark.slow
def test_who_checks_no_certificate_says_so(
    secured: Callable[[Server], str], authority: Authority
) -> None:
    built = build_app(
        secured(authority.sign("elsewhere.example.com")), broker_tls={"verify": False}
    )
    assert find_broker_failure(built) is None
    assert round_trip(built)


@pytest.mark.slow
def test_a_store_that_redis_guards_checks_its_certificate_too(
    tmp_path: Path, authority: Authority
) -> None:
    settings = Settings.model_validate({"broker_tls": {"ca_file": authority.ca_file}})
    with _secured_redis(tmp_path, authority.sign()) as url:
        store = FolderStore(tmp_path / "store")
        guarded = guard_store(store, url, settings.broker_tls.get_redis_options())
        assert guarded.records.create("journal/1/2/x.json", b"{}")
        unknown = guard_store(store, url, Settings().broker_tls.get_redis_options())
        with pytest.raises(StoreError, match="signed by an authority that is not trusted here"):
            unknown.records.read("journal/1/2/x.json", 10)


def test_a_file_of_certificates_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"broker_tls\.ca_file: there is no file /no/such"):
        build_app("rediss://localhost/0", broker_tls={"ca_file": "/no/such"})


@pytest.mark.parametrize(
    "broker",
    [
        "redis://one:6379/0;redis://two:6379/0",
        "rediss://one:6379/0;rediss://two:6379/0",
        "redis://one:6379,two:6379/0",
        "redis://user:word@one,two/0",
    ],
)
def test_several_redis_servers_are_refused_with_what_to_write_instead(broker: str) -> None:
    with pytest.raises(ValidationError, match=r"expected one Redis.*sentinel://"):
        Settings(broker=broker)


@pytest.mark.parametrize("broker", ["amqp://one//;redis://two/0", "redis://one/0;kafka://two"])
def test_brokers_of_two_kinds_are_none(broker: str) -> None:
    with pytest.raises(ValidationError, match="expected memory://"):
        Settings(broker=broker)


@pytest.mark.slow
def test_a_node_of_a_cluster_is_refused_in_plain_words(tmp_path: Path) -> None:
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with (
        running_redis(tmp_path, free_port(), *options) as node,
        pytest.raises(QueueError, match="Redis Cluster, which cannot be a queue"),
    ):
        require_login(build_app(node.url))


@pytest.mark.slow
def test_a_replica_is_named_as_one(tmp_path: Path) -> None:
    with (
        running_redis(_made(tmp_path / "one"), free_port()) as first,
        running_redis(
            *(_made(tmp_path / "two"), free_port()),
            *("--replicaof", f"127.0.0.1 {first.port}"),
        ) as second,
    ):
        failure = find_broker_failure(build_app(second.url))
        assert failure is not None
        assert failure.transient, "a Redis that is being replaced may be one for a moment"
        assert "is a replica of another Redis" in str(failure)
        assert find_broker_failure(build_app(first.url)) is None


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
