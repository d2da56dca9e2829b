"""A process in a pod, over one WebSocket.

The first byte of each message names its channel: 0 stdin, 1 stdout, 2 stderr, 3 the process's end
as a Status of the API. This is the subprotocol v5.channel.k8s.io of KEP-4006:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

import json
import select
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from sandbox.wire import (
    PEER_ENDED,
    BadReport,
    Ended,
    Silent,
    compute_time_left,
    list_keepalive_options,
)

PROTOCOL = Subprotocol("v5.channel.k8s.io")

_STDIN, _STDOUT, _STDERR, _STATUS = range(4)
_READ = 1 << 16
_MESSAGE = 1 << 20
"""The largest accepted message in bytes; the API server sends at most 32 KiB."""
_STDERR_KEPT, _STATUS_KEPT, _DRAINED = 2000, 16_384, 200
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Refused(Exception):
    """The API server does not start the process. `code` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ExecStream:
    """A process's streams. Implements sandbox.wire.Wire.

    All that the process writes is hostile; the frames around it are the API server's.
    """

    def __init__(
        self, url: str, headers: dict[str, str], tls: ssl.SSLContext | None, deadline: float
    ) -> None:
        """Connect and start the process. Raises Refused, OSError and TimeoutError."""
        uri = parse_uri(url)
        self._socket = _connect_socket(uri.host, uri.port, tls if uri.secure else None, deadline)
        self._protocol = ClientProtocol(uri, subprotocols=[PROTOCOL], max_size=_MESSAGE)
        self._unsent = bytearray()
        self._stdout, self._read = bytearray(), 0
        self._stderr = self._status = b""
        self._channel = 0
        with ExitStack() as undo:
            undo.callback(self._socket.close)
            self._shake_hands(headers, deadline)
            undo.pop_all()

    def _shake_hands(self, headers: dict[str, str], deadline: float) -> None:
        request = self._protocol.connect()
        for name, value in headers.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush(deadline)
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            if not (data := self._receive_some(deadline)):
                break
            self._protocol.receive_data(data)
            self._take_events()
        if self._protocol.state is not State.OPEN:
            raise _explain_handshake(self._protocol.handshake_exc)

    # ------------------------------------------------------------------------------------- sending

    def send(self, data: bytes, deadline: float) -> None:
        """See Wire.send. Also takes what is received meanwhile, which may be the process's end.

        After its end the server reads nothing more, so that sending would wait forever.
        """
        try:
            self._protocol.send_binary(bytes([_STDIN]) + data)
            while self._collect_unsent():
                self._exchange_some(deadline)
        except TimeoutError as error:
            raise Silent("it does not take what is sent") from error
        except (OSError, ValueError, WebSocketException) as error:  # ValueError: it is closed
            raise Ended(self._explain_break(error)) from error

    def _collect_unsent(self) -> bytearray:
        """Return what is still to be sent. Answers to pings are appended to it."""
        self._unsent += b"".join(self._protocol.data_to_send())
        return self._unsent

    def _exchange_some(self, deadline: float) -> None:
        """Wait until something can be received or sent, and do what is possible.

        Raises TimeoutError at `deadline`, and Ended once the process has ended.
        """
        events = select.POLLOUT | PEER_ENDED
        if len(self._stdout) - self._read < _MESSAGE:  # else only what makes room is waited for
            events |= select.POLLIN
        ready = self._poll(events, compute_time_left(deadline))
        if not ready:
            raise TimeoutError
        self._socket.settimeout(0)  # TLS may have to wait for the rest of a record
        if ready & ~select.POLLOUT:
            with suppress(*_NOT_YET):
                self._parse(self._read_socket())
        if not self._is_alive():
            raise Ended(self.get_last_output())
        if ready & select.POLLOUT:
            with suppress(*_NOT_YET):
                del self._unsent[: self._socket.send(self._unsent)]

    def _explain_break(self, error: Exception) -> str:
        """Read what came before the connection broke, as it may have the process's end."""
        with suppress(OSError):
            while self._is_alive() and self._is_readable():
                self._parse(self._read_socket())
        return self.get_last_output() if self._status else str(error)

    def _flush(self, deadline: float) -> None:
        while self._collect_unsent():
            self._socket.settimeout(compute_time_left(deadline))
            del self._unsent[: self._socket.send(self._unsent)]

    # ----------------------------------------------------------------------------------- receiving

    def receive(self, size: int, deadline: float) -> bytes:
        while len(self._stdout) - self._read < size:
            self._fill(deadline)
        part = bytes(self._stdout[self._read : self._read + size])
        self._read += size
        if self._read == len(self._stdout):
            self._stdout, self._read = bytearray(), 0
        return part

    def drain(self, deadline: float) -> bytes:
        """Wait for the process's end; returns the beginning of stdout. Raises Silent."""
        with suppress(Ended):
            while True:
                self._stdout, self._read = self._stdout[:_DRAINED], 0
                self._fill(deadline)
        return bytes(self._stdout[:_DRAINED])

    def _fill(self, deadline: float) -> None:
        """Receive something. Raises Silent, or Ended once the process has ended."""
        if not self._is_alive():
            raise Ended(self.get_last_output())
        try:
            data = self._receive_some(deadline)
        except TimeoutError as error:
            raise Silent("no answer in time") from error
        except OSError as error:
            raise Ended(str(error)) from error
        if not data:
            raise Ended(self.get_last_output())
        self._take(data)

    def _receive_some(self, deadline: float) -> bytes:
        self._socket.settimeout(compute_time_left(deadline))
        return self._read_socket()

    def _read_socket(self) -> bytes:
        data = self._socket.recv(_READ)
        if not data:
            self._protocol.receive_eof()
        return data

    def _take(self, data: bytes) -> None:
        try:
            self._parse(data)
        finally:
            with suppress(OSError):
                self._flush(time.monotonic() + 1)  # the answer to a ping or a close

    def _parse(self, data: bytes) -> None:
        if not data:
            return
        self._protocol.receive_data(data)
        self._take_events()
        if self._protocol.parser_exc is not None:
            raise BadReport(f"the API server sent no WebSocket frames: {self._protocol.parser_exc}")

    def _take_events(self) -> None:
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode in (Opcode.BINARY, Opcode.TEXT) and event.data:
                self._channel = event.data[0]  # the first byte of the message's first frame
                self._take_piece(bytes(event.data[1:]))
            elif event.opcode is Opcode.CONT:
                self._take_piece(bytes(event.data))

    def _take_piece(self, piece: bytes) -> None:
        if self._channel == _STDOUT:
            del self._stdout[: self._read]
            self._read = 0
            self._stdout += piece
        elif self._channel == _STDERR:
            self._stderr = (self._stderr + piece)[-_STDERR_KEPT:]
        elif self._channel == _STATUS:
            self._status = (self._status + piece)[:_STATUS_KEPT]

    def is_quiet(self) -> bool:
        before = self._stderr
        try:
            while self._is_alive() and self._is_readable():
                self._take(self._receive_some(time.monotonic() + 1))
                if len(self._stdout) > self._read or self._stderr != before:
                    return False
        except (OSError, BadReport):
            return False
        return self._is_alive() and len(self._stdout) == self._read

    def _is_alive(self) -> bool:
        is_open = self._protocol.state is State.OPEN and not self._status
        return is_open and self._socket.fileno() >= 0

    def _is_readable(self) -> bool:
        return bool(self._poll(select.POLLIN, 0))

    def _poll(self, events: int, seconds: float) -> int:
        """Return which of `events`, or which errors, are there; 0 after `seconds`."""
        decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        if decrypted and events & select.POLLIN:
            return select.POLLIN
        poll = select.poll()
        poll.register(self._socket, events)
        ready = poll.poll(1000 * seconds)
        return ready[0][1] if ready else 0

    # ------------------------------------------------------------------------------------- the end

    def get_exit_code(self) -> int | None:
        status = self._parse_status()
        if status.get("status") == "Success":
            return 0
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        for cause in causes if isinstance(causes, list) else []:
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
                return int(cause["message"])
        return None

    def _parse_status(self) -> dict[str, Any]:
        try:
            status = json.loads(self._status or b"{}")
        except (ValueError, RecursionError):
            return {}
        return status if isinstance(status, dict) else {}

    def get_last_output(self) -> str:
        """Return the end of stderr, else the API's message on the process's end."""
        output = self._stderr.decode("utf-8", "replace").strip()
        return output or str(self._parse_status().get("message") or "no message")[:300]

    def close(self) -> None:
        with suppress(OSError, WebSocketException):
            self._protocol.send_close(1000)
            self._flush(time.monotonic() + 1)
        self._socket.close()


def _connect_socket(
    host: str, port: int, tls: ssl.SSLContext | None, deadline: float
) -> socket.socket:
    connected = socket.create_connection((host, port), compute_time_left(deadline))
    with ExitStack() as undo:
        undo.callback(connected.close)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in list_keepalive_options():
            connected.setsockopt(*option)
        stream = tls.wrap_socket(connected, server_hostname=host) if tls else connected
        undo.pop_all()
    return stream


def _explain_handshake(error: Exception | None) -> Exception:
    """Turn a refused handshake into Refused, with the message of the API's Status."""
    if not isinstance(error, InvalidStatus):
        return OSError(f"the API server opens no WebSocket: {error or 'it hung up'}")
    response: Response = error.response
    body = bytes(response.body or b"")[:_STATUS_KEPT]
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        message = body.decode("utf-8", "replace") or response.reason_phrase
    return Refused(response.status_code, str(message)[:500])
