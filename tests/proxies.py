"""A small real HTTP proxy: it connects for whoever may, or refuses as proxies do."""

import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

USER = "alice:of-no-worth"
_LOGIN = f"Basic {b64encode(USER.encode()).decode()}"
_CHUNK = 65_536


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        if self._refuses():
            return
        host, _, port = self.path.rpartition(":")
        try:
            far = socket.create_connection((host, int(port)), 5)
        except OSError:
            self.send_error(502)
            return
        self.send_response(200)
        self.end_headers()
        back = threading.Thread(target=_pass_on, args=(far, self.connection), daemon=True)
        back.start()
        _pass_on(self.connection, far)
        back.join(5)
        far.close()

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self._refuses():
            return
        with urlopen(Request(self.path), timeout=5) as answer:
            body = answer.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuses(self) -> bool:
        status = self.server.refuses
        if status == 407 and self.headers.get("Proxy-Authorization") == _LOGIN:
            return False
        if status:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return bool(status)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Proxy(ThreadingHTTPServer):
    """`asked` are the places it was asked for; with `refuses`, that status is what it answers,
    with 407 to whoever is not USER."""

    daemon_threads = True

    def __init__(self, refuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.refuses = refuses
        self.place = f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_proxy(refuses: int = 0) -> Iterator[Proxy]:
    """A proxy until the block ends."""
    proxy = Proxy(refuses)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(5)
