"""The composition root: the only package that names concrete adapters."""

from worker.webhook.connections import server
from worker.wiring.doors import door, journal, published
from worker.wiring.engines import driver, reap
from worker.wiring.jobs import deps, dry
from worker.wiring.kits import sources, tool_names
from worker.wiring.process import require_secret, require_worker, start, telemetry, use
from worker.wiring.providers import catalogue, models
from worker.wiring.stores import store

__all__ = [
    "catalogue",
    "deps",
    "door",
    "driver",
    "dry",
    "journal",
    "models",
    "published",
    "reap",
    "require_secret",
    "require_worker",
    "server",
    "sources",
    "start",
    "store",
    "telemetry",
    "tool_names",
    "use",
]
