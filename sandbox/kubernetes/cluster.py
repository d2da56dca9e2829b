"""Talks to the API server of a cluster, and translates the errors of the client library."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlencode, urlsplit

import httpx
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster as ClusterConfig
from lightkube.config.models import Context, User
from lightkube.core.dataclasses_dict import DataclassDictMixIn
from lightkube.core.exceptions import ConfigError
from lightkube.models.meta_v1 import Status
from lightkube.resources.core_v1 import Pod

from sandbox.base import SandboxError, SandboxGone, SandboxRefused, SandboxUnavailable
from sandbox.kubernetes.exec_stream import ExecStream, Refused
from sandbox.kubernetes.manifest import CONTAINER
from worker.transport.failures import explain_tls_port, find_cause, show_address

CALL_TIMEOUT = 30
"""Seconds for one request to the API server. Streams have deadlines of their own."""


_MODELS_LOCK = threading.Lock()
_CA_SETTING = "certificate-authority in KUBECONFIG"
_ADVICE = "see that KUBECONFIG names a cluster that runs"


class Missing(SandboxGone):
    """The API server does not know the pod."""


@contextmanager
def translate_cluster_errors(
    kind: type[SandboxError], doing: str, server: str = ""
) -> Iterator[None]:
    """Turn the errors of the client library into `kind`; the cause is kept.

    A 404 becomes Missing. An error that will last becomes SandboxRefused if `kind` is
    SandboxUnavailable.
    """
    try:
        yield
    except (ApiError, Refused, httpx.HTTPStatusError) as error:
        code = error.code if isinstance(error, Refused) else error.response.status_code
        body = b"" if isinstance(error, Refused) else error.response.content
        if cause := explain_tls_port(body, server):
            raise kind(f"{doing}: {show_address(server)} does not answer: {cause}") from error
        is_bare = isinstance(error, httpx.HTTPStatusError) and not isinstance(error, ApiError)
        said = f"HTTP {code}" if is_bare else str(error)[:500] or f"HTTP {code}"
        if code == 401 or "cannot" in said:
            said += " (the service account may not: see the chart's Role for sandboxes)"
        message = f"{doing}: Kubernetes says: {said}"
        if code == 404:
            raise Missing(message) from error
        # An exceeded quota is a 403 too, but temporary.
        lasts = code in (400, 401, 403, 422) and "exceeded quota" not in message
        refusal = SandboxRefused if lasts and kind is SandboxUnavailable else kind
        raise refusal(message) from error
    except (ConfigError, KeyError) as error:
        raise kind(
            f"{doing}: no cluster is configured ({error}): run Sandpiper in a pod with a service "
            "account, or set KUBECONFIG"
        ) from error
    except RuntimeError as error:  # httpx's, after another thread closed the client
        raise kind(f"{doing}: it was closed meanwhile") from error
    except (httpx.HTTPError, OSError) as error:
        cause = find_cause(error, server, _CA_SETTING, by_proxy=False, advice=_ADVICE)
        place = f"the API server {show_address(server)}" if server else "the API server"
        raise kind(f"{doing}: {place} does not answer: {cause}") from error


def _read_config() -> tuple[SingleConfig, User]:
    """Return the configuration and its user. Raises ConfigError, or KeyError."""
    try:
        config = KubeConfig.from_env().get()
    except (AttributeError, TypeError, yaml.YAMLError) as error:  # a file of another content
        raise ConfigError("the configuration is not one of kubectl's") from error
    if config is None or config.user is None:
        raise ConfigError("the configuration names no user")
    return config, config.user


@cache
def _prepare_models() -> None:
    """Use every class of pods and of kubectl's configuration once. Call it under `_MODELS_LOCK`.

    lightkube sets up a class at its first use and without a lock: a second thread that meets the
    class at that moment fails with AttributeError or TypeError.
    """
    waiting: list[Any] = [Pod, Status, ClusterConfig, Context, User]
    seen = set()
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, DataclassDictMixIn) and kind not in seen:
            seen.add(kind)
            with suppress(TypeError):  # a class with required fields: it is set up all the same
                kind.from_dict({})  # type: ignore[no-untyped-call]
            waiting += get_type_hints(kind).values()


class Cluster:
    """One namespace of the cluster. Thread-safe except for `close`.

    The cluster is the one whose pod this process runs in, else the one of $KUBECONFIG or of
    ~/.kube/config; without `namespace`, the namespace configured there is used. A replaced token of
    a service account is read anew.
    """

    def __init__(self, namespace: str = "") -> None:
        """Raises SandboxUnavailable."""
        with _MODELS_LOCK:
            _prepare_models()
        with translate_cluster_errors(SandboxUnavailable, "looking for a cluster"):
            config, user = _read_config()
            self._config: SingleConfig = config
            # The environment must name no proxy and no other certificate authority.
            self._client = Client(
                config, timeout=httpx.Timeout(CALL_TIMEOUT), trust_env=False, lazy=False
            )
            self._tls = verify_cluster(config.cluster, user, config.abs_file, False)
        self.namespace = namespace or config.namespace
        self.server = str(config.cluster.server)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get_version(self) -> str:
        """Return the API server's version. Raises SandboxUnavailable."""
        auth = user_auth(self._config.user)
        with (
            translate_cluster_errors(
                SandboxUnavailable, "asking the cluster what it is", self.server
            ),
            httpx.Client(
                base_url=self.server, verify=self._tls, auth=auth, trust_env=False
            ) as client,
        ):
            answer = client.get("/version", timeout=CALL_TIMEOUT)
            answer.raise_for_status()
            return str(answer.json().get("gitVersion", "unknown"))[:60]

    # ---------------------------------------------------------------------------------------- pods

    def create_pod(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Pod:
        """Create a pod. Raises SandboxUnavailable."""
        with translate_cluster_errors(SandboxUnavailable, "creating the sandbox", self.server):
            pod: Pod = Pod.from_dict(manifest)  # type: ignore[no-untyped-call]
            created: Pod = self._client.create(pod, namespace=self.namespace, dry_run=dry_run)
            return created

    def get_pod(self, name: str) -> Pod:
        """Return a pod. Raises Missing, or SandboxGone."""
        with translate_cluster_errors(SandboxGone, "looking after a sandbox", self.server):
            return self._client.get(Pod, name, namespace=self.namespace)

    def list_pods(self, labels: dict[str, str]) -> list[Pod]:
        """List the pods with these labels. Raises SandboxUnavailable."""
        with translate_cluster_errors(SandboxUnavailable, "looking for sandboxes", self.server):
            return list(self._client.list(Pod, namespace=self.namespace, labels=dict(labels)))

    def label_pod(self, name: str, labels: dict[str, str]) -> None:
        """Set labels of a pod. Raises Missing, or SandboxGone."""
        with translate_cluster_errors(SandboxGone, "labelling a sandbox", self.server):
            self._client.patch(
                Pod, name, {"metadata": {"labels": labels}}, namespace=self.namespace
            )

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once; a missing pod is no error. Raises SandboxGone."""
        with (
            suppress(Missing),
            translate_cluster_errors(SandboxGone, "removing a sandbox", self.server),
        ):
            self._client.delete(Pod, name, namespace=self.namespace, grace_period=0)

    # ------------------------------------------------------------------------------------ processes

    def start_process(self, pod: str, argv: list[str], deadline: float) -> ExecStream:
        """Start a process in a pod's container. Raises Missing, or SandboxGone."""
        words = [("command", word) for word in argv]
        options = [("container", CONTAINER), ("stdin", "1"), ("stdout", "1"), ("stderr", "1")]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/exec?{urlencode(words + options)}"
        url = "ws" + self.server.removeprefix("http").rstrip("/") + path
        with translate_cluster_errors(
            SandboxGone, "starting a process in the sandbox", self.server
        ):
            auth, request = user_auth(self._config.user), httpx.Request("GET", self.server)
            if auth is not None:
                next(auth.sync_auth_flow(request))
            value = request.headers.get("Authorization")
            headers = {"Authorization": value} if value else {}
            return ExecStream(url, headers, self._tls, deadline)

    def find_own_address(self) -> str:
        """Return this machine's address as the API server sees it; "" if that is unknown."""
        parts = urlsplit(self.server)
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((parts.hostname or "", parts.port or 443))
            return str(probe.getsockname()[0])
        return ""


RESOLVER = Path("/etc/resolv.conf")

_OUTSIDE = ("169.254.169.254:80", "[fd00:ec2::254]:80", "1.1.1.1:443")
"""Metadata addresses of clouds, and the internet."""
_WORKER_PORT = 8080


def list_targets(server: str, own: str, resolver: Path = RESOLVER) -> list[str]:
    """List the API server, the name servers, this worker, metadata addresses and the internet.

    `own` is this worker's address, "" if it is unknown. Each is an IP address with a port, such as
    "10.0.0.1:443" or "[fd00::1]:53", because the sandbox cannot resolve names.
    """
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    near = list[tuple[str, int]]()
    with suppress(OSError):
        entries = socket.getaddrinfo(parts.hostname or "", port, type=socket.SOCK_STREAM)
        near += [(str(address[0]), port) for *_, address in entries]
    with suppress(OSError, UnicodeError):
        lines = [line.split() for line in resolver.read_text().splitlines()]
        near += [(words[1], 53) for words in lines if words[:1] == ["nameserver"] and words[1:]]
    if own:
        near.append((own, _WORKER_PORT))
    addresses = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in near]
    # The sandbox has a loopback of its own.
    others = [each for each in addresses if not each.startswith(("127.", "[::1]"))]
    return list(dict.fromkeys([*others, *_OUTSIDE]))


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster's version and API server, and the namespace of sandboxes."""

    version: str
    server: str
    namespace: str


def describe_cluster(namespace: str = "") -> ClusterFacts:
    """Describe the cluster that pods are started in. Raises SandboxUnavailable."""
    with closing(Cluster(namespace)) as cluster:
        return ClusterFacts(cluster.get_version(), cluster.server, cluster.namespace)
