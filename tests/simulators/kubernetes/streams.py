"""A process in a pod over a WebSocket, as the API server and the kubelet pass it on."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import anyio.to_thread
from docker import APIClient
from docker.errors import DockerException
from starlette.websockets import WebSocket, WebSocketDisconnect

_PIECE = 32 * 1024
_STDOUT, _STDERR, _STATUS = 1, 2, 3


async def serve_exec(websocket: WebSocket, api: APIClient, container: str, user: str) -> None:
    """Start the process, pass its streams on, and end with its Status."""
    argv = websocket.query_params.getlist("command")
    process, stream, release = await anyio.to_thread.run_sync(start, api, container, argv, user)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_send_stdin, websocket, stream)
            await _send_output(websocket, stream)
            tasks.cancel_scope.cancel()
        code = await anyio.to_thread.run_sync(_get_exit_code, api, process)
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.send_bytes(bytes([_STATUS]) + json.dumps(make_status(code)).encode())
            await websocket.close()
    finally:
        release()


def start(
    api: APIClient, container: str, argv: list[str], user: str
) -> tuple[str, socket.socket, Callable[[], None]]:
    """Start a process; returns its id, its streams and what releases them."""
    created = api.exec_create(container, argv, stdin=True, user=user, workdir="/")
    file = cast(Any, api.exec_start(created["Id"], socket=True))
    response, closed = getattr(file, "_response", None), threading.Event()

    def release() -> None:
        if closed.is_set():
            return
        closed.set()
        if response is not None:
            response.close()
        file.close()

    stream = cast(socket.socket, getattr(file, "_sock", file))
    stream.settimeout(None)
    return created["Id"], stream, release


async def _send_stdin(websocket: WebSocket, stream: socket.socket) -> None:
    try:
        while True:
            message = await websocket.receive_bytes()
            if message[:1] == b"\0":
                await anyio.to_thread.run_sync(stream.sendall, message[1:])
    except (WebSocketDisconnect, RuntimeError, OSError):
        with suppress(OSError):  # the process's stdin ends with the client
            stream.shutdown(socket.SHUT_WR)


async def _send_output(websocket: WebSocket, stream: socket.socket) -> None:
    with suppress(WebSocketDisconnect, RuntimeError, OSError, EOFError):
        while True:
            kind, data = await anyio.to_thread.run_sync(_read_piece, stream)
            for begin in range(0, len(data), _PIECE):
                await websocket.send_bytes(bytes([kind]) + data[begin : begin + _PIECE])


def _read_piece(stream: socket.socket) -> tuple[int, bytes]:
    """Read a piece of the engine's stream: stdout or stderr."""
    kind, size = struct.unpack(">BxxxL", _read(stream, 8))
    return (_STDOUT if kind == 1 else _STDERR), _read(stream, size)


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _get_exit_code(api: APIClient, process: str) -> int | None:
    with suppress(DockerException, OSError):
        return cast("int | None", api.exec_inspect(process)["ExitCode"])
    return None


def make_status(code: int | None) -> dict[str, Any]:
    """The Status of a process that ended; without a code, of one whose container is gone."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    if code is None:
        told = "error executing command in container: container not running"
        return {"metadata": {}, "status": "Failure", "message": told, "reason": "InternalError"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
