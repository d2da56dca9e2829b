"""Builds what outlives a turn: the stores of sessions, and the drivers of sandboxes."""

import atexit
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sandbox import bubblewrap, docker
from sandbox.background import POOL_LIFETIME, Pool, PoolableDriver
from sandbox.base import Driver, Sandbox, SandboxError, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver
from sandbox.spec import ContainerSpec
from sandbox.tools import find_versions
from worker.clock import SystemClock
from worker.errors import ConfigError, SandpiperError, StoreError
from worker.pages.http import PageSettings
from worker.queue.leases import Leases
from worker.sessions import table
from worker.sessions.objects import Addressing
from worker.sessions.store import SessionStore
from worker.sessions.table import guard_store, open_store
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.turns.session import CLAIM_MARGIN

_log = logging.getLogger("sandpiper.store")

SHARED = Path("/var/lib/sandpiper")
"""The folder of the default store."""

PATIENCE = 300.0
"""Seconds for which a process that starts waits for a store that is away."""

SECOND_LOOK = 5.0
"""Seconds after which a refusal, which may be somebody else's, is believed."""

_LONGEST_PAUSE = 15.0

T = TypeVar("T")


def choose_folder(settings: Settings, shared: Path = SHARED) -> Settings:
    """Return the settings of a process whose user can write its store.

    Where no store is set, it is the folder `shared`. If that is not there and this user cannot make
    it, as at a first try without a server, it is a folder of the user's own.
    """
    if "store" in settings.model_fields_set or shared.exists():
        return settings
    above = next(each for each in shared.parents if each.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return settings
    try:
        base = Path("~/.local/state").expanduser()
    except RuntimeError:  # a user without a home
        return settings
    return settings.model_copy(update={"store": f"file://{quote(str(base / shared.name))}"})


def open_session_store(settings: Settings) -> SessionStore:
    """Open the session store. Raises ConfigError or StoreError.

    Another S3 server than Amazon's is asked where it expects the bucket's name. If it ignores
    conditional writes, a Redis broker guards it.
    """
    chosen = settings.s3_addressing
    addressing: Addressing = "path" if chosen == "auto" else chosen
    if chosen == "auto" and _is_imitation(settings):
        addressing = _find_addressing(settings.store, settings.s3_endpoint)
    store = open_store(settings.store, settings.s3_endpoint or None, addressing)
    if not _is_imitation(settings) or not settings.broker.startswith("redis"):
        return store
    if store.honours_conditions():
        return store
    secured = settings.broker.startswith("rediss://")
    options = settings.broker_tls.get_redis_options() if secured else {}
    return guard_store(store, settings.broker, options)


def _is_imitation(settings: Settings) -> bool:
    """Whether the store is S3's, and not Amazon's."""
    return settings.store.startswith("s3://") and bool(settings.s3_endpoint)


@cache
def _find_addressing(url: str, endpoint: str) -> Addressing:
    """Find the addressing once for the whole process; an error is not kept."""
    return table.find_addressing(url, endpoint)


def find_other_addressing(settings: Settings) -> Addressing | None:
    """Return the addressing that the S3 server answers to if it is not the one that is set, for an
    advice."""
    if settings.s3_addressing == "auto" or not _is_imitation(settings):
        return None
    chosen = settings.s3_addressing
    return table.find_other_addressing(settings.store, settings.s3_endpoint, chosen)


def build_pages(settings: Settings) -> PageSettings:
    """Build the settings of the pages that show what is stored."""
    pages = settings.pages
    return PageSettings(pages.url, pages.days, pages.secret, pages.operator_token, time.time)


def open_watched_store(settings: Settings, watched: Telemetry | None) -> SessionStore:
    """Open the session store; `watched`, if given, counts what is done in it.

    Raises ConfigError or StoreError.
    """
    store = open_session_store(settings)
    return SessionStore(watched.wrap_objects(store.records)) if watched else store


def wait_for_store(
    look: Callable[[], T],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> T:
    """Return what `look` returns, also if the store is away at first, or somebody answers for it.

    One odd answer would end a process that starts. Raises the last StoreError after PATIENCE, a
    refusal after SECOND_LOOK, what is sure to last at once, and `look`'s other errors.
    """
    begun, pause = now(), 1.0
    while True:
        try:
            return look()
        except StoreError as error:
            patience = PATIENCE if error.transient else SECOND_LOOK if error.doubtful else 0.0
            if now() - begun >= patience:
                raise
            _log.warning("the store cannot be used yet; next look in %.0f s: %s", pause, error)
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def make_leases(settings: Settings, store: SessionStore) -> Leases:
    """Make this process's leases in the store; they are released when it exits."""
    options = settings.worker
    host = socket.gethostname()
    leases = Leases(store, SystemClock(), host, beat=options.heartbeat, lease=options.lease)
    atexit.register(leases.unregister)
    return leases


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
    if options.driver != "kubernetes":
        return BubblewrapDriver(spec) if options.driver == "bubblewrap" else DockerDriver(spec)
    # Importing the cluster's client takes a tenth of a second, which other drivers need not spend.
    from sandbox.kubernetes.cluster import PodSettings
    from sandbox.kubernetes.driver import KubernetesDriver

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
