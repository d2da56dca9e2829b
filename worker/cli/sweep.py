"""`sandpiper sweep`: repairs what lost webhooks and killed workers left."""

import re
import sys
from itertools import chain

import click

from worker import app, wiring
from worker.cli import PARTIAL
from worker.cli.terminal import print_json
from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import SandpiperError
from worker.jobs import delivery, repair
from worker.jobs.ledger import remove_old_days
from worker.jobs.missed_branches import begin_missed_branches
from worker.jobs.missed_tests import record_missed
from worker.jobs.repair import heal_notes, resume_abandoned
from worker.jobs.retention import list_expired, remove_expired
from worker.jobs.verdict_days import count_ended_days
from worker.settings import Settings
from worker.turns.parts import Attempt, Deps


@click.command()
@click.option(
    "--hours",
    default=24.0,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="How far back to look for merge requests and pipelines that were touched.",
)
@click.option(
    "--most",
    default=20,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="The most pipelines to begin.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--parked", is_flag=True, help="Only list the triggers that were given up.")
@click.option("--retry", metavar="ID", default="", help="Only queue a parked trigger again.")
@click.option("--keep-sandboxes", is_flag=True, help="Leave old sandboxes alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: str | None,
    hours: float,
    most: int,
    dry_run: bool,
    parked: bool,
    retry: str,
    keep_sandboxes: bool,
    as_json: bool,
) -> None:
    """Find failed pipelines without a session, pipelines of watched branches that nobody has seen,
    work that nobody ends, and what is too old to keep; count the verdicts of days that have ended;
    record what pipelines have reported of their tests.

    Merge requests and pipelines touched in the last --hours are looked at; at most --most pipelines
    of merge requests, and as many of branches, are handed to the workers, or looked at here and now
    where the broker is memory://.

    \b
    sandpiper sweep --dry-run
    sandpiper sweep --parked --json | jq -r '.lines[].trigger'

    \b
    Exit status 3: GitLab did not say which pipelines there are in some project.
    """
    settings = wiring.leave_out_pool(wiring.load_settings(config, quiet=as_json))
    with _Teller(as_json, dry_run=dry_run) as tell:
        if parked or retry:
            _show_parked(settings, retry, tell)
            return
        is_whole = _sweep(settings, hours, most, tell, keep_sandboxes=keep_sandboxes)
    if not is_whole:
        sys.exit(PARTIAL)


class _Teller:
    """Prints a line for each thing that was found or done; as JSON all at the end, also after an
    error."""

    def __init__(self, as_json: bool, *, dry_run: bool) -> None:
        self._as_json, self.dry_run = as_json, dry_run
        self._rows: list[dict[str, str]] = []

    def __call__(self, kind: str, line: str, **more: str) -> None:
        """Tell a line about a thing of this kind; `more` is what JSON says besides."""
        self._rows.append({"kind": kind, **more, "line": line})
        if not self._as_json:
            click.echo(line)

    def __enter__(self) -> "_Teller":
        return self

    def __exit__(self, *error: object) -> None:
        if self._as_json:
            print_json({"dry_run": self.dry_run, "lines": self._rows})


def _sweep(
    settings: Settings, hours: float, most: int, tell: _Teller, *, keep_sandboxes: bool
) -> bool:
    """Sweep; return whether GitLab named all pipelines."""
    dry_run = tell.dry_run
    runs_here = settings.broker.startswith("memory://") and not dry_run
    if runs_here:
        wiring.require_worker(settings)
    deps = wiring.build_deps(settings)
    queue = app.build_app(settings, lambda: deps).consumer.accept_trigger
    now = deps.runtime.clock.now()
    since = max(now - hours * 3600, 0.0)

    def begin(trigger: Trigger) -> None:
        if runs_here:
            try:
                delivery.run_trigger(trigger, deps, Attempt())
            except SandpiperError as error:
                click.echo(f"trigger {trigger_id(trigger)}: {error}", err=True)
        elif not dry_run:
            queue(trigger)

    verb, is_whole = "would be begun" if dry_run else "begun", True
    # The branches first: what is known of them explains failures of merge requests.
    branches = begin_missed_branches(deps, since, most, begin)
    for swept in chain(branches, repair.begin_missed_pipelines(deps, since, most, begin)):
        result, is_whole = verb if swept.was_begun else swept.reason, is_whole and not swept.is_gap
        tell("pipeline", f"{swept.what}: {result}", what=swept.what, result=result)
    for abandoned in resume_abandoned(deps, begin, act=not dry_run):
        result = abandoned.reason or verb
        tell("abandoned", f"{abandoned.what}: {result}", what=abandoned.what, result=result)
    for line in heal_notes(deps, since, act=not dry_run):
        tell("note", line)
    if settings.retention.days:
        expire = list_expired if dry_run else remove_expired
        for line in expire(deps, settings.retention.days):
            tell("expired", line)
    for line in remove_old_days(deps, act=not dry_run):
        tell("expired", line)
    if not dry_run:
        for line in count_ended_days(deps.storage.sessions, deps.runtime.clock.now()):
            tell("verdicts", line)
    if not (dry_run or keep_sandboxes):
        for session in wiring.remove_stale_sandboxes(settings):
            tell("sandbox", f"sandbox of session {session}: removed", session=session)
    return _record_tests(deps, since, tell) and is_whole


def _record_tests(deps: Deps, since: float, tell: _Teller) -> bool:
    """Record what pipelines have reported of their tests; return whether GitLab named all. It comes
    last: nobody waits for it, and it may take minutes."""
    is_whole, verb = True, "would be recorded" if tell.dry_run else "recorded"
    for swept in record_missed(deps, since, act=not tell.dry_run):
        is_whole = is_whole and not swept.is_gap
        result = swept.reason or verb
        tell("tests", f"{swept.what}: {result}", what=swept.what, result=result)
    return is_whole


def _show_parked(settings: Settings, retry: str, tell: _Teller) -> None:
    deps = wiring.build_deps(settings)
    journal = deps.queue.journal
    if not retry:
        for line in repair.list_parked(journal):
            tell("parked", line, trigger=re.split(r": |\s", line, maxsplit=1)[0])
        return
    if journal.bring_back(retry):
        tell(
            "retried",
            f"{retry}: is back in the journal, where a worker takes it up if it can be read",
        )
        return
    trigger = journal.retry_parked(retry)
    if trigger is None:
        raise SandpiperError(f"not one parked trigger begins with {retry!r}: see sweep --parked")
    if settings.broker.startswith("memory://"):
        next_ = "the running `sandpiper serve` will take it within a minute"
    else:
        app.build_app(settings, lambda: deps).consumer.accept_trigger(trigger)
        next_ = "queued"
    tell("retried", f"trigger {retry}: {next_}", trigger=retry)
