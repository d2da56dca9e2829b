"""A model server with no think time, in a process of its own: its work is nobody's overhead."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

PROGRAM = """
import socket, sys, threading
calls, says = (answer.encode("latin-1") for answer in sys.argv[1:])
def serve(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked, data = 0, b""
    while True:
        while b"\\r\\n\\r\\n" not in data:
            more = peer.recv(1 << 20)
            if not more: return
            data += more
        top, _, rest = data.partition(b"\\r\\n\\r\\n")
        size = next(int(l.split(b":")[1]) for l in top.lower().split(b"\\r\\n")
                    if l.startswith(b"content-length"))
        have = len(rest)
        while have < size: have += len(peer.recv(1 << 20))
        asked, data = asked + 1, b""
        # No two calls alike: the loop stops a model that goes round in circles.
        call = calls.replace(b"0000000", b"%07d" % asked)
        peer.sendall(call if asked % int(top.split(b"/")[1]) else says)
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen()
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""

CALL = {"type": "tool_use", "id": "toolu_0000000", "name": "look", "input": {"n": "0000000"}}
SAY = {"type": "text", "text": "It was a time-out."}


def answer(content: Sequence[Mapping[str, object]], stop: str) -> str:
    """An answer of the Messages API, as it comes over the wire."""
    body = json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }
    )
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}"


@contextmanager
def running() -> Iterator[str]:
    """The server's base URL. Under URL/N every Nth answer on a connection is the last word."""
    answers = [answer([CALL], "tool_use"), answer([SAY], "end_turn")]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *answers], stdout=subprocess.PIPE, text=True
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
