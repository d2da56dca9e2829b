"""A model server with no think time, in a process of its own: its work is nobody's overhead."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROGRAM = """
import socket, sys
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen()
print(listener.getsockname()[1], flush=True)
head, body = sys.argv[1].encode().decode("unicode_escape").encode(), sys.argv[2].encode()
while True:
    peer, _ = listener.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    while True:
        while b"\\r\\n\\r\\n" not in data:
            more = peer.recv(1 << 20)
            if not more: break
            data += more
        if b"\\r\\n\\r\\n" not in data: break
        top, _, rest = data.partition(b"\\r\\n\\r\\n")
        size = next(int(l.split(b":")[1]) for l in top.lower().split(b"\\r\\n")
                    if l.startswith(b"content-length"))
        have = len(rest)
        while have < size: have += len(peer.recv(1 << 20))
        data = b""
        peer.sendall(head + body)
    peer.close()
"""


def answer() -> bytes:
    """An answer of the Messages API that calls one tool."""
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 1}}],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }
    ).encode()


@contextmanager
def running() -> Iterator[str]:
    """The server's base URL."""
    body = answer()
    head = (
        "HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n"
        f"content-length: {len(body)}\\r\\n\\r\\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, head, body.decode()], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        socket.create_connection(("127.0.0.1", port), 5).close()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
