"""urllib3's connections, under requests and boto3, with a total deadline for each answer."""

import http.client
import io
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from worker.transport.failures import describe_failure, find_trusted

PACKING = "gzip"
"""The one content coding that is asked for."""

MOST_WHOLE = 32 * 1024 * 1024
"""Unpacked bytes of an answer that is not streamed."""

MOST_OF_ERROR = 1024 * 1024
"""Unpacked bytes of an answer other than 2xx."""

_CHUNK = 64 * 1024
_OFFERED = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


class RefusedAnswer(urllib3.exceptions.HTTPError):
    """An answer that is too long, or packed in another way than was asked for."""


class BoundedAdapter(HTTPAdapter):
    """An adapter of requests whose answers end, with their bodies, after `total` seconds.

    Their headers have to come within the time-out between two reads. Raises RefusedAnswer, besides
    what requests raises, for an answer that is packed other than once by gzip, and for one that is
    not streamed, or no 2xx, and too long.
    """

    def __init__(self, total: float) -> None:
        self._pools = bound_pools(_OFFERED, total)
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """See requests."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """See requests."""
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        *rest: Any,
        **options: Any,
    ) -> requests.Response:
        """See requests. It reads by itself, and without a cap, what is not streamed and what is no
        2xx, so that is read here. `verify` is a path where a variable of requests names one."""
        if verify is True:
            verify = find_trusted() or True
        try:
            response = super().send(request, stream, timeout, verify, *rest, **options)
        except requests.ConnectionError as error:
            why = describe_failure(error, request.url or "")
            raise type(error)(why, request=request) from error
        with ExitStack() as undo:
            undo.callback(response.close)
            coding = response.headers.get("Content-Encoding", "").strip()
            if coding.lower() not in ("", "identity", PACKING):
                raise RefusedAnswer(f"packed as {coding[:40]!r}, which was not asked for")
            is_good = 200 <= response.status_code < 300
            if not (stream and is_good):
                _keep_body(response, MOST_WHOLE if is_good else MOST_OF_ERROR)
            undo.pop_all()
        return response


def bind_session(session: requests.Session, adapter: HTTPAdapter) -> None:
    """Let a session use an adapter for everything, and ask for gzip alone."""
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    session.headers["Accept-Encoding"] = PACKING


def read_chunk(response: requests.Response) -> bytes:
    """Return what has arrived of a streamed body, b"" at its end. Raises requests' errors.

    `iter_content` would wait for a whole chunk, however slowly it comes.
    """
    try:
        return cast(bytes, response.raw.read1(_CHUNK, decode_content=True))
    except urllib3.exceptions.DecodeError as error:
        raise requests.exceptions.ContentDecodingError(error) from error
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.exceptions.ReadTimeout(error) from error
    except urllib3.exceptions.ProtocolError as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(error) from error


def _keep_body(response: requests.Response, most: int) -> None:
    """Read the body, up to `most` bytes, for requests to find it read."""
    body = bytearray()
    while chunk := read_chunk(response):
        body += chunk
        if len(body) > most:
            raise RefusedAnswer(f"larger than {most} bytes")
    kept: Any = response
    kept._content, kept._content_consumed = bytes(body), True


# ------------------------------------------------------------------------------------ the deadline


def bound_pools(
    offered: Mapping[str, type[HTTPConnectionPool]], total: float
) -> dict[str, type[HTTPConnectionPool]]:
    """Return connection pools, by scheme, like the `offered` ones, but whose answers end after
    `total` seconds."""
    response = type("BoundedResponse", (_BoundedResponse,), {"total": total})
    bound: dict[str, type[HTTPConnectionPool]] = {}
    for scheme, pool in offered.items():
        connection: Any = pool.ConnectionCls
        made = type(connection.__name__, (connection,), {"response_class": response})
        bound[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": made})
    return bound


class _Reader(io.RawIOBase):
    """What arrives on a socket until a deadline, at first that of one silence."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock, self._silence = raw, sock, sock.gettimeout()
        self._begun = time.monotonic()
        self._total = self._silence or float("inf")

    def extend(self, total: float) -> None:
        """Set when the whole answer has to have come, in seconds from its beginning."""
        self._total = total

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._begun + self._total - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the whole answer is over")
        if left < float("inf"):
            self._sock.settimeout(min(left, self._silence or left))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """An answer whose headers come within the socket's time-out, and all of it in `total`
    seconds."""

    total = 0.0

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._reader = _Reader(cast(Any, self.fp).detach(), sock)
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        self._reader.extend(self.total)
