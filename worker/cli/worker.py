"""`sandpiper worker`: a Celery worker."""

from collections.abc import Callable
from functools import partial

import click

from worker import app, wiring
from worker.errors import ConfigError
from worker.queue import process
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.turns.parts import Deps


@click.command()
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 256))
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Where Prometheus reads /metrics, 0 for nowhere.  [default: metrics.port]",
)
@click.pass_obj
def command(config: str | None, concurrency: int, metrics_port: int | None) -> None:
    """Run jobs from the broker, until SIGTERM."""
    settings = wiring.load_settings(config)
    watched = wiring.build_telemetry(settings)
    port = settings.metrics.port if metrics_port is None else metrics_port
    parts = partial(wiring.build_deps, settings, watched=watched)
    run_worker(settings, parts, concurrency, watched, port if settings.metrics.enabled else 0)


def run_worker(
    settings: Settings,
    parts: Callable[[], Deps],
    concurrency: int,
    watched: Telemetry | None = None,
    metrics_port: int = 0,
) -> None:
    """Work until SIGTERM. Raises ConfigError; `parts` as for `app.build_app`.

    `metrics_port` answers to /metrics, 0 is none.
    """
    if settings.broker.startswith("memory://"):
        raise ConfigError(
            "broker: memory:// lives inside `sandpiper serve`; a separate worker needs redis://… "
            "or amqp://… ($SANDPIPER_BROKER)"
        )
    wiring.require_worker(settings)
    watched = watched or wiring.build_telemetry(settings)
    made = app.build_app(settings, parts, watched.watch)
    stop = watched.metrics.serve(metrics_port) if metrics_port else lambda: None
    try:
        process.run_worker(made, concurrency, settings.worker.grace)
    finally:
        stop()
