"""Peers that are slow, silent, many or boundless, over real sockets."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.unit.webhook.cases import headers, payload
from tests.unit.webhook.test_http import FAILED, TOKEN, door, serving
from worker.webhook.connections import Connection
from worker.webhook.http import PATH

DEADLINE = 30.0
REFUSED = f"POST {PATH} HTTP/1.1\r\nHost: door\r\nContent-Length: 9000000\r\n\r\n".encode()
HALF = f"POST {PATH} HTTP/1.1\r\nHost: door\r\nX-Gitlab-".encode()


class Hasty(Connection):
    """The product's limits, made small enough for a test."""

    most = 20
    head_seconds = 0.5
    write_seconds = 0.5


class Patient(Connection):
    """Only the number of connections is small."""

    most = 20


@contextlib.contextmanager
def peers(port: int, number: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, each of which has sent `first`."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            link.sendall(first)
            made.append(link)
        yield made


def until_closed(links: Sequence[socket.socket], number: int, drip: bytes = b"") -> None:
    """Wait until `number` of the links are closed by the server; each still open one sends `drip`
    ten times a second."""
    left, deadline = set(links), time.monotonic() + DEADLINE
    with selectors.DefaultSelector() as ready:
        for link in links:
            ready.register(link, selectors.EVENT_READ, link)
        while len(left) > len(links) - number:
            assert time.monotonic() < deadline, f"{len(left)} of {len(links)} are still open"
            for key, _ in ready.select(0.1):
                if _ended(key.data):
                    ready.unregister(key.data)
                    left.discard(key.data)
            for link in left if drip else ():
                with contextlib.suppress(OSError):
                    link.sendall(drip)


def _ended(link: socket.socket) -> bool:
    try:
        return not link.recv(65536)
    except ConnectionError:
        return True


def is_healthy(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=20).status_code == 200


@pytest.mark.attack("door")
@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b""),
        (HALF, b""),
        (HALF, b"x"),
        (REFUSED, b"x"),
        (b"GET /healthz HTTP/1.1\r\nHost: door\r\n\r\n", b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: door\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", b"x"),
        (b"GET /healthz HTTP/1.1\r\nHost: door\r\nContent-Length: 99999\r\n\r\n", b"x"),
    ],
    ids=["silent", "half", "a byte at a time", "answered", "idle", "upgraded", "unread body"],
)
def test_who_never_ends_a_request_is_hung_up_on(first: bytes, drip: bytes) -> None:
    with serving(door(), Hasty) as port, peers(port, 15, first) as links:
        until_closed(links, 15, drip)
        assert is_healthy(port)


@pytest.mark.attack("door")
@pytest.mark.parametrize("first", [b"", HALF], ids=["silent", "half"])
def test_many_slow_peers_keep_nobody_out(first: bytes) -> None:
    with serving(door(), Patient) as port, peers(port, 100, first) as links:
        assert is_healthy(port)
        until_closed(links, 81)
        sent = httpx.post(
            f"http://127.0.0.1:{port}{PATH}",
            headers=TOKEN | headers(FAILED),
            content=payload(FAILED),
        )
        assert sent.status_code == 202


def head(*lines: str) -> bytes:
    return "\r\n".join([f"POST {PATH} HTTP/1.1", "Host: door", *lines]).encode()


CHUNKED = head("X-Gitlab-Token: a-long-secret", "Transfer-Encoding: chunked") + b"\r\n\r\n"
BOUNDLESS = {
    "a long head": head("X: " + "x" * 40_000) + b"\r\n\r\n",
    "a header without end": head("X: ") + b"x" * 3_000_000,
    "many headers": head(*["X: 1"] * 100_000),
    "a long address": b"GET /" + b"x" * 3_000_000,
    "trailers": CHUNKED + b"1\r\n{\r\n0\r\n" + b"X: y\r\n" * 500_000,
    "chunks of nothing": CHUNKED + b"1;" + b"x" * 3_000_000,
    "many requests at once": b"GET /healthz HTTP/1.1\r\n\r\n" * 100_000,
}


@pytest.mark.attack("door")
@pytest.mark.parametrize("sent", BOUNDLESS.values(), ids=BOUNDLESS)
def test_what_surrounds_a_body_has_a_limit(sent: bytes) -> None:
    with serving(door()) as port, peers(port, 1) as links:
        with contextlib.suppress(ConnectionError):
            links[0].sendall(sent)
        started = time.monotonic()
        until_closed(links, 1)
        assert time.monotonic() - started < Connection.head_seconds / 2
        assert is_healthy(port)


BIG = 64 * 1024 * 1024


def big(ended: threading.Event) -> Starlette:
    """An app whose answer is large; `ended` is set when it is written or given up."""

    async def answer(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                for _ in range(BIG >> 16):
                    yield bytes(1 << 16)
            finally:
                ended.set()

        return StreamingResponse(parts(), headers={"content-length": str(BIG)})

    return Starlette(routes=[Route("/healthz", answer)])


def ask(port: int) -> socket.socket:
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    link.connect(("127.0.0.1", port))
    link.settimeout(10)
    link.sendall(b"GET /healthz HTTP/1.1\r\nHost: door\r\n\r\n")
    return link


def read_all(link: socket.socket, pause: float = 0.0) -> int:
    size = 0
    with contextlib.suppress(ConnectionError):
        while size < BIG and (data := link.recv(1 << 22)):
            size += len(data)
            time.sleep(pause)
    return size


@pytest.mark.attack("door")
def test_who_never_reads_an_answer_is_hung_up_on() -> None:
    ended = threading.Event()
    with serving(big(ended), Hasty) as port, ask(port) as link:
        assert ended.wait(DEADLINE)
        assert read_all(link) < BIG


def test_who_reads_slowly_gets_the_whole_answer() -> None:
    class Slow(Connection):
        head_seconds = 0.05
        write_seconds = 5.0

    with serving(big(threading.Event()), Slow) as port, ask(port) as link:
        assert read_all(link, pause=0.001) > BIG
