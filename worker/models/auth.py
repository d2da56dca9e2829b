"""How a request says who we are. A key goes into a header, never into a URL, a repr or a log."""

from collections.abc import Generator

import httpx


class KeyHeader(httpx.Auth):
    """A static key in one header."""

    def __init__(self, header: str, key: str) -> None:
        self._header = header
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        request.headers[self._header] = self._key
        yield request

    def __repr__(self) -> str:
        return f"KeyHeader({self._header!r})"


def x_api_key(key: str) -> httpx.Auth:
    """Anthropic's own header (wire-models 1.1)."""
    return KeyHeader("x-api-key", key)
