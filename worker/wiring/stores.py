"""Opens the session store, and makes leases in it."""

import atexit
import socket

from worker.queue.leases import Leases
from worker.sessions.store import Store
from worker.sessions.table import guard_store, open_store
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.wiring.clock import SystemClock


def open_session_store(settings: Settings) -> Store:
    """Open the session store. Raises ConfigError or StoreError.

    If S3 is a compatible store that ignores conditional writes, a Redis broker guards it.
    """
    store = open_store(settings.store, settings.s3_endpoint or None)
    imitation = settings.store.startswith("s3://") and settings.s3_endpoint
    if not imitation or not settings.broker.startswith("redis"):
        return store
    if store.honours_conditions():
        return store
    secured = settings.broker.startswith("rediss://")
    options = settings.broker_tls.get_redis_options() if secured else {}
    return guard_store(store, settings.broker, options)


def open_watched_store(settings: Settings, watched: Telemetry | None) -> Store:
    """Open the session store; `watched`, if given, counts what is done in it.

    Raises ConfigError or StoreError.
    """
    store = open_session_store(settings)
    return Store(watched.wrap_objects(store.records)) if watched else store


def make_leases(settings: Settings, store: Store) -> Leases:
    """Make this process's leases in the store; they are released when it exits."""
    options = settings.worker
    host = socket.gethostname()
    leases = Leases(store, SystemClock(), host, beat=options.heartbeat, lease=options.lease)
    atexit.register(leases.unregister)
    return leases
