"""Proves from inside that a sandbox reaches nothing: exits with 0 if so.

    isolation.py SECONDS ADDRESS:PORT…

A network policy holds only if a plug-in of the cluster enforces it, and some plug-ins need a moment
for a new pod. So while any address answers, all are tried again, for up to SECONDS. The API server
is also tried at the address that the kubelet sets in the environment. Prints the addresses that
still answer, one per line, and the folder of a service account's token if it exists.

Each address is tried over TCP, and port 53 with a DNS query over UDP as well. A refused connection
counts as an answer, unless an ICMP error refused it: plug-ins reject packets that way, hosts do
not. Standard library only.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH110

import contextlib
import errno
import os
import select
import socket
import sys
import time

API_SERVER = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
TRY_SECONDS = 1.0
PAUSE = 0.25
TOKENS = "/var/run/secrets/kubernetes.io"
DNS_QUERY = b"\x5a\x5a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01"
"""A recursive DNS query for the name servers of the root."""

_UNDERWAY = (0, errno.EINPROGRESS, errno.EAGAIN)
_REFUSALS = (errno.ECONNREFUSED, errno.ECONNRESET)
# From linux/in.h, in6.h and errqueue.h; Python has no names for them.
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
_FROM_ICMP = (2, 3)


def list_addresses(named: list[str]) -> list[str]:
    """Add the API server that the kubelet names in each container's environment."""
    host, port = (os.environ.get(name, "") for name in API_SERVER)
    api = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return list(dict.fromkeys([*named, *([api] if host and port.isdigit() else [])]))


def parse_address(text: str) -> tuple[str, int]:
    """Parse "10.0.0.1:443" or "[fd00::1]:443"."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def open_probe(address: str, kind: socket.SocketKind) -> socket.socket | None:
    """Begin to connect; return None if the kernel cannot, such as without a route."""
    host, port = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        probe = socket.socket(family, kind)
    except OSError:
        return None
    probe.setblocking(False)
    with contextlib.suppress(OSError):
        probe.setsockopt(*_RECVERR[family], 1)
    begun = probe.connect_ex((host, port))
    if begun not in _UNDERWAY and begun not in _REFUSALS:
        probe.close()
        return None
    with contextlib.suppress(OSError):
        if kind == socket.SOCK_DGRAM:
            probe.send(DNS_QUERY)
    return probe


def has_answered(probe: socket.socket) -> bool:
    """Whether a ready probe got an answer, rather than an error from the way there."""
    if probe.type == socket.SOCK_DGRAM:
        with contextlib.suppress(OSError):
            return bool(probe.recv(512))
        return False
    error = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return not error or (error in _REFUSALS and not _is_icmp_error(probe))


def _is_icmp_error(probe: socket.socket) -> bool:
    """Whether the kernel names an ICMP message as the cause of the probe's error."""
    with contextlib.suppress(OSError, AttributeError):
        for level, kind, data in probe.recvmsg(0, 512, socket.MSG_ERRQUEUE)[1]:
            if (level, kind) in _RECVERR.values() and data[4] in _FROM_ICMP:
                return True
    return False


def find_answers(addresses: list[str]) -> list[str]:
    """Return the addresses that answer within a second."""
    waiting = {}
    for address in addresses:
        kinds = [(socket.SOCK_STREAM, select.POLLOUT)]
        if address.endswith(":53"):
            kinds.append((socket.SOCK_DGRAM, select.POLLIN))
        for kind, event in kinds:
            if probe := open_probe(address, kind):
                waiting[probe.fileno()] = (probe, address, event)
    poll = select.poll()
    for number, (_, _, event) in waiting.items():
        poll.register(number, event)
    answered, until = [], time.monotonic() + TRY_SECONDS
    while waiting and (left := until - time.monotonic()) > 0:
        for number, _ in poll.poll(left * 1000):
            probe, address, _ = waiting.pop(number)
            poll.unregister(number)
            if has_answered(probe):
                answered.append(address)
            probe.close()
    for probe, _, _ in waiting.values():
        probe.close()
    return answered


def _find_openings(addresses: list[str], seconds: float) -> list[str]:
    """Return what can be reached, after at most `seconds` plus one second."""
    tokens = [TOKENS] if os.path.exists(TOKENS) else []
    until = time.monotonic() + seconds
    while (answers := find_answers(addresses)) and time.monotonic() < until:
        time.sleep(PAUSE)
    return tokens + sorted(set(answers))


if __name__ == "__main__":
    openings = _find_openings(list_addresses(sys.argv[2:]), float(sys.argv[1]))
    print("\n".join(openings))
    sys.exit(1 if openings else 0)
