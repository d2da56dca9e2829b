"""The receiver under 2,000 peers that are slow or lie: its memory, and how soon it answers."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from tests.bench.processes import Process, memory

PEERS = 2_000
SECONDS = 8.0
AIM_SECONDS = 1.0
AIM_BYTES = 64 << 20
"""All bodies that may be arriving, 50 MiB, and the connections themselves."""

PROGRAM = r"""
import json, resource, selectors, socket, sys, time
port, number, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
first, rest = sys.stdin.buffer.read().split(b"\0", 1)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
ready, opened, sent = selectors.DefaultSelector(), 0, 0
start = time.monotonic()
closed = [start] * number  # a moment for each peer that is not connected
while (now := time.monotonic()) < start + seconds:
    # Who was hung up on comes again a second later.
    while closed and (closed[0] + 1 < now or opened < number):
        closed.pop(0)
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(("127.0.0.1", port))
        ready.register(peer, selectors.EVENT_READ | selectors.EVENT_WRITE, 0)
        opened += 1
    for key, mask in ready.select(0.1):
        peer = key.fileobj
        try:
            if mask & selectors.EVENT_READ and not peer.recv(65536):
                raise ConnectionError
            if mask & selectors.EVENT_WRITE:
                sent += peer.send(rest if key.data else first)
                # Without a rest to send, it is silent from now on.
                more = selectors.EVENT_WRITE if rest else 0
                ready.modify(peer, selectors.EVENT_READ | more, 1)
        except BlockingIOError: pass
        except OSError:
            ready.unregister(peer)
            peer.close()
            closed.append(time.monotonic())
    # 100 MB a second, as of a network; without a rest, ten looks a second.
    due = start + sent / 100e6
    time.sleep(max(0, due - time.monotonic()) if rest else 0.1)
print(json.dumps({"opened": opened, "sent": sent}))
"""


@dataclass(frozen=True, slots=True)
class Attack:
    """What so many peers send: at first, and then on and on."""

    name: str
    peers: int
    first: bytes
    rest: bytes = b""


@dataclass(slots=True)
class Seen:
    """What the attack did to others."""

    before: int
    peak: int = 0
    opened: int = 0
    waits: list[float] = field(default_factory=list)


def attacks(path: str, forged: Mapping[str, str]) -> tuple[Attack, ...]:
    """Half heads, half bodies, and bodies of the full size that end with a wrong signature."""
    half = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n".encode()
    lines = [f"{name}: {value}" for name, value in forged.items()]
    head = half + "\r\n".join([*lines, f"content-length: {25 << 20}", "", "{"]).encode()
    return (
        Attack("half a head", PEERS, half),
        Attack("a forged head, and a byte of the body", PEERS, head),
        Attack("forged bodies of 25 MB", 40, head, bytes(1 << 16)),
    )


def measure(process: Process, attack: Attack) -> Seen:
    """Attack for some seconds, and ask for the health all the while."""
    seen = Seen(memory(process.pid))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, (process.port, attack.peers, SECONDS))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as attacker:
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        attacker.stdin.write(attack.first + b"\0" + attack.rest)
        attacker.stdin.close()
        while attacker.poll() is None:
            started = time.monotonic()
            httpx.get(f"http://127.0.0.1:{process.port}/healthz", timeout=60).raise_for_status()
            seen.waits.append(time.monotonic() - started)
            seen.peak = max(seen.peak, memory(process.pid))
            time.sleep(0.02)
        seen.opened = json.loads(attacker.stdout.read())["opened"]
        assert seen.opened >= attack.peers
    return seen


def main(process: Process, path: str, forged: Mapping[str, str]) -> None:
    """Print for each attack the health's answers and the memory of the receiver."""
    print(f"receiver: under slow peers, {SECONDS:g} s each: /healthz, and memory (MB)")
    for attack in attacks(path, forged):
        seen = measure(process, attack)
        waits, grown = sorted(seen.waits), (seen.peak - seen.before) / 1e6
        print(
            f"  {attack.peers:5,} x {attack.name:38s} {seen.opened:6,} opened; "
            f"{len(waits):3d} answers, "
            f"p50 {waits[len(waits) // 2] * 1000:.0f} ms, most {waits[-1] * 1000:.0f} ms "
            f"(< {AIM_SECONDS * 1000:.0f}); {seen.before / 1e6:.0f} + {grown:.0f} "
            f"(< {AIM_BYTES / 1e6:.0f})"
        )
