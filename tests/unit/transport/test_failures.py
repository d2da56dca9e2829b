"""What a person reads where a part does not answer: the whole line, by who asks and what is there.

The servers are real: closed ports, black holes, TLS with certificates that hold or do not, plain
servers, login pages, redirects, proxies.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox import engine
from sandbox.base import SandboxUnavailable
from sandbox.kubernetes.cluster import translate_cluster_errors
from tests.certificates import DAY, Authority, tls_in_front_of, trust_nobody
from tests.proxies import USER, running_proxy
from tests.stores import CREDENTIALS
from tests.unit.transport.test_certificates import (
    ask_konflux,
    ask_model,
    fetch_gitlabs_keys,
    send_spans,
)
from worker import app
from worker.doctor.gitlab import Client, check_connection
from worker.errors import SandpiperError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.gitlab.write.writer import GitLabWriter
from worker.models import connection
from worker.queue.broker import find_broker_failure
from worker.sessions.bucket import S3Store
from worker.settings import Settings
from worker.transport.failures import find_cause, show_address

SECRET = "of-no-worth-at-all"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
START = "start it, or correct its address"
HANGS = "it did not answer in time: see whether it is busy or hangs"
ROOT = "set gitlab.url to where GitLab itself answers, with its relative root if it has one"


class _Pages(BaseHTTPRequestHandler):
    """A site that is no GitLab, and a server that refuses plain HTTP as nginx does."""

    def do_GET(self) -> None:
        status, headers, body = 200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"
        if self.path.startswith("/moved"):
            place = f"https://user:{SECRET}@login.example.com/sso?token={SECRET}"
            status, headers, body = 302, {"Location": place}, b""
        elif self.path.startswith("/nginx"):
            text = "The plain HTTP request was sent to HTTPS port"
            status, body = 400, f"<html><title>400 {text}</title></html>".encode()
        elif self.path.startswith("/wrong-root"):
            status = 404
        elif self.path.startswith("/json"):
            status, headers, body = 404, {"Content-Type": "application/json"}, b'{"detail":"no"}'
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Places:
    """The ports of the servers, by what is wrong with each."""

    ca_file: str
    closed: int
    hole: int
    hangup: int
    site: int
    signed: int
    own: int
    expired: int
    other_host: int
    unknown: int


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with ExitStack() as opened:
        site = opened.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), _Pages))
        threading.Thread(target=site.serve_forever, args=(0.02,), daemon=True).start()
        opened.callback(site.shutdown)
        hole = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        hangup = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=_hang_up, args=(hangup,), daemon=True).start()
        opened.callback(lambda: hangup.shutdown(socket.SHUT_RDWR))
        with socket.create_server(("127.0.0.1", 0)) as gone:
            closed = gone.getsockname()[1]
        folder, port = tmp_path_factory.mktemp("ca"), site.server_address[1]
        ours, stranger = Authority(folder), Authority(folder, "stranger")
        certificates = (
            ours.sign(),
            ours.sign(own=True),
            ours.sign(lasts=timedelta(0) - DAY),
            ours.sign("elsewhere.example.com"),
            stranger.sign(),
        )
        tls = [opened.enter_context(tls_in_front_of(port, each)) for each in certificates]
        ports = (hole.getsockname()[1], hangup.getsockname()[1], port, *tls)
        yield Places(ours.ca_file, closed, *ports)


def _hang_up(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            with closing(listener.accept()[0]) as client:
                client.recv(10)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, places: Places) -> Iterator[None]:
    trust_nobody(monkeypatch)
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in {**CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSL_CERT_FILE", places.ca_file)
    connection.get_ssl_context.cache_clear()
    yield
    connection.get_ssl_context.cache_clear()


def ask_gitlab(url: str) -> None:
    """As the doctor, and `serve` at its start."""
    check_connection(Client(url, SECRET, "read"), lambda: 0.0)


def read_gitlab(url: str) -> None:
    """As a source does."""
    client = ReadClient(url, SECRET, timeout=(0.3, 0.3), retries=0)
    client.one("/user", wire.User, "the user")


def write_gitlab(url: str) -> None:
    GitLabWriter(url, SECRET, (0.3, 0.3), lambda seconds: None).get_user_id()


def ask_s3(url: str) -> None:
    store = S3Store("bucket", "p", url, attempts=1, read_timeout=0.3)
    store.records.read("one", 100)


def ask_broker(url: str) -> None:
    if failure := find_broker_failure(app.build_app(Settings(broker=url), lambda: None)):  # type: ignore[arg-type, return-value]
        raise failure


def ask_docker(url: str) -> None:
    engine.open_engine(url).close()


def ask_kubernetes(url: str) -> None:
    with (
        translate_cluster_errors(SandboxUnavailable, "creating the sandbox", url),
        httpx.Client(trust_env=False) as client,
    ):
        client.get(url, timeout=0.3).raise_for_status()


AUTHORITY = "its certificate is signed by an authority that is not trusted here"
ROWS: list[tuple[Callable[[str], None], str, str]] = [
    # GitLab, which everything asks by python-gitlab
    (ask_gitlab, "http://127.0.0.1:{closed}",
     "GitLab's version: no answer from http://127.0.0.1:{closed}: nothing listens there "
     f"(connection refused): {START}"),
    (ask_gitlab, f"http://user:{SECRET}@gitlab.invalid",
     "GitLab's version: no answer from http://gitlab.invalid: no host is found by the name "
     "gitlab.invalid: correct the name, or see that this machine's DNS knows it"),
    (read_gitlab, "http://127.0.0.1:{hole}",
     f"the user: no answer from http://127.0.0.1:{{hole}}: {HANGS}"),
    (write_gitlab, "http://127.0.0.1:{hole}",
     f"the write token's user: no answer from http://127.0.0.1:{{hole}}: {HANGS}"),
    (ask_gitlab, "http://127.0.0.1:{hangup}",
     "GitLab's version: no answer from http://127.0.0.1:{hangup}: it closed the connection without "
     "an answer: see its log, and that of what stands before it"),
    (ask_gitlab, "http://127.0.0.1:{signed}",
     "GitLab's version: no answer from http://127.0.0.1:{signed}: it speaks TLS at this port: "
     "write https:// instead of http://"),
    (ask_gitlab, "http://127.0.0.1:{site}/nginx",
     "GitLab's version: no answer from http://127.0.0.1:{site}/nginx: it speaks TLS at this port: "
     "write https:// instead of http://"),
    (ask_gitlab, "https://127.0.0.1:{site}",
     "GitLab's version: no answer from https://127.0.0.1:{site}: it does not speak TLS at this "
     "port: write http:// instead of https://"),
    (ask_gitlab, "https://localhost:{unknown}",
     f"GitLab's version: no answer from https://localhost:{{unknown}}: {AUTHORITY}: let "
     "SSL_CERT_FILE, or for GitLab alone REQUESTS_CA_BUNDLE, name a file with that authority's "
     "certificate in it"),
    (ask_gitlab, "https://localhost:{own}",
     "GitLab's version: no answer from https://localhost:{own}: its certificate is signed by "
     "itself and not trusted: let SSL_CERT_FILE, or for GitLab alone REQUESTS_CA_BUNDLE, name a "
     "file with this certificate in it, or give the server another"),
    (ask_gitlab, "https://localhost:{expired}",
     "GitLab's version: no answer from https://localhost:{expired}: its certificate has expired: "
     "renew it, and see that this machine's clock is right"),
    (ask_gitlab, "https://localhost:{other_host}",
     "GitLab's version: no answer from https://localhost:{other_host}: its certificate is for "
     "another host (Hostname mismatch, certificate is not valid for 'localhost'): use the name "
     "that it is for, or give the server one for this name"),
    (ask_gitlab, "https://localhost:{signed}",
     "GitLab's version: https://localhost:{signed} answers with something else than JSON: "
     f"{ROOT}"),
    (ask_gitlab, "http://127.0.0.1:{site}/wrong-root",
     f"GitLab's version: http://127.0.0.1:{{site}}/wrong-root answers 404 with a web page: {ROOT}"),
    (ask_gitlab, "http://127.0.0.1:{site}/json",
     f"GitLab's version: http://127.0.0.1:{{site}}/json has no GitLab API (404): {ROOT}"),
    (ask_gitlab, "http://127.0.0.1:{site}/moved",
     "GitLab's version: http://127.0.0.1:{site}/moved redirects to https://login.example.com/sso: "
     "set gitlab.url to where GitLab itself answers"),
    # GitLab's keys, by httpx
    (fetch_gitlabs_keys, "https://localhost:{unknown}",
     "GitLab's keys: no answer from https://localhost:{unknown}/oauth/discovery/keys: "
     f"{AUTHORITY}: let SSL_CERT_FILE name a file with that authority's certificate in it"),
    (fetch_gitlabs_keys, "http://127.0.0.1:{site}",
     "GitLab's keys (http://127.0.0.1:{site}/oauth/discovery/keys) cannot be had: the answer is "
     "not JSON"),
    # models
    (ask_model, "http://127.0.0.1:{closed}",
     "anthropic: no answer from http://127.0.0.1:{closed}: nothing listens there (connection "
     f"refused): {START}"),
    (ask_model, "http://model.invalid",
     "anthropic: no answer from http://model.invalid: no host is found by the name model.invalid: "
     "correct the name, or see that this machine's DNS knows it"),
    (ask_model, "http://127.0.0.1:{signed}",
     "anthropic: no answer from http://127.0.0.1:{signed}: it speaks TLS at this port: write "
     "https:// instead of http://"),
    (ask_model, "http://127.0.0.1:{site}/nginx",
     "anthropic: no answer from http://127.0.0.1:{site}: it speaks TLS at this port: write "
     "https:// instead of http://"),
    (ask_model, "https://localhost:{own}",
     "anthropic: no answer from https://localhost:{own}: its certificate is signed by itself and "
     "not trusted: let SSL_CERT_FILE name a file with this certificate in it, or give the server "
     "another"),
    (ask_konflux, "http://127.0.0.1:{hangup}",
     "it: Konflux: no answer from http://127.0.0.1:{hangup}: it closed the connection without an "
     "answer: see its log, and that of what stands before it"),
    # S3
    (ask_s3, "http://127.0.0.1:{closed}",
     "cannot read s3://bucket/p/one: no answer from http://127.0.0.1:{closed}: nothing listens "
     f"there (connection refused): {START}"),
    (ask_s3, "http://127.0.0.1:{hole}",
     f"cannot read s3://bucket/p/one: no answer from http://127.0.0.1:{{hole}}: {HANGS}"),
    (ask_s3, "https://localhost:{unknown}",
     f"cannot read s3://bucket/p/one: no answer from https://localhost:{{unknown}}: {AUTHORITY}: "
     "let SSL_CERT_FILE, or for S3 alone AWS_CA_BUNDLE, name a file with that authority's "
     "certificate in it"),
    (ask_s3, "http://127.0.0.1:{signed}",
     "cannot read s3://bucket/p/one: no answer from http://127.0.0.1:{signed}: it speaks TLS at "
     "this port: write https:// instead of http://"),
    # Redis and RabbitMQ
    (ask_broker, f"redis://user:{SECRET}@127.0.0.1:{{closed}}/0",
     "the broker redis://127.0.0.1:{closed}/0 does not answer: nothing listens there (connection "
     "refused); start it, or set SANDPIPER_BROKER to its address"),
    (ask_broker, f"redis://:{SECRET}@redis.invalid/0",
     "the broker redis://redis.invalid:6379/0 does not answer: no host is found by the name "
     "redis.invalid; correct the name, or see that this machine's DNS knows it"),
    (ask_broker, "redis://127.0.0.1:{signed}/0",
     "the broker redis://127.0.0.1:{signed}/0 does not answer: it speaks TLS at this port; write "
     "rediss:// instead of redis://"),
    (ask_broker, "rediss://localhost:{site}/0",
     "the broker rediss://localhost:{site}/0 does not answer: it does not speak TLS at this port; "
     "write redis:// instead of rediss://"),
    (ask_broker, "rediss://localhost:{unknown}/0",
     f"the broker rediss://localhost:{{unknown}}/0 does not answer: {AUTHORITY}; let "
     "broker_tls.ca_file or SSL_CERT_FILE name a file with that authority's certificate in it"),
    (ask_broker, f"amqp://user:{SECRET}@127.0.0.1:{{closed}}//",
     "the broker amqp://127.0.0.1:{closed}// does not answer: nothing listens there (connection "
     "refused); start it, or set SANDPIPER_BROKER to its address"),
    (ask_broker, "amqp://127.0.0.1:{signed}//",
     "the broker amqp://127.0.0.1:{signed}// does not answer: it speaks TLS at this port; write "
     "amqps:// instead of amqp://"),
    (ask_broker, "amqps://127.0.0.1:{expired}//",
     "the broker amqps://127.0.0.1:{expired}// does not answer: its certificate has expired; renew "
     "it, and see that this machine's clock is right"),
    # what starts sandboxes
    (ask_docker, "tcp://127.0.0.1:{closed}",
     "no Docker engine answers at tcp://127.0.0.1:{closed}: nothing listens there (connection "
     "refused): start one, or set DOCKER_HOST to where it listens"),
    (ask_docker, "unix:///no/such/docker.sock",
     "no Docker engine answers at unix:///no/such/docker.sock: there is no such socket: start one, "
     "or set DOCKER_HOST to where it listens"),
    (ask_docker, "tcp://127.0.0.1:{signed}",
     "no Docker engine answers at tcp://127.0.0.1:{signed}: it speaks TLS at this port: set "
     "DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"),
    (ask_docker, "tcp://127.0.0.1:{site}",
     "no Docker engine answers at tcp://127.0.0.1:{site}: what answers there is no Docker engine: "
     "start one, or set DOCKER_HOST to where it listens"),
    (ask_kubernetes, "https://127.0.0.1:{closed}",
     "creating the sandbox: the API server https://127.0.0.1:{closed} does not answer: nothing "
     "listens there (connection refused): see that KUBECONFIG names a cluster that runs"),
    (ask_kubernetes, "https://localhost:{own}",
     "creating the sandbox: the API server https://localhost:{own} does not answer: its "
     "certificate is signed by itself and not trusted: let certificate-authority in KUBECONFIG "
     "name a file with this certificate in it, or give the server another"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "url", "line"), ROWS, ids=[f"{row[0].__name__} {row[1]}" for row in ROWS]
)
def test_why_a_part_does_not_answer_is_one_line_with_what_to_do(
    ask: Callable[[str], None], url: str, line: str, places: Places
) -> None:
    ports = vars(places)
    with pytest.raises((SandpiperError, SandboxUnavailable)) as told:
        ask(url.format(**ports))
    assert str(told.value) == line.format(**ports)


@pytest.mark.slow
def test_a_collector_that_is_away_is_named_in_the_log(places: Places) -> None:
    url = f"http://127.0.0.1:{places.closed}"
    with pytest.raises(SandpiperError) as told:
        send_spans(url)
    why = f"no answer from {url}/v1/traces: nothing listens there (connection refused): {START}"
    assert why in str(told.value)


PROXIED = [
    (407, "wants a user and a password, or others (407): put them into HTTPS_PROXY: "
     "http://user:password@host:port"),
    (403, "refuses to connect to it (403): have the proxy allow it, or let NO_PROXY name the host "
     "if it needs no proxy"),
    (502, "does not get through to it (502): correct the address, or see the proxy's log"),
]  # fmt: skip


@pytest.mark.parametrize("ask", [ask_gitlab, ask_model, ask_s3, fetch_gitlabs_keys, ask_konflux])
@pytest.mark.parametrize(("status", "line"), PROXIED)
def test_a_proxy_that_refuses_is_named_without_its_password(
    status: int,
    line: str,
    ask: Callable[[str], None],
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_proxy(status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://bob:{SECRET}@{proxy.place}")
        with pytest.raises(SandpiperError) as told:
            ask(f"https://localhost:{places.signed}")
    assert str(told.value).endswith(f": its proxy http://{proxy.place} {line}")
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("ask", [ask_gitlab, ask_model, ask_s3, fetch_gitlabs_keys, ask_konflux])
def test_a_proxy_that_is_away_is_told_from_the_server_behind_it(
    ask: Callable[[str], None], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{places.closed}")
    with pytest.raises(SandpiperError) as told:
        ask(f"https://localhost:{places.signed}")
    assert str(told.value).endswith(
        f": its proxy http://127.0.0.1:{places.closed}: nothing listens there (connection "
        "refused): correct HTTPS_PROXY, or let NO_PROXY name the host if it needs no proxy"
    )


@pytest.mark.parametrize("ask", [ask_gitlab, ask_s3, fetch_gitlabs_keys, ask_konflux])
def test_a_proxy_is_used_with_its_password_unless_the_host_needs_none(
    ask: Callable[[str], None], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy(407) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{USER}@{proxy.place}")
        for no_proxy, uses in (("", True), ("localhost", False)):
            monkeypatch.setenv("NO_PROXY", no_proxy)
            proxy.asked.clear()
            with pytest.raises(SandpiperError) as told:  # what answers is a page
                ask(f"https://localhost:{places.signed}")
            assert "proxy" not in str(told.value)
            assert bool(proxy.asked) is uses


@pytest.mark.parametrize(
    ("ask", "scheme"), [(ask_docker, "tcp"), (ask_kubernetes, "https"), (ask_broker, "redis")]
)
def test_what_is_near_uses_no_proxy(
    ask: Callable[[str], None], scheme: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.place}")
        with pytest.raises((SandpiperError, SandboxUnavailable), match="nothing listens there"):
            ask(f"{scheme}://127.0.0.1:{places.closed}")
        assert proxy.asked == []


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    for url in (
        f"https://user:{SECRET}@host:1/path?token={SECRET}#{SECRET}",
        f"https://{SECRET}@host:1/path/",
    ):
        assert show_address(url) == "https://host:1/path"
    assert show_address(f"http://[::1{SECRET}") == "an address that is no URL"


def test_a_connection_that_takes_too_long_is_told_from_an_answer_that_does() -> None:
    made, late = httpx.ConnectTimeout("timed out"), httpx.ReadTimeout("timed out")
    assert str(find_cause(made, "https://host")) == (
        "no connection was made in the time for it: correct the address, or see which firewall "
        "drops what is sent there"
    )
    assert str(find_cause(late, "https://host")) == HANGS


def test_a_cause_that_nobody_knows_is_what_the_library_says(tmp_path: Path) -> None:
    assert str(find_cause(ValueError("it\nis odd."), "https://host")) == "it is odd"
    assert str(find_cause(ValueError(), "https://host")) == "ValueError"
    with pytest.raises(OSError, match="No such file") as told:
        (tmp_path / "none").read_bytes()
    assert find_cause(told.value, "unix:///x").finding == "there is no such socket"
