"""`sandpiper worker`: a Celery worker."""

import click

from worker import app, wiring
from worker.errors import ConfigError


@click.command()
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 256))
@click.pass_obj
def command(config: str | None, concurrency: int) -> None:
    """Run jobs from the broker, until SIGTERM."""
    settings = wiring.start(config)
    if settings.broker.startswith("memory://"):
        raise ConfigError(
            "broker: memory:// lives inside `sandpiper serve`; a separate worker needs redis://… "
            "or amqp://… ($SANDPIPER_BROKER)"
        )
    wiring.require_worker(settings)
    app.run_worker(app.build(settings, lambda: wiring.deps(settings)), concurrency)
