"""`sandpiper sweep`: repairs what lost webhooks and killed workers left."""

import click

from worker import app, wiring
from worker.core.triggers import Trigger, trigger_id
from worker.errors import SandpiperError
from worker.jobs import dispatch
from worker.maintenance import missed_pipelines
from worker.maintenance.abandoned import resume_abandoned
from worker.maintenance.retention import list_expired, remove_expired
from worker.maintenance.unfinished_notes import heal_notes
from worker.maintenance.verdict_days import count_ended_days
from worker.settings import Settings
from worker.turns.parts import Deps, Run


@click.command()
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(min=0.01))
@click.option("--most", default=20, show_default=True, type=click.IntRange(1, 1000))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--parked", is_flag=True, help="Only list the triggers that were given up.")
@click.option("--retry", metavar="ID", default="", help="Only queue a parked trigger again.")
@click.option("--keep-sandboxes", is_flag=True, help="Leave old sandboxes alone.")
@click.pass_obj
def command(
    config: str | None,
    hours: float,
    most: int,
    dry_run: bool,
    parked: bool,
    retry: str,
    keep_sandboxes: bool,
) -> None:
    """Find failed pipelines without a session, work that nobody ends, and what is too old to keep;
    count the verdicts of days that have ended.

    Merge requests touched in the last --hours are looked at; at most --most pipelines are handed to
    the workers, or looked at here and now where the broker is memory://.
    """
    settings = wiring.leave_out_pool(wiring.load_settings(config))
    if parked or retry:
        _show_parked(settings, retry)
        return
    runs_here = settings.broker.startswith("memory://") and not dry_run
    if runs_here:
        wiring.require_worker(settings)
    deps = wiring.build_deps(settings)
    queue = app.build_app(settings, lambda: deps).consumer.accept_trigger

    def begin(trigger: Trigger) -> None:
        if runs_here:
            _run(trigger, deps)
        elif not dry_run:
            queue(trigger)

    verb = "would be begun" if dry_run else "begun"
    for swept in missed_pipelines.begin_missed_pipelines(
        deps, max(deps.runtime.clock.now() - hours * 3600, 0.0), most, begin
    ):
        click.echo(f"{swept.what}: {verb if swept.was_begun else swept.reason}")
    for abandoned in resume_abandoned(deps, begin, act=not dry_run):
        click.echo(f"{abandoned.what}: {abandoned.reason or verb}")
    since = max(deps.runtime.clock.now() - hours * 3600, 0.0)
    for line in heal_notes(deps, since, act=not dry_run):
        click.echo(line)
    if settings.retention.days:
        expire = list_expired if dry_run else remove_expired
        for line in expire(deps, settings.retention.days):
            click.echo(line)
    if not dry_run:
        for line in count_ended_days(deps.storage.sessions, deps.runtime.clock.now()):
            click.echo(line)
    if not dry_run and not keep_sandboxes:
        for session in wiring.remove_stale_sandboxes(settings):
            click.echo(f"sandbox of session {session}: removed")


def _show_parked(settings: Settings, retry: str) -> None:
    deps = wiring.build_deps(settings)
    if not retry:
        for line in missed_pipelines.list_parked(deps.queue.journal):
            click.echo(line)
        return
    if deps.queue.journal.bring_back(retry):
        click.echo(f"{retry}: is back in the journal, where a worker takes it up if it can be read")
        return
    trigger = deps.queue.journal.retry_parked(retry)
    if trigger is None:
        raise SandpiperError(f"not one parked trigger begins with {retry!r}: see sweep --parked")
    if settings.broker.startswith("memory://"):
        click.echo(f"trigger {retry}: the running `sandpiper serve` will take it within a minute")
        return
    app.build_app(settings, lambda: deps).consumer.accept_trigger(trigger)
    click.echo(f"trigger {retry}: queued")


def _run(trigger: Trigger, deps: Deps) -> None:
    try:
        dispatch.find_job(trigger, deps, Run())()
    except SandpiperError as error:
        click.echo(f"trigger {trigger_id(trigger)}: {error}", err=True)
