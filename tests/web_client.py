"""A browser, as far as signing in needs one: cookies by origin, redirects, and no more."""

from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx


class Line:
    """One request at a time over real HTTP, each over a connection of its own."""

    def __init__(self, origin: str) -> None:
        self._place = urlsplit(origin).netloc

    def request(self, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
        """Make a request, and follow nothing."""
        with closing(HTTPConnection(self._place, timeout=60)) as connection:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())


class Browser:
    """Visits addresses of `clients` (origin → a line, or Starlette's client), and keeps cookies.

    It holds cookies to what a careful site says of them, and visits no origin that it does not
    know: `left_to` is where it would have gone.
    """

    def __init__(self, clients: Mapping[str, Any]) -> None:
        self._clients = clients
        self.cookies: dict[str, dict[str, str]] = {origin: {} for origin in clients}
        self.visited: list[str] = []
        self.left_to = ""

    def get(self, address: str) -> httpx.Response:
        """Visit an address and follow redirects; returns the last answer."""
        for _ in range(10):
            answer = self.step(address)
            if "location" not in answer.headers:
                return answer
            address = urljoin(address, answer.headers["location"])
            if get_origin(address) not in self._clients:
                self.left_to = address
                return answer
        raise AssertionError(f"redirects go round in circles: {self.visited[-4:]}")

    def step(self, address: str, method: str = "GET") -> httpx.Response:
        """Make one request, and follow nothing."""
        origin, parts = get_origin(address), urlsplit(address)
        sent = "; ".join(f"{name}={value}" for name, value in self.cookies[origin].items())
        self.visited.append(address)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {"accept": "text/html"} | ({"cookie": sent} if sent else {})
        answer: httpx.Response = self._clients[origin].request(method, path, headers=headers)
        for line in answer.headers.get_list("set-cookie"):
            self._keep(origin, line)
        return answer

    def _keep(self, origin: str, line: str) -> None:
        for name, morsel in SimpleCookie(line).items():
            assert morsel["secure"], line
            assert morsel["httponly"], line
            assert morsel["samesite"] == "lax", line
            assert not name.startswith("__Host-") or morsel["path"] == "/", line
            assert name.startswith(("__Host-", "__Secure-")), line
            assert not morsel["domain"], line
            if morsel["max-age"] == "0":
                self.cookies[origin].pop(name, None)
            else:
                self.cookies[origin][name] = morsel.value


def get_origin(address: str) -> str:
    """Return scheme, host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
