"""Authentication of requests. A key goes into a header; in a URL it would end up in logs."""

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


def add_header(header: str, key: str) -> httpx.Auth:
    """A header with the key; without a key, none is sent."""
    return KeyHeader(header, key) if key else httpx.Auth()


def bearer(key: str) -> httpx.Auth:
    """The header that most servers expect; without a key, none is sent."""
    return KeyHeader("authorization", f"Bearer {key}") if key else httpx.Auth()


def send_no_key(key: str) -> httpx.Auth:
    """Nothing: whatever the server wants to know is in the headers that the operator has set."""
    return httpx.Auth()


def google(key: str) -> httpx.Auth:
    """Tokens from google-auth's default chain of credentials; `key` is not used."""
    # Imported only here: loading google-auth takes longer than everything else at start.
    from worker.models.google.vertex import GoogleAuth

    return GoogleAuth()


def amazon(key: str, region: str = "") -> httpx.Auth:
    """A signature by the credentials of botocore's default chain; with a key, a Bedrock API key as
    a bearer token."""
    if key:
        return bearer(key)
    from worker.models.amazon.signatures import AmazonAuth

    return AmazonAuth(region)
