"""The addresses that no sandbox may reach."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

RESOLVER = Path("/etc/resolv.conf")

_OUTSIDE = ("169.254.169.254:80", "[fd00:ec2::254]:80", "1.1.1.1:443")
"""Metadata addresses of clouds, and the internet."""
_WORKER_PORT = 8080


class Surroundings(Protocol):
    """What `list_targets` needs of sandbox.kubernetes.cluster.Cluster."""

    @property
    def server(self) -> str: ...

    def find_own_address(self) -> str: ...


def list_targets(cluster: Surroundings, resolver: Path = RESOLVER) -> list[str]:
    """List the API server, the name servers, this worker, metadata addresses and the internet.

    Each is an IP address with a port, such as "10.0.0.1:443" or "[fd00::1]:53", because the
    sandbox cannot resolve names.
    """
    parts = urlsplit(cluster.server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    own = cluster.find_own_address()
    addresses = [
        *_resolve(parts.hostname or "", port),
        *(_format(server, 53) for server in _read_name_servers(resolver)),
        *([_format(own, _WORKER_PORT)] if own else []),
        *_OUTSIDE,
    ]
    return list(dict.fromkeys(each for each in addresses if not _is_loopback(each)))


def _resolve(host: str, port: int) -> list[str]:
    with suppress(OSError):
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [_format(str(address[0]), port) for *_, address in entries]
    return []


def _read_name_servers(resolver: Path) -> list[str]:
    with suppress(OSError, UnicodeError):
        lines = [line.split() for line in resolver.read_text().splitlines()]
        return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return []


def _format(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _is_loopback(address: str) -> bool:
    """Whether this is a loopback address. The sandbox has a loopback of its own."""
    return address.startswith(("127.", "[::1]"))
