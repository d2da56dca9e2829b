"""Load on an HTTP server, made by a process of its own: its work is nobody's overhead."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

CONNECTIONS = 16

PROGRAM = r"""
import json, selectors, socket, sys, time
port, connections, seconds, rate = (float(word) for word in sys.argv[1:])
head, body = sys.stdin.buffer.read().split(b"\r\n\r\n", 1)
sent, done, times, statuses = 0, 0, [], {}
class Peer:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.due = b"", 0.0
    def send(self, due):
        global sent
        sent += 1
        number = b"%d" % (10**8 + int(time.time() * 1e6) % 10**8)
        self.due = due
        parts = head.replace(b"000000000", number), body.replace(b"123456789", number)
        self.socket.sendall(b"\r\n\r\n".join(parts))
    def answered(self):
        self.data += self.socket.recv(65536)
        top, cut, rest = self.data.partition(b"\r\n\r\n")
        if not cut: return False
        size = next(int(line.split(b":")[1]) for line in top.lower().split(b"\r\n")
                    if line.startswith(b"content-length"))
        if len(rest) < size: return False
        status = top[9:12].decode()
        statuses[status] = statuses.get(status, 0) + 1
        self.data = b""
        return True
peers = [Peer() for _ in range(int(connections))]
ready = selectors.DefaultSelector()
for peer in peers: ready.register(peer.socket, selectors.EVENT_READ, peer)
began = time.perf_counter()
end, idle, due = began + seconds, list(peers), began
while True:
    now = time.perf_counter()
    if now > end: break
    while idle and (not rate or due <= now):
        # An open loop: what has to wait for a free connection has waited.
        idle.pop().send(due if rate else now)
        due += 1 / rate if rate else 0
    wait = max(0.0, min(end, due if rate and idle else end) - now)
    for key, _ in ready.select(wait):
        if key.data.answered():
            times.append(time.perf_counter() - key.data.due)
            idle.append(key.data)
times.sort()
at = lambda share: times[min(len(times) - 1, int(len(times) * share))]
print(json.dumps({"rate": len(times) / seconds, "p50": at(0.5), "p99": at(0.99),
                  "statuses": statuses}))
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of it: answers per second, and the seconds they took."""

    rate: float
    p50: float
    p99: float


def drive(
    port: int,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    expected: int,
    *,
    seconds: float = 2.0,
    rate: float = 0.0,
    connections: int = CONNECTIONS,
) -> Told:
    """POST `body` for so long, as fast as answers come or `rate` times a second.

    Every nine zeros in the headers and every 123456789 in the body become a number of the request's
    own. Anything but `expected` as status is an AssertionError.
    """
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, (port, connections, seconds, rate))],
        input="\r\n".join(lines).encode() + b"\r\n\r\n" + body,
        stdout=subprocess.PIPE,
        check=True,
        timeout=seconds + 60,
    )
    told = json.loads(done.stdout)
    assert set(told.pop("statuses")) == {str(expected)}, done.stdout
    return Told(**told)
