"""The way to a Docker engine: opening it, and telling its failures apart."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker
from docker import APIClient
from docker.context import ContextAPI
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

from sandbox.base import SandboxError, SandboxGone, SandboxUnavailable

CALL_TIMEOUT = 60
"""Seconds any one request to the engine may take. Hijacked streams have deadlines of their own."""

_OLDEST_API = "1.41"
"""Of Docker 20.10. Only to ask for the engine's own version with."""


@contextmanager
def engine_errors(kind: type[SandboxError], doing: str) -> Iterator[None]:
    """Translates whatever docker-py and its transport raise into `kind`; the cause is kept."""
    try:
        yield
    except APIError as error:
        raise kind(f"{doing}: the Docker engine says: {_explanation(error)}") from error
    except (DockerException, OSError) as error:
        raise kind(f"{doing}: the Docker engine does not answer ({error})") from error


def _explanation(error: APIError) -> str:
    return str(error.explanation or error)[:500]


def address(base_url: str | None) -> str:
    """Where the engine is expected: what was given, $DOCKER_HOST, or the current context's."""
    named = base_url or kwargs_from_env().get("base_url")
    if named:
        return str(named)
    context = ContextAPI.get_current_context()
    return str(context.Host if context else "unix:///var/run/docker.sock")


def open_engine(base_url: str | None) -> APIClient:
    """A client of its own, to be closed by the caller. Raises SandboxUnavailable.

    Without `base_url` the engine is Docker's usual choice: DOCKER_HOST, the current context, or
    the default socket. The API version is the engine's (it may be as old as 20.10).
    """
    where = base_url or "the usual place"
    try:
        where = address(base_url)
        _knock(where)
        with closing(_client(base_url, _OLDEST_API)) as probe:
            version = probe.version(api_version=False)["ApiVersion"]
        return _client(base_url, version)
    except (DockerException, OSError, ValueError) as error:
        raise SandboxUnavailable(
            f"no Docker engine answers at {where}: start one, or set DOCKER_HOST to where it "
            f"listens, and see that this user may use it ({str(error)[:300]})"
        ) from error


def _client(base_url: str | None, version: str) -> APIClient:
    """A client that has contacted nobody yet.

    It heeds DOCKER_* only: REQUESTS_CA_BUNDLE would take the place of the engine's own authority
    (DOCKER_CERT_PATH), and a proxy would be asked for an engine on loopback.
    """
    if base_url is None:
        api = docker.from_env(version=version, timeout=CALL_TIMEOUT).api
    else:
        api = APIClient(base_url=base_url, version=version, timeout=CALL_TIMEOUT)
    api.trust_env = False
    return api


def _knock(where: str) -> None:
    """Connect to a socket file and leave: docker-py leaks its socket if it cannot connect."""
    scheme, _, path = where.partition("://")
    if scheme in ("unix", "http+unix"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CALL_TIMEOUT)
            probe.connect(f"/{path.lstrip('/')}")


def container_runs(api: APIClient, container: str) -> bool:
    """Whether the container still runs. Raises SandboxGone when the engine does not answer."""
    try:
        with engine_errors(SandboxGone, "looking after a container"):
            return bool(api.inspect_container(container)["State"]["Running"])
    except SandboxGone as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            return False
        raise
