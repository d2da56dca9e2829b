"""Servers whose answers do not end, on real sockets: every client of the product leaves in time."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import boto3
import httpx
import pytest
import requests
from google.auth.exceptions import TransportError
from pydantic import BaseModel

from worker.clock import Clock, SystemClock
from worker.conversation.messages import User
from worker.conversation.model import Request
from worker.errors import ForgeError, ModelError, QueueError, SandpiperError, SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.downloads import Downloads
from worker.gitlab.write.writer import GitLabWriter
from worker.models.google_auth import _Fetch
from worker.models.table import build_model, list_models
from worker.sessions.bucket import Bucket, connect_bucket
from worker.sources.web import WebReader
from worker.transport.httpx_clients import BoundedClient, EncodedAnswer
from worker.transport.urllib3_connections import BoundedAdapter, bind_session
from worker.webhook.id_tokens import fetch_keys

pytestmark = pytest.mark.attack("odd answers")

TOTAL = 0.5
PATIENCE = 5.0
"""Seconds after which a client counts as held: a server here would drip for a minute."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = {
    "a status line without end": (b"HTTP/1.1 200 O", b"K"),
    "headers without end": (HEAD + b"X-Long: ", b"x"),
    "header upon header": (HEAD, b"X: y\r\n"),
    "interim answers without end": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body of known length": (HEAD + b"Content-Length: 9000\r\n\r\n", b"1"),
    "a body in chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n1\r\n"),
    "a chunk's head without end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "a body until the end": (HEAD + b"Connection: close\r\n\r\n", b" "),
    "an error's body": (b"HTTP/1.1 400 Bad\r\nContent-Length: 9000\r\n\r\n", b"1"),
    "a redirect's body": (b"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 9\r\n\r\n", b"1"),
}


class Dripper:
    """A server that sends `head`, and then `drop` ten times a second for a minute."""

    def __init__(self, head: bytes, drop: bytes) -> None:
        self._head, self._drop, self._ended = head, drop, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ended.is_set():
                peer, _ = self._listener.accept()
                threading.Thread(target=self._drip, args=(peer,), daemon=True).start()

    def _drip(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.recv(65_536)
            peer.sendall(self._head)
            for _ in range(600):
                if self._ended.wait(0.1):
                    return
                peer.sendall(self._drop)


class Anything(BaseModel):
    """Any JSON object."""


class NoWaits(SystemClock):
    """The machine's time, but nobody waits between two attempts."""

    def sleep(self, seconds: float) -> None:
        """Go on at once."""


def ask_model(url: str, clock: Clock | None = None, total: float = TOTAL) -> None:
    clock = clock or SystemClock()
    request = Request("S", (), (User("event"),), deadline=clock.monotonic() + total)
    with closing(build_model("anthropic/claude-sonnet-5-5", url, "k", clock=clock)) as model:
        model.reply(request)


def list_served_models(url: str) -> None:
    clock = SystemClock()
    list_models("anthropic", url, "k", clock=clock, deadline=clock.monotonic() + TOTAL)


def read_bucket(url: str) -> None:
    session = boto3.Session("id", "secret", region_name="us-east-1")
    client = connect_bucket(session, url, attempts=1, read_timeout=TOTAL, deadline=TOTAL)
    with closing(client):
        Bucket(client, "bucket", "").read("name", 1000)


def read_with_requests(url: str) -> None:
    with requests.Session() as session:
        bind_session(session, BoundedAdapter(TOTAL))
        assert session.get(url, timeout=(TOTAL, TOTAL), allow_redirects=False).content != b"ok"


def read_with_httpx(url: str) -> None:
    with BoundedClient(total=TOTAL, timeout=60.0) as client:
        client.get(url)


CLIENTS: dict[str, tuple[Callable[[str], object], type[Exception]]] = {
    "a model": (ask_model, ModelError),
    "a list of models": (list_served_models, ModelError),
    "Google's tokens": (lambda url: _Fetch()(url, timeout=TOTAL), TransportError),
    "another system": (
        lambda url: WebReader(url, "Konflux", total=TOTAL).one("/x", Anything, "it"),
        SourceError,
    ),
    "GitLab's keys": (lambda url: fetch_keys(url, total=TOTAL), QueueError),
    "S3": (read_bucket, SandpiperError),
    "requests": (read_with_requests, requests.RequestException),
    "httpx": (read_with_httpx, httpx.TimeoutException),
}


@pytest.fixture(params=DRIPS)
def dripper(request: pytest.FixtureRequest) -> Iterator[Dripper]:
    with closing(Dripper(*DRIPS[request.param])) as running:
        yield running


@pytest.mark.parametrize("name", CLIENTS)
def test_an_answer_that_drips_holds_no_client_past_its_time(dripper: Dripper, name: str) -> None:
    ask, error = CLIENTS[name]
    begun = time.monotonic()
    with pytest.raises(error):
        ask(dripper.url)
    assert time.monotonic() - begun < PATIENCE


HEADERS = [name for name in DRIPS if "body" not in name and "chunk" not in name]


@pytest.mark.parametrize("name", HEADERS)
def test_gitlabs_headers_have_to_come_within_one_silence(name: str) -> None:
    silence, host = (TOTAL, TOTAL), "127.0.0.1"
    with closing(Dripper(*DRIPS[name])) as server:
        begun = time.monotonic()
        with pytest.raises(SourceError, match="no answer from http://127"):
            list(ReadClient(server.url, "t", silence, retries=0).stream("/x", "it", 1000))
        with pytest.raises(ForgeError):
            GitLabWriter(server.url, "t", silence, lambda seconds: None).get_user_id()
        with pytest.raises(requests.RequestException):
            Downloads({"http"}, [host], silence).get(f"{server.url}/x")
    assert time.monotonic() - begun < 4 * PATIENCE


def test_a_server_that_takes_a_request_slowly_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peers = []
        threading.Thread(target=lambda: peers.append(listener.accept()), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        begun = time.monotonic()
        with BoundedClient(total=TOTAL, timeout=60.0) as client, pytest.raises(httpx.WriteTimeout):
            client.post(url, content=bytes(64 << 20))
        assert time.monotonic() - begun < PATIENCE
        for peer, _ in peers:
            peer.close()


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate", "br", "zstd", "identity,gzip"])
def test_httpx_unpacks_nothing(coding: str) -> None:
    body = gzip.compress(gzip.compress(bytes(1 << 20)))
    head = HEAD + f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with closing(Dripper(head + body, b"")) as server:
        with BoundedClient(total=TOTAL, timeout=60.0) as client, pytest.raises(EncodedAnswer):
            client.get(server.url)
        with pytest.raises(ModelError, match="packed"):  # after as many attempts as ever
            ask_model(server.url, NoWaits(), total=60.0)
        for name in ("GitLab's keys", "Google's tokens"):
            ask, error = CLIENTS[name]
            with pytest.raises(error, match="packed"):
                ask(server.url)


def test_a_whole_answer_is_read_and_its_connection_used_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\nok"

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as peer, suppress(OSError):
            for _ in range(3):
                peer.recv(65_536)
                peer.sendall(answer)

    for read in ("httpx", "requests"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=serve, args=(listener,), daemon=True).start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with requests.Session() as session, BoundedClient(total=30.0) as client:
                bind_session(session, BoundedAdapter(30.0))
                for _ in range(3):
                    found = client.get(url) if read == "httpx" else session.get(url, timeout=30)
                    assert found.content == b"ok"
