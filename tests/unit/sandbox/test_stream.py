"""The frames of a runner that may send anything, on an engine's wire and on a plain one."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.wire import (
    BadReport,
    Ended,
    EngineWire,
    Session,
    Silent,
    SocketWire,
    StreamBroken,
    split_content,
)


def piece(kind: int, payload: bytes) -> bytes:
    """As the engine multiplexes."""
    return struct.pack(">BxxxL", kind, len(payload)) + payload


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def report(value: Any) -> bytes:
    return frame(b"") + frame(json.dumps(value).encode())


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        theirs.settimeout(5)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        yield theirs, ours


@pytest.fixture
def runner(pair: tuple[socket.socket, socket.socket]) -> socket.socket:
    """The runner's end."""
    return pair[0]


@pytest.fixture
def session(pair: tuple[socket.socket, socket.socket]) -> Session:
    """The host's end, on an engine's wire."""
    return Session(EngineWire(pair[1], lambda: 3, lambda: None))


def soon(seconds: float = 5) -> float:
    return time.monotonic() + seconds


def test_a_report_is_read_however_it_is_cut(runner: socket.socket, session: Session) -> None:
    stream = report({"id": 1, "a": "ü" * 100})
    wire = b"".join(piece(1, stream[n : n + 1]) + piece(2, b"noise") for n in range(len(stream)))
    session.send_request({}, soon())
    runner.sendall(piece(1, b"") + wire)
    assert session.read_report() == {"id": 1, "a": "ü" * 100}


def test_data_comes_before_the_report(runner: socket.socket, session: Session) -> None:
    session.send_request({}, soon())
    runner.sendall(piece(1, frame(b"one") + frame(b"two") + report({"id": 1})))
    assert list(session.read_data()) == [b"one", b"two"]
    assert session.read_last_report() == {"id": 1}


def test_a_plain_wire_carries_the_same_frames(
    runner: socket.socket, pair: tuple[socket.socket, socket.socket]
) -> None:
    session = Session(SocketWire(pair[1]))
    for number in (1, 2):
        session.send_request({}, soon())
        runner.sendall(frame(b"x" * 65536) + report({"id": number}))
        assert list(session.read_data()) == [b"x" * 65536]
        assert session.read_last_report() == {"id": number}
        assert session.is_usable()


def test_what_is_sent_is_framed(runner: socket.socket, session: Session) -> None:
    session.begin_request({"a": 1}, soon())
    session.send_data(b"x" * 70_000)
    session.end_data()
    session.wire.close()
    sent = b""
    while data := runner.recv(1 << 20):
        sent += data
    request = frame(b'{"a": 1, "id": 1}')
    assert sent == request + frame(b"x" * 65536) + frame(b"x" * 4464) + frame(b"")


def test_a_session_is_used_again_after_its_report(runner: socket.socket, session: Session) -> None:
    assert session.is_usable()
    for number in (1, 2, 3):
        session.send_request({}, soon())
        assert not session.is_usable()
        runner.sendall(piece(1, report({"id": number})))
        session.read_report()
        assert session.is_usable()


@pytest.mark.parametrize("said", [piece(1, report({"id": 2})), piece(2, b"x"), b"\0", None])
def test_a_session_that_speaks_unasked_or_ends_is_not_used_again(
    runner: socket.socket, session: Session, said: bytes | None
) -> None:
    session.send_request({}, soon())
    runner.sendall(piece(1, report({"id": 1})))
    session.read_report()
    runner.sendall(said) if said else runner.close()
    assert not session.is_usable()


@pytest.mark.parametrize("number", [0, 2, None, "1", [1]])
def test_a_report_for_another_call_is_a_lie(
    runner: socket.socket, session: Session, number: object
) -> None:
    session.send_request({}, soon())
    runner.sendall(piece(1, report({"id": number})))
    with pytest.raises(BadReport, match="another call"):
        session.read_report()
    assert not session.is_usable()


@pytest.mark.parametrize(
    ("stream", "broken"),
    [
        (b"", Ended),
        (b"\0\0", Ended),
        (frame(b"data") + report({}), BadReport),
        (frame(b"") + frame(b"[]"), BadReport),
        (frame(b"") + frame(b"null"), BadReport),
        (frame(b"") + frame(b"{"), BadReport),
        (frame(b"") + frame(b"\xff\xfe"), BadReport),
        (frame(b"") + frame(b"[" * 60_000), BadReport),
        (frame(b"") + b"\xff\xff\xff\xff", BadReport),
        (frame(b"") + struct.pack(">I", 65537), BadReport),
        (frame(b"") + frame(b'{"a": 1}')[:-1], Ended),
    ],
)
def test_a_lie_is_a_broken_stream(
    runner: socket.socket, session: Session, stream: bytes, broken: type[StreamBroken]
) -> None:
    session.send_request({}, soon())
    runner.sendall(piece(1, stream))
    runner.shutdown(socket.SHUT_WR)
    with pytest.raises(broken):
        session.read_report()
    assert not session.is_usable()


def test_a_stream_that_ends_says_what_stderr_said_last(
    runner: socket.socket, session: Session
) -> None:
    session.send_request({}, soon())
    runner.sendall(piece(2, b"x" * 5000 + b"no such file\n"))
    runner.shutdown(socket.SHUT_WR)
    with pytest.raises(Ended, match=r"x{1000}no such file$") as caught:
        session.read_report()
    assert len(str(caught.value)) < 2000
    assert session.wire.get_exit_code() == 3


def test_nothing_waits_for_a_runner_whose_engine_has_ended_its_own_side(
    runner: socket.socket, session: Session
) -> None:
    runner.sendall(piece(2, b"out of memory"))
    runner.shutdown(socket.SHUT_WR)
    with pytest.raises(Ended, match="out of memory"):
        session.begin_request({}, soon(30))


def test_silence_ends_at_the_deadline(session: Session) -> None:
    began = time.monotonic()
    session.send_request({}, soon(0.1))
    with pytest.raises(Silent):
        session.read_report()
    assert 0.1 <= time.monotonic() - began < 2


def test_a_trickle_ends_at_the_deadline(runner: socket.socket, session: Session) -> None:
    session.send_request({}, soon(0.1))
    runner.sendall(piece(1, frame(b"")) + struct.pack(">BxxxL", 1, 0xFFFFFFFF))
    with pytest.raises(Silent):
        session.read_report()


def test_a_runner_that_does_not_read_is_silent(session: Session) -> None:
    session.begin_request({}, soon(0.2))
    with pytest.raises(Silent):
        session.send_data(b"x" * (64 << 20))


def test_content_is_cut_into_frames() -> None:
    content = [b"", b"x" * 100_000, b"y"]
    assert [len(part) for part in split_content(content)] == [65536, 34464, 1]
