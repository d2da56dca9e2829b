"""Opens the session store, and makes leases in it."""

import atexit
import logging
import os
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from worker.clock import SystemClock
from worker.errors import StoreError
from worker.queue.leases import Leases
from worker.sessions import table
from worker.sessions.objects import Addressing
from worker.sessions.store import SessionStore
from worker.sessions.table import guard_store, open_store
from worker.settings import Settings
from worker.telemetry.parts import Telemetry

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
    store = open_store(settings.store, settings.s3_endpoint or None, _choose_addressing(settings))
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


def _choose_addressing(settings: Settings) -> Addressing:
    if settings.s3_addressing != "auto":
        return settings.s3_addressing
    if not _is_imitation(settings):
        return "path"
    return _find_addressing(settings.store, settings.s3_endpoint)


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
