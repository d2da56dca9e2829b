"""`sandpiper serve`: the door, and with the embedded broker the worker too."""

from contextlib import nullcontext

import click
import uvicorn

from worker import app, wiring


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 256))
@click.pass_obj
def command(config: str | None, host: str, port: int, concurrency: int) -> None:
    """Receive GitLab's webhooks at POST /webhooks/gitlab."""
    settings = wiring.start(config)
    wiring.require_secret(settings)
    embedded = settings.broker.startswith("memory://")
    if embedded:
        wiring.require_worker(settings)
    celery = app.build(settings, lambda: wiring.deps(settings))
    door = wiring.door(settings, app.enqueuer(celery), app.readiness(celery))
    server = uvicorn.Server(
        uvicorn.Config(door, host=host, port=port, log_config=None, access_log=False)
    )
    with app.embedded(celery, concurrency) if embedded else nullcontext():
        server.run()
