"""Opens connections to a Docker engine, translates its errors, and asks what it is."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import docker
from docker import APIClient
from docker.context import ContextAPI
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.wire import list_keepalive_options
from worker.transport.failures import explain_tls_port, find_cause

CALL_TIMEOUT = 60
"""Seconds for one request to the engine. Hijacked streams have deadlines of their own."""

_OLDEST_API = "1.41"
"""The API version of Docker 20.10, used only to ask the engine for its version."""


@contextmanager
def translate_engine_errors(kind: type[SandboxError], doing: str) -> Iterator[None]:
    """Turn every error of docker-py and its transport into `kind`; the cause is kept."""
    try:
        yield
    except APIError as error:
        said = str(error.explanation or error)[:500]
        raise kind(f"{doing}: the Docker engine says: {said}") from error
    except (DockerException, OSError) as error:
        raise kind(f"{doing}: the Docker engine does not answer: {_find_why(error)}") from error


def _find_why(error: Exception, where: str = "") -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"what answers there is no Docker engine: {_ADVICE}"
    said = str(error.explanation or error) if isinstance(error, APIError) else ""
    cause = explain_tls_port(said.encode(), where) or find_cause(
        error, where, "DOCKER_CERT_PATH", by_proxy=False, advice=_ADVICE
    )
    return str(cause)


_ADVICE = "start one, or set DOCKER_HOST to where it listens"


def get_engine_address(base_url: str | None) -> str:
    """Return the engine's address: `base_url`, else $DOCKER_HOST, else the current context's."""
    named = base_url or kwargs_from_env().get("base_url")
    if named:
        return str(named)
    context = ContextAPI.get_current_context()
    return str(context.Host if context else "unix:///var/run/docker.sock")


def open_engine(base_url: str | None) -> APIClient:
    """Open a client, which the caller closes. Raises SandboxUnavailable.

    Without `base_url` the engine is Docker's usual choice: DOCKER_HOST, the current context, or
    the default socket. The API version is the engine's; Docker 20.10 is the oldest.
    """
    where = base_url or "the usual place"
    try:
        where = get_engine_address(base_url)
        scheme, _, path = where.partition("://")
        if scheme in ("unix", "http+unix"):  # docker-py leaks a socket that cannot be connected
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(CALL_TIMEOUT)
                probe.connect(f"/{path.lstrip('/')}")
        with closing(_make_client(base_url, _OLDEST_API)) as oldest:
            version = oldest.version(api_version=False)["ApiVersion"]
        return _make_client(base_url, version)
    except (DockerException, OSError, ValueError) as error:
        why = _find_why(error, where)
        raise SandboxUnavailable(f"no Docker engine answers at {where}: {why}") from error


def _make_client(base_url: str | None, version: str) -> APIClient:
    """Make a client without connecting it.

    It heeds DOCKER_* variables only: REQUESTS_CA_BUNDLE would replace the engine's certificate
    authority (DOCKER_CERT_PATH), and requests to an engine on loopback would go through a proxy.
    Its TCP connections, also those that become a runner's stream, are probed while they are silent.
    """
    if base_url is None:
        api = docker.from_env(version=version, timeout=CALL_TIMEOUT).api
    else:
        api = APIClient(base_url=base_url, version=version, timeout=CALL_TIMEOUT)
    api.trust_env = False
    for adapter in api.adapters.values():
        if isinstance(adapter, HTTPAdapter):
            adapter.poolmanager.connection_pool_kw["socket_options"] = [
                *HTTPConnection.default_socket_options,
                *list_keepalive_options(),
            ]
    return api


_WORD = 60


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's version, address and runtimes, and whether it runs rootless."""

    version: str
    address: str
    runtimes: tuple[str, ...]
    rootless: bool
    cgroups: str


def describe_engine() -> Engine:
    """Describe Docker's default engine. Raises SandboxUnavailable."""
    with (
        closing(open_engine(None)) as api,
        translate_engine_errors(SandboxUnavailable, "asking the engine what it is"),
    ):
        info = api.info()
        options = [str(each) for each in info.get("SecurityOptions") or ()]
        return Engine(
            version=str(info.get("ServerVersion", "unknown"))[:_WORD],
            address=get_engine_address(None),
            runtimes=tuple(sorted(map(str, info.get("Runtimes") or {})))[:20],
            rootless=any("rootless" in each for each in options),
            cgroups=str(info.get("CgroupVersion", "unknown"))[:_WORD],
        )
