"""httpx's client with a total deadline for each request, headers and body."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpcore
import httpx

TOTAL = "total"
"""The key of a request's extension `timeout` for its own total, in seconds."""

_SLICE = 16 * 1024
"""Bytes of a request that are sent under one time-out."""


class EncodedAnswer(httpx.DecodingError):
    """An answer that is compressed, although nothing but plain bytes was asked for."""


class BoundedClient(httpx.Client):
    """A client whose requests end, with their bodies, after `total` seconds, and which refuses
    compressed answers.

    Raises httpx's errors: ReadTimeout, WriteTimeout and ConnectTimeout at the end of the time,
    EncodedAnswer. Proxies of the environment are used unless there is a `transport`.
    """

    def __init__(self, *, total: float, **options: Any) -> None:
        super().__init__(**options)
        self.headers["Accept-Encoding"] = "identity"
        self.event_hooks = {"response": [_refuse_encoding]}
        self._total = total
        for each in (self._transport, *self._mounts.values()):
            if isinstance(each, httpx.HTTPTransport):  # httpx has no setting for it
                each._pool._network_backend = _Backend(each._pool._network_backend)

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request; see httpx."""
        limits = dict(request.extensions.get("timeout", {}))
        total = limits.pop(TOTAL, self._total)
        deadline = time.monotonic() + total
        bound = {name: _Seconds.make(value, total, deadline) for name, value in limits.items()}
        request.extensions = {**request.extensions, "timeout": bound}
        return super().send(request, **options)


class _Seconds(float):
    """A time-out that knows when all time is over. httpcore hands it on to the socket as it is."""

    deadline: float

    @classmethod
    def make(cls, silence: float | None, total: float, deadline: float) -> "_Seconds":
        made = cls(total if silence is None else min(silence, total))
        made.deadline = deadline
        return made


def _limit(timeout: float | None, error: type[Exception]) -> float | None:
    """Return what is left of a time-out. Raises `error` if nothing is."""
    if not isinstance(timeout, _Seconds):
        return timeout
    left = timeout.deadline - time.monotonic()
    if left <= 0:
        raise error("the time for the whole request is over")
    return min(float(timeout), left)


def _refuse_encoding(response: httpx.Response) -> None:
    """Raise EncodedAnswer for a compressed answer."""
    coding = response.headers.get("content-encoding", "")
    if any(each.strip().lower() not in ("", "identity") for each in coding.split(",")):
        text = f"the answer is packed ({coding[:40]!r}), unasked, which is refused"
        raise EncodedAnswer(text, request=response.request)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _limit(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        left = _limit(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, left, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end at their request's deadline."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _limit(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE):
            left = _limit(timeout, httpcore.WriteTimeout)
            self._inner.write(buffer[start : start + _SLICE], left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _limit(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def make_timeouts(total: float, *, connect: float, write: float) -> Mapping[str, float]:
    """Return the extension `timeout` of a request that may take `total` seconds, all of them in
    silence."""
    connect = min(total, connect)
    limits = {"connect": connect, "pool": connect, "read": total, "write": min(total, write)}
    return {**limits, TOTAL: total}
