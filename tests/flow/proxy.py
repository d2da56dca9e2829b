"""A TCP proxy on loopback that can be away, slow or break off, for real clients.

with Proxy("127.0.0.1", 9000) as proxy:
    proxy.away(2.0)                               # refused and reset for two seconds
    proxy.away_at(rb"PUT .*context\\.json", 2.0)   # from when such a request arrives
    proxy.delay = 0.3                             # each piece of an answer is late by so much
    proxy.cut_next(after=40)                      # the next answer is reset in its middle
    proxy.silent_at(rb"POST .*/notes", heard=True)  # from then on no answers, until `speak`
"""

import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


class Proxy:
    """Passes connections on to `target`: (host, port), or the path of a Unix socket.

    `struck` are the patterns of `away_at` that were met, `connections` counts those taken,
    `swallowed` the pieces of answers that were kept back.
    """

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.delay = 0.0
        self.struck: list[bytes] = []
        self.connections = 0
        self.swallowed = 0
        self._target = target
        self._awaited: deque[tuple[bytes, float]] = deque()
        self._cuts: deque[int] = deque()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._hush: bytes | None = None
        self._silent = False
        self._heard = True
        self._back = 0.0
        self._closed = False
        self._listener = self._listening(0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Proxy":
        self._start(self._serve)
        return self

    def __exit__(self, *error: object) -> None:
        """Return when no socket and no thread is left."""
        self._closed = True
        self._gone()
        for thread in self._threads:
            thread.join()

    # ------------------------------------------------------------------------------------- faults

    def away(self, seconds: float) -> None:
        """Nobody listens for so long; what is connected is reset."""
        with self._lock:
            self._back = time.monotonic() + seconds
        self._gone()

    def away_at(self, pattern: bytes, seconds: float) -> None:
        """The same from when a request's head matches, which does not arrive. Once, in order."""
        self._awaited.append((pattern, seconds))

    def cut_next(self, after: int, times: int = 1) -> None:
        """The next `times` answers are reset after so many bytes."""
        self._cuts.extend([after] * times)

    def pass_next(self, times: int) -> None:
        """The next `times` answers are whole, whatever comes after."""
        self._cuts.extend([-1] * times)

    def silent_at(self, pattern: bytes, *, heard: bool) -> None:
        """From when a request's head matches, connections are taken and nothing is answered, until
        `speak`. `heard` says whether requests arrive all the same."""
        self._hush, self._heard = pattern, heard

    def speak(self) -> None:
        """Answer again, whoever asks from now on."""
        self._silent, self._hush = False, None

    # ------------------------------------------------------------------------------------ serving

    @staticmethod
    def _listening(port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        return listener

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self) -> None:
        while not self._closed:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                self._listen_again()
                continue
            self.connections += 1
            self._start(self._joined, peer)
        # The one that was opened while the proxy was closed, too.
        self._listener.close()

    def _listen_again(self) -> None:
        while not self._closed and time.monotonic() < self._back:
            time.sleep(0.01)
        if not self._closed:
            self._listener = self._listening(self.port)

    def _joined(self, peer: socket.socket) -> None:
        try:
            server = self._connected()
        except OSError:
            _reset(peer)
            return
        with self._lock:
            self._open |= {peer, server}
        if self._closed:
            _reset(peer)
            _reset(server)
        there = self._start(self._asks, peer, server)
        self._answers(server, peer)
        there.join()
        with self._lock:
            self._open -= {peer, server}
        for each in (peer, server):
            each.close()

    def _connected(self) -> socket.socket:
        if isinstance(self._target, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            return server
        return socket.create_connection(self._target)

    def _asks(self, peer: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := peer.recv(_CHUNK):
                if self._strikes(data):
                    return
                if self._swallows(data):
                    continue
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _strikes(self, data: bytes) -> bool:
        with self._lock:
            if not self._awaited or not re.search(self._awaited[0][0], data[:2000]):
                return False
            pattern, seconds = self._awaited.popleft()
            self.struck.append(pattern)
        self.away(seconds)
        return True

    def _swallows(self, data: bytes) -> bool:
        if self._hush and re.search(self._hush, data[:2000]):
            self._silent, self._hush = True, None
        return self._silent and not self._heard

    def _answers(self, server: socket.socket, peer: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK):
                if self._silent:
                    self.swallowed += 1
                    continue
                if self.delay:
                    time.sleep(self.delay)
                after = self._cuts.popleft() if self._cuts and data.startswith(b"HTTP/") else -1
                if after >= 0:
                    peer.sendall(data[:after])
                    _reset(peer)
                    return
                peer.sendall(data)
        with suppress(OSError):
            peer.shutdown(socket.SHUT_WR)

    def _gone(self) -> None:
        with self._lock:
            connected = list(self._open)
        # A thread in accept() is woken by shutdown, not by close; then it opens the next one.
        listener = self._listener
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in connected:
            _reset(each)


def _reset(peer: socket.socket) -> None:
    """End a connection with RST, also under a thread that reads from it."""
    with suppress(OSError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
    peer.close()
