"""The frames of a runner that may send anything."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from docker import APIClient

from sandbox.stream import BadReport, Ended, RunnerCall, Silent, StreamBroken, pieces

Call = Callable[[float], RunnerCall]


class Engine:
    """An engine whose only exec is one end of a socket pair."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    def exec_create(self, *_: object, **__: object) -> dict[str, str]:
        return {"Id": "1"}

    def exec_start(self, *_: object, **__: object) -> socket.socket:
        return self._ours


def piece(kind: int, payload: bytes) -> bytes:
    """As the engine multiplexes (wire-misc 1.2)."""
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
def call(pair: tuple[socket.socket, socket.socket]) -> Call:
    """Makes the host's end, with so many seconds to live."""
    engine = cast(APIClient, Engine(pair[1]))
    return lambda seconds: RunnerCall(engine, "container", ["runner"], time.monotonic() + seconds)


def test_a_report_is_read_however_it_is_cut(runner: socket.socket, call: Call) -> None:
    stream = report({"a": "ü" * 100})
    wire = b"".join(piece(1, stream[n : n + 1]) + piece(2, b"noise") for n in range(len(stream)))
    with call(5) as running:
        runner.sendall(piece(1, b"") + wire)
        assert running.report() == {"a": "ü" * 100}


def test_data_comes_before_the_report(runner: socket.socket, call: Call) -> None:
    with call(5) as running:
        runner.sendall(piece(1, frame(b"one") + frame(b"two") + report({"ok": 1})))
        assert list(running.data()) == [b"one", b"two"]
        assert running.last() == {"ok": 1}


def test_what_is_sent_is_framed(runner: socket.socket, call: Call) -> None:
    with call(5) as running:
        running.open({"a": 1})
        running.send(b"x" * 70_000)
        running.end()
    sent = b""
    while data := runner.recv(1 << 20):
        sent += data
    assert sent == frame(b'{"a": 1}') + frame(b"x" * 65536) + frame(b"x" * 4464) + frame(b"")


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
    runner: socket.socket, call: Call, stream: bytes, broken: type[StreamBroken]
) -> None:
    with call(5) as running:
        runner.sendall(piece(1, stream))
        runner.shutdown(socket.SHUT_WR)
        with pytest.raises(broken):
            running.report()


def test_a_stream_that_ends_says_what_stderr_said_last(runner: socket.socket, call: Call) -> None:
    with call(5) as running:
        runner.sendall(piece(2, b"x" * 5000 + b"no such file\n"))
        runner.shutdown(socket.SHUT_WR)
        with pytest.raises(Ended, match=r"x{1000}no such file$") as caught:
            running.report()
    assert len(str(caught.value)) < 2000


def test_silence_ends_at_the_deadline(runner: socket.socket, call: Call) -> None:
    began = time.monotonic()
    with call(0.1) as running, pytest.raises(Silent):
        running.report()
    assert 0.1 <= time.monotonic() - began < 2


def test_a_trickle_ends_at_the_deadline(runner: socket.socket, call: Call) -> None:
    with call(0.1) as running:
        runner.sendall(piece(1, frame(b"")) + struct.pack(">BxxxL", 1, 0xFFFFFFFF))
        with pytest.raises(Silent):
            running.report()


def test_a_runner_that_does_not_read_is_silent(runner: socket.socket, call: Call) -> None:
    with call(0.2) as running, pytest.raises(Silent):
        running.send(b"x" * (64 << 20))


def test_content_is_cut_into_frames() -> None:
    content = [b"", b"x" * 100_000, b"y"]
    assert [len(part) for part in pieces(content)] == [65536, 34464, 1]
