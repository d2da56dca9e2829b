"""Follows GitLab's redirects of downloads: to its own host, named hosts, and public addresses.

The target of a redirect is not trusted: the connection is made to the address that was checked, and
no credential is sent.
"""

import socket
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.utils import select_proxy

from worker.gitlab.client import DEADLINE, Refused
from worker.transport.urllib3_connections import BoundedAdapter, bind_session

_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

AddressOf = Callable[[str, int], str]

_ADVICE = "if that is right, name the host in gitlab.download_hosts"


def is_public(address: str) -> bool:
    """Whether the address is public: not this machine, its network or a cloud's metadata."""
    found = ip_address(address.partition("%")[0])
    if found.version == 6:
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None:
            return found in _UNICAST and found.is_global
        found = inner
    return found.is_global and not found.is_multicast


def find_public_address(host: str, port: int) -> str:
    """Return the first address of a host. Raises Refused unless all its addresses are public."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"it is kept at {host[:200]!r}, which has no address") from error
    addresses = [str(address[0]) for *_, address in found]
    if not addresses or not all(map(is_public, addresses)):
        raise Refused(f"it is kept at {host[:200]!r}, which is not a public address: {_ADVICE}")
    return addresses[0]


class Downloads:
    """Follows a redirect of GitLab's. `hosts` are allowed whatever their address is."""

    def __init__(
        self,
        schemes: Collection[str],
        hosts: Collection[str],
        timeout: tuple[float, float],
        address_of: AddressOf = find_public_address,
    ) -> None:
        self._schemes = schemes
        self._hosts = frozenset(host.lower() for host in hosts)
        self._timeout = timeout
        self._address_of = address_of

    def has_supported_scheme(self, target: str) -> bool:
        """Whether the URL `target` has one of the allowed schemes."""
        return target.partition(":")[0].lower() in self._schemes

    def get(self, target: str) -> requests.Response:
        """Return a streamed response with status 200. Raises Refused, and requests' own errors."""
        adapter = _PinnedAdapter(self._hosts, self._address_of)
        with requests.Session() as session:
            bind_session(session, adapter)
            # Without one, requests would look for credentials in ~/.netrc.
            session.auth = lambda request: request
            response = session.get(
                target, stream=True, timeout=self._timeout, allow_redirects=False
            )
        if response.status_code != 200:
            response.close()
            raise Refused(f"the store it is kept in answers {response.status_code}")
        return response


class _PinnedAdapter(BoundedAdapter):
    """Connects to an address that was checked, with the URL's host as `Host` header and TLS name.

    A second DNS lookup could give another address.
    """

    def __init__(self, hosts: Collection[str], address_of: AddressOf) -> None:
        self._hosts = hosts
        self._address_of = address_of
        super().__init__(DEADLINE)

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        url = request.url or ""
        try:
            where, tls = self.build_connection_pool_key_attributes(request, verify, cert)
        except ValueError as error:
            raise requests.exceptions.InvalidURL(error, request=request) from error
        host = str(where["host"] or "").lower()
        if host in self._hosts:
            return super().get_connection_with_tls_context(request, verify, proxies, cert)
        if select_proxy(url, proxies):
            raise Refused(f"it is kept at {host[:200]!r}, behind a proxy: {_ADVICE}")
        https = where["scheme"] == "https"
        address = self._address_of(host, where["port"] or (443 if https else 80))
        request.headers["Host"] = urlsplit(url).netloc.rpartition("@")[2]
        names = {"server_hostname": host, "assert_hostname": host} if https else {}
        return self.poolmanager.connection_from_host(
            **where | {"host": address}, pool_kwargs=tls | names
        )
