"""Asks a Docker engine or a cluster what it is."""

from contextlib import closing
from dataclasses import dataclass

from sandbox.base import SandboxUnavailable
from sandbox.engine import get_engine_address, open_engine, translate_engine_errors
from sandbox.kubernetes.cluster import Cluster

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
