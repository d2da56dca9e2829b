"""`sandpiper sweep`: what lost webhooks and killed workers have left behind."""

import click

from worker import app, job, sweep, wiring
from worker.core.triggers import PipelineFailed
from worker.deps import Deps
from worker.errors import SandpiperError


@click.command()
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(min=0.01))
@click.option("--most", default=20, show_default=True, type=click.IntRange(1, 1000))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.pass_obj
def command(config: str | None, hours: float, most: int, dry_run: bool) -> None:
    """Find failed pipelines that have no session, and old sandboxes.

    Merge requests touched in the last --hours are looked at; at most --most pipelines are handed to
    the workers, or looked at here and now where the broker is memory://.
    """
    settings = wiring.start(config)
    here = settings.broker.startswith("memory://") and not dry_run
    if here:
        wiring.require_worker(settings)
    deps = wiring.deps(settings)
    queue = app.enqueuer(app.build(settings, lambda: deps))

    def begin(found: PipelineFailed) -> None:
        if here:
            _run(found, deps)
        elif not dry_run:
            queue(found)

    verb = "would be begun" if dry_run else "begun"
    for swept in sweep.sweep(deps, max(deps.clock.now() - hours * 3600, 0.0), most, begin):
        click.echo(f"{swept.what}: {verb if swept.begun else swept.reason}")
    if not dry_run:
        for session in wiring.reap(settings):
            click.echo(f"sandbox of session {session}: removed")


def _run(found: PipelineFailed, deps: Deps) -> None:
    try:
        job.run(found, deps)
    except SandpiperError as error:
        click.echo(f"pipeline {found.pipeline_id}: {error}", err=True)
