"""`sandpiper worker`: a Celery worker."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from worker import app, wiring
from worker.errors import ConfigError
from worker.jobs import process
from worker.jobs.process import ReadyFile
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.start")


@click.command()
@click.option(
    "--concurrency",
    default=4,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Jobs at a time.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Where Prometheus reads /metrics, 0 for nowhere.  [default: metrics.port]",
)
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that exists, and is renewed every few seconds, while messages are taken from the "
    "broker; for a readiness probe.",
)
@click.pass_obj
def command(
    config: str | None, concurrency: int, metrics_port: int | None, ready_file: Path | None
) -> None:
    """Run jobs from the broker, until SIGTERM."""
    settings = wiring.load_settings(config)
    watched = wiring.build_telemetry(settings)
    port = settings.metrics.port if metrics_port is None else metrics_port
    parts = partial(wiring.build_deps, settings, watched=watched)
    port = port if settings.metrics.enabled else 0
    run_worker(settings, parts, concurrency, watched, port, ready_file)


def run_worker(
    settings: Settings,
    parts: Callable[[], Deps],
    concurrency: int,
    watched: Telemetry | None = None,
    metrics_port: int = 0,
    ready: Path | None = None,
) -> None:
    """Work until SIGTERM; `parts` is as in `app.build_app`. Raises ConfigError.

    `metrics_port` serves /metrics, 0 for none. The file `ready` exists while messages are taken.
    """
    if settings.broker.startswith("memory://"):
        raise ConfigError(
            "broker: memory:// lives inside `sandpiper serve`; a separate worker needs redis://… "
            "or amqp://… ($SANDPIPER_BROKER)"
        )
    ReadyFile(ready).remove()
    watched = watched or wiring.build_telemetry(settings)
    # Before what may wait for the store: whether this process is alive is asked there.
    stop = watched.metrics.serve(metrics_port) if metrics_port else lambda: None
    try:
        wiring.require_worker(settings, waits=True)
        wiring.introduce_gitlab(settings)
        for line in wiring.list_parts(settings):
            log.info("%s", line)
        celery = app.build_app(settings, parts, watched.watch)
        process.run_worker(celery, concurrency, settings.worker.grace, ready)
    finally:
        stop()
