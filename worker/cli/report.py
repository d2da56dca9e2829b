"""`sandpiper report`: how often verdicts were right, judged by later events, and their cost."""

from collections.abc import Sequence

import click

from worker import wiring
from worker.cli.layout import print_table
from worker.cli.terminal import print_json
from worker.cli.tests import make_json
from worker.clock import SystemClock
from worker.jobs import precision
from worker.jobs.incident_rows import describe_sum, read_rows, sum_rows
from worker.jobs.ledger_rows import describe_flaky, rank_projects
from worker.jobs.verdict_days import DAY, DayReport, read_days
from worker.ledger.history import Order
from worker.safety.untrusted import one_line
from worker.sessions.incidents import IncidentStore
from worker.sessions.ledger import LedgerStore
from worker.sessions.retries import RetryStore
from worker.verdict.retries import describe_retries

_LONGEST = 2000
"""The most characters of a line below the tables."""


@click.command()
@click.option(
    "--days",
    default=30,
    show_default=True,
    type=click.IntRange(1, 3650),
    help="How many days back.",
)
@click.option("--project", default="", help="Only this one: its id, its path, or a glob.")
@click.option(
    "--fresh", is_flag=True, help="Judge each turn now; don't use what sweep has counted."
)
@click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
@click.option("--digest", "form", flag_value="digest", help="Print the result as Markdown.")
@click.pass_obj
def command(config: str | None, days: int, project: str, fresh: bool, form: str | None) -> None:
    """How often verdicts of the last --days were right, by what came after them.

    A verdict is confirmed or contradicted by a pass without a change, by a fix in a file that it
    names, by the target branch, by votes and by later turns; else it is open.
    """
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    now = SystemClock().now()
    reports = read_days(store, now, days, project, fresh=fresh)
    incidents = sum_rows(read_rows(IncidentStore(store.records), project), now, days)
    again = RetryStore(store.records).count(now - days * DAY, project)
    ledger = LedgerStore(store.records)
    flaky = rank_projects(ledger, project, now, days, precision.MOST_FREQUENT).tests[Order.FLAKIEST]
    if form == "json":
        counted = {
            "flaky_tests": [make_json(row) for row in flaky],
            "retries": {
                "jobs": again.count,
                "passed": again.passed_count,
                "failed": again.failed_count,
            },
            "incidents": {
                "count": incidents.count,
                "open": incidents.open_count,
                "red_seconds": round(incidents.red_seconds),
                "hit": incidents.hit_count,
                "without_model": incidents.short_count,
                "saved_seconds": round(incidents.saved_seconds),
            },
        }
        print_json({"days": days} | precision.make_json(reports) | counted)
    elif form == "digest":
        click.echo(precision.write_digest(reports, days), nl=False)
        if told := describe_sum(incidents):
            click.echo(f"\nRed branches: {told}.")
        if told := describe_retries(again):
            click.echo(f"\nRun again: {told}.")
        if lines := [f"- {line}" for line in describe_flaky(flaky, precision.write_code)]:
            click.echo("\n".join(["\nFlakiest tests:\n", *lines]))
    else:
        _print_tables(reports)
        if told := describe_sum(incidents):
            click.echo(f"red branches: {told}")
        if told := describe_retries(again):
            click.echo(f"run again: {told}")
        for line in describe_flaky(flaky):
            click.echo(one_line(f"flaky test: {line}", _LONGEST))


def _print_tables(days: Sequence[DayReport]) -> None:
    cuts = precision.count_groups(days)
    if not cuts:
        click.echo("There are no verdicts in this time.")
    for name, groups in cuts.items():
        rows = [precision.write_row(group) for group in groups]
        print_table([(name, *precision.HEADER), *rows], fold=0)
        click.echo()
    for line in precision.list_frequent_lines(days):
        click.echo(one_line(line, _LONGEST))
    for each in precision.list_wrong_verdicts(days):
        line = f"contradicted: {each.verdict}: {each.reason} ({each.web_url})"
        click.echo(one_line(line, _LONGEST))
