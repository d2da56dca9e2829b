"""A pod's process over a WebSocket, whose server ends it, floods it or reads nothing."""

import fcntl
import json
import socket
import ssl
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from sandbox.kubernetes.exec_stream import PROTOCOL, ExecStream
from sandbox.wire import Ended, Silent
from tests.contract.sandbox_relay import certificates
from tests.simulators.kubernetes.streams import make_status

PIECE = bytes(1 << 16)
MANY = 1000
"""Pieces that no socket's buffers take."""


class Server:
    """The API server's end of one connection. `run` starts what it does, in a thread."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.port = self._listener.getsockname()[1]
        self.protocol = ServerProtocol(subprotocols=[PROTOCOL], max_size=None)
        self.connected: socket.socket

    def run(self, task: Callable[[], None]) -> None:
        thread = threading.Thread(target=task, daemon=True)
        thread.start()
        self._threads.append(thread)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(15)
            assert not thread.is_alive()

    def accept(self) -> None:
        connected = self._listener.accept()[0]
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connected = (
            self._tls.wrap_socket(connected, server_side=True) if self._tls else connected
        )
        self.connected.settimeout(10)
        while not (events := self.protocol.events_received()):
            self.protocol.receive_data(self.connected.recv(1 << 16))
        assert isinstance(events[0], Request)
        self.protocol.send_response(self.protocol.accept(events[0]))
        self.flush()

    def send(self, channel: int, data: bytes) -> None:
        self.protocol.send_binary(bytes([channel]) + data)
        self.flush()

    def flush(self) -> None:
        self.connected.sendall(b"".join(self.protocol.data_to_send()))

    def end_process(self, code: int, mode: str) -> None:
        """Say that the process has ended, and leave the connection as `mode` says."""
        self.send(3, json.dumps(make_status(code)).encode())
        self.protocol.send_close(1000)
        self.flush()
        if mode == "half-closed":
            self.connected.shutdown(socket.SHUT_WR)
        elif mode == "closed":
            self.connected.close()  # with data unread, which resets the connection

    def wait_for_delivery(self) -> None:
        until = soon()
        while fcntl.ioctl(self.connected, termios.TIOCOUTQ, bytes(4)) != bytes(4):
            assert time.monotonic() < until
            time.sleep(0.001)

    def read_frames(self, pieces: int) -> list[Frame]:
        """Read until that many messages with a piece have come."""
        frames: list[Frame] = []
        while sum(len(frame.data) > len(PIECE) for frame in frames) < pieces:
            self.protocol.receive_data(self.connected.recv(1 << 16))
            frames += [
                event for event in self.protocol.events_received() if isinstance(event, Frame)
            ]
        return frames

    def close(self) -> None:
        self._listener.close()
        with suppress(AttributeError):
            self.connected.close()
        self.join()


@pytest.fixture(params=["ws", "wss"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    tls = certificates(tmp_path) if request.param == "wss" else None
    server = Server(tls)
    yield server
    server.close()


@pytest.fixture
def stream(server: Server, tmp_path: Path) -> Iterator[ExecStream]:
    """The host's end, connected."""
    tls, scheme = None, "ws"
    if (tmp_path / "ca.pem").exists():
        tls, scheme = ssl.create_default_context(cafile=str(tmp_path / "ca.pem")), "wss"
        tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.run(server.accept)
    stream = ExecStream(f"{scheme}://127.0.0.1:{server.port}/", {}, tls, soon())
    server.join()
    yield stream
    stream.close()


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


def send_pieces(stream: ExecStream, pieces: int, deadline: float) -> None:
    for _ in range(pieces):
        stream.send(PIECE, deadline)


@pytest.mark.parametrize("mode", ["open", "half-closed", "closed"])
def test_sending_ends_with_the_process_whatever_becomes_of_the_connection(
    server: Server, stream: ExecStream, mode: str
) -> None:
    def end_process() -> None:
        server.connected.recv(1)
        server.end_process(137, mode)

    server.run(end_process)
    began = time.monotonic()
    with pytest.raises(Ended, match="137"):
        send_pieces(stream, MANY, soon())
    assert time.monotonic() - began < 3
    assert stream.get_exit_code() == 137
    server.join()


def test_a_reset_hides_nothing_of_what_came_before_it(server: Server, stream: ExecStream) -> None:
    stream.send(PIECE, soon())
    server.connected.recv(1)
    server.send(2, b"out of memory" * 3000)  # TLS gives it in several parts
    server.end_process(137, "open")
    server.wait_for_delivery()
    server.connected.close()
    with pytest.raises(Ended, match="out of memory"):
        send_pieces(stream, MANY, soon())
    assert stream.get_exit_code() == 137


def test_sending_ends_where_the_server_only_hangs_up(server: Server, stream: ExecStream) -> None:
    server.send(2, b"out of memory")
    server.connected.shutdown(socket.SHUT_WR)
    began = time.monotonic()
    with pytest.raises(Ended, match="out of memory"):
        send_pieces(stream, MANY, soon())
    assert time.monotonic() - began < 3
    assert stream.get_exit_code() is None


def test_what_comes_while_sending_is_received_and_pings_are_answered(
    server: Server, stream: ExecStream
) -> None:
    frames: list[Frame] = []

    def talk() -> None:
        server.protocol.send_ping(b"there?")
        server.send(1, b"early")
        frames.extend(server.read_frames(MANY))
        server.send(1, b" and late")

    server.run(talk)
    send_pieces(stream, MANY, soon())
    assert stream.receive(14, soon()) == b"early and late"
    assert [frame.data for frame in frames if frame.opcode is Opcode.PONG] == [b"there?"]
    sent = [frame.data for frame in frames if frame.opcode is Opcode.BINARY]
    assert sent == [b"\0" + PIECE] * MANY


def test_a_server_that_reads_nothing_is_silent_however_much_it_says(
    server: Server, stream: ExecStream
) -> None:
    said = 0

    def flood() -> None:
        nonlocal said
        with suppress(OSError):
            while said < 1 << 30:
                server.send(1, PIECE)
                said += len(PIECE)

    server.run(flood)
    with pytest.raises(Silent):
        send_pieces(stream, MANY, soon(1))
    assert said < 64 << 20


def test_nothing_is_sent_over_a_connection_that_is_closed(stream: ExecStream) -> None:
    stream.close()
    with pytest.raises(Ended):
        stream.send(b"", soon())
