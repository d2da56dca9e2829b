"""One private authority is enough for every connection; what is not trusted is named as that."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from tests.certificates import DAY, LOCAL, Authority, Server, tls_in_front_of, trust_nobody
from tests.stores import CREDENTIALS, S3Server, running_s3
from worker.clock import SystemClock
from worker.doctor.gitlab import Client
from worker.errors import ConfigError, SandpiperError
from worker.lab.loopback import Loopback
from worker.models import connection
from worker.models.google_auth import _Fetch
from worker.models.table import PROVIDERS
from worker.sessions.bucket import S3Store
from worker.sources.web import WebReader
from worker.telemetry.traces import open_exporter
from worker.transport.failures import explain_tls_failure, find_unusable_file
from worker.webhook.id_tokens import fetch_keys
from worker.wiring import load_settings

ANSWER = {"version": "18.0.0", "keys": [], "id": 1}


class Anything(BaseModel):
    """Any JSON object."""


async def answer(request: Request) -> Response:
    await request.body()
    return Response(json.dumps(ANSWER), media_type="application/json")


@pytest.fixture(scope="module")
def plain() -> Iterator[int]:
    """The port of a server that answers everything with JSON."""
    server = Loopback("anything", answer)
    url = server.start()
    yield urlsplit(url).port or 0
    server.stop()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as running:
        yield running


def ask_gitlab(url: str) -> None:
    Client(url, "token", "read").request("get", "/version", "GitLab's version")


def ask_model(url: str) -> None:
    provider = PROVIDERS["anthropic"]
    made = connection.Connection(
        *("anthropic/one", provider, url, "key", {}),
        clock=SystemClock(),
        transport=None,
        timeout=20,
    )
    try:
        made.send(httpx.URL(url), b"{}", None, 10_000)
    finally:
        made.close()


def ask_google(url: str) -> None:
    _Fetch()(url)


def fetch_gitlabs_keys(url: str) -> None:
    fetch_keys(url)


def ask_konflux(url: str) -> None:
    reader = WebReader(url, "Konflux")
    with closing(reader._http):
        reader.one("/x", Anything, "it")


def send_spans(url: str) -> None:
    """Raises what the exporter has logged, since it goes on whatever happens."""
    with heard("opentelemetry") as lines:
        provider: TracerProvider = open_exporter(url)
        provider.get_tracer("t").start_span("one").end()
        provider.force_flush()
        provider.shutdown()
    if lines:
        raise SandpiperError(" ".join(lines))


class heard(logging.Handler):
    """The lines that a logger is given until the block ends."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._logger = logging.getLogger(name)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> list[str]:
        self._logger.addHandler(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


CLIENTS = [ask_gitlab, ask_model, ask_google, fetch_gitlabs_keys, ask_konflux]


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is trusted but the usual authorities, until a test says so."""
    trust_nobody(monkeypatch)
    connection.get_ssl_context.cache_clear()
    yield
    connection.get_ssl_context.cache_clear()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize("ask", [*CLIENTS, send_spans])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_one_private_authority_is_enough_for_every_connection(
    variable: str,
    ask: Callable[[str], None],
    plain: int,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, trusting(variable, authority))
    with tls_in_front_of(plain, authority.sign()) as port:
        ask(f"https://localhost:{port}")


def trusting(variable: str, authority: Authority) -> str:
    return authority.ca_file if variable == "SSL_CERT_FILE" else authority.make_folder()


def test_one_private_authority_is_enough_for_s3(
    s3: S3Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca_file)
    with tls_in_front_of(urlsplit(s3.endpoint).port or 0, authority.sign()) as port:
        open_s3(s3.bucket(), port, monkeypatch).probe()


def test_what_boto3_is_told_by_its_own_variable_goes_before(
    s3: S3Server, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", Authority(tmp_path, "other").ca_file)
    monkeypatch.setenv("AWS_CA_BUNDLE", authority.ca_file)
    with tls_in_front_of(urlsplit(s3.endpoint).port or 0, authority.sign()) as port:
        open_s3(s3.bucket(), port, monkeypatch).probe()


def open_s3(bucket: str, port: int, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return S3Store(bucket, "p", f"https://localhost:{port}", attempts=1)


UNTRUSTED = [
    (lambda made: Authority(made.folder, "stranger").sign(), "signed by an authority that is not"),
    (lambda made: made.sign(own=True), "signed by itself and not trusted"),
    (lambda made: made.sign(lasts=timedelta(0) - DAY), "has expired: renew it"),
    (lambda made: made.sign("elsewhere.example.com"), "is for another host"),
]


@pytest.mark.attack("transport")
@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize(("sign", "named"), UNTRUSTED)
def test_a_certificate_that_is_not_trusted_is_named_as_that(
    sign: Callable[[Authority], Server],
    named: str,
    ask: Callable[[str], None],
    plain: int,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca_file)
    with (
        tls_in_front_of(plain, sign(authority)) as port,
        pytest.raises(Exception, match=named) as told,
    ):
        ask(f"https://localhost:{port}")
    assert "CERTIFICATE_VERIFY_FAILED" not in str(told.value)


@pytest.mark.slow
def test_a_collector_that_is_not_trusted_is_named_as_that(plain: int, authority: Authority) -> None:
    with (
        tls_in_front_of(plain, authority.sign()) as port,
        pytest.raises(
            SandpiperError,
            match=r"from https://localhost:\d+/v1/traces: its certificate is signed by an auth",
        ),
    ):
        send_spans(f"https://localhost:{port}")


@pytest.mark.attack("transport")
@pytest.mark.parametrize(("sign", "named"), UNTRUSTED)
def test_a_certificate_of_s3_that_is_not_trusted_is_named_as_that(
    sign: Callable[[Authority], Server],
    named: str,
    s3: S3Server,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca_file)
    with (
        tls_in_front_of(urlsplit(s3.endpoint).port or 0, sign(authority)) as port,
        pytest.raises(SandpiperError, match=named) as told,
    ):
        open_s3(s3.bucket(), port, monkeypatch).probe()
    assert told.value.transient
    assert "CERTIFICATE_VERIFY_FAILED" not in str(told.value)


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_server_that_speaks_no_tls_is_named_as_that(
    ask: Callable[[str], None], plain: int
) -> None:
    with pytest.raises(Exception, match="does not speak TLS at this port"):
        ask(f"https://localhost:{plain}")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
                                      "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"])  # fmt: skip
def test_a_variable_that_names_no_certificates_is_refused_at_start(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for place in ("/no/such/file.pem", str(tmp_path / "empty.pem")):
        monkeypatch.setenv(variable, place)
        with pytest.raises(ConfigError, match=rf"{variable}: .* {place}: name a file"):
            load_settings(None, quiet=True)
    assert find_unusable_file({}) == ""


def test_an_authority_s_file_and_folder_are_usable(authority: Authority) -> None:
    assert find_unusable_file({"SSL_CERT_FILE": authority.ca_file}) == ""
    assert find_unusable_file({"SSL_CERT_DIR": authority.make_folder()}) == ""


def test_an_error_about_something_else_is_not_explained() -> None:
    inner = ValueError("certificate verify failed")
    inner.__cause__ = inner
    assert explain_tls_failure(inner) == ""
    assert explain_tls_failure(httpx.ConnectError("refused")) == ""
    assert LOCAL[0] == "localhost"
