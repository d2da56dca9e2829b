"""Builds the drivers of sandboxes, and removes stale sandboxes."""

import atexit
import logging
import threading

from sandbox import bubblewrap, docker
from sandbox.background import POOL_LIFETIME, Pool, PoolableDriver
from sandbox.base import Driver, Sandbox, SandboxError, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver
from sandbox.spec import ContainerSpec
from sandbox.tools import find_versions
from worker.errors import ConfigError, SandpiperError
from worker.settings import Settings
from worker.turns.session import CLAIM_MARGIN

log = logging.getLogger("sandpiper.sandbox")


def build_driver(settings: Settings) -> PoolableDriver:
    """Build the driver that starts sandboxes. Raises ConfigError."""
    options = settings.sandbox
    try:
        spec = ContainerSpec(
            image=options.image,
            runtime=options.runtime,
            memory=options.memory,
            cpus=options.cpus,
            pids=options.pids,
            shared_limits=options.shared_limits,
            disk=options.disk,
            preview=settings.limits.preview_bytes,
        )
    except ValueError as error:
        raise ConfigError(f"sandbox: {error}") from error
    if options.driver == "kubernetes":
        return _build_pod_driver(settings, spec)
    return BubblewrapDriver(spec) if options.driver == "bubblewrap" else DockerDriver(spec)


def _build_pod_driver(settings: Settings, spec: ContainerSpec) -> PoolableDriver:
    # Importing the cluster's client takes a tenth of a second, which other drivers need not spend.
    from sandbox.kubernetes.driver import KubernetesDriver
    from sandbox.kubernetes.manifest import PodSettings

    options = settings.sandbox
    pods = PodSettings(options.pull_secrets, lifetime=int(_compute_lifetime(settings)))
    return KubernetesDriver(spec, options.namespace, pods)


def _compute_lifetime(settings: Settings) -> float:
    """Compute the seconds after which no run can need a sandbox any more."""
    return POOL_LIFETIME + 2 * (settings.limits.wall_clock + CLAIM_MARGIN)


def build_sandboxes(settings: Settings) -> Driver:
    """Build the driver, with a pool if configured; the pool is closed when this process ends."""
    driver = build_driver(settings)
    if not settings.sandbox.pool:
        return driver
    pool = Pool(driver, settings.sandbox.pool)
    atexit.register(pool.close)
    pool.fill()
    return pool


def leave_out_pool(settings: Settings) -> Settings:
    """Return the settings of a command that needs one sandbox at most, so that none waits."""
    sandbox = settings.sandbox.model_copy(update={"pool": 0})
    return settings.model_copy(update={"sandbox": sandbox})


class SandboxTools:
    """The interpreters and build tools of sandboxes, looked up in the first one. Thread-safe."""

    def __init__(self) -> None:
        self._known = ""
        self._lock = threading.Lock()

    def describe_versions(self, sandbox: Sandbox | None) -> str:
        """Return what `find_versions` found; "" while no sandbox has answered."""
        with self._lock:
            if not self._known and sandbox:
                try:
                    self._known = find_versions(sandbox)
                except SandboxError as error:
                    log.warning("the tools of the sandbox are not known: %s", error)
            return self._known


def remove_stale_sandboxes(settings: Settings) -> list[str]:
    """Remove sandboxes that are older than any run, and return their sessions.

    Raises SandpiperError.
    """
    age, options = _compute_lifetime(settings), settings.sandbox
    try:
        if options.driver == "bubblewrap":
            return bubblewrap.remove_leftovers(age)
        if options.driver == "kubernetes":
            from sandbox.kubernetes.driver import remove_stale_pods

            return remove_stale_pods(age, namespace=options.namespace)
        return docker.remove_stale_containers(None, age)
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error
