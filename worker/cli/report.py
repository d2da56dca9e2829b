"""`sandpiper report`: how often verdicts were right, judged by later events, and their cost."""

import json
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from worker import wiring
from worker.evaluation import precision
from worker.evaluation.day_report import DayReport
from worker.maintenance.verdict_days import read_days
from worker.wiring.clock import SystemClock

_WIDTH = 160
"""The output's columns if it is not a terminal."""


@click.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650))
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
    reports = read_days(store, SystemClock().now(), days, project, fresh=fresh)
    if form == "json":
        click.echo(json.dumps({"days": days} | precision.make_json(reports), indent=2))
    elif form == "digest":
        click.echo(precision.write_digest(reports, days), nl=False)
    else:
        _print_tables(reports)


def _print_tables(days: Sequence[DayReport]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    cuts = precision.count_groups(days)
    if not cuts:
        console.print("There are no verdicts in this time.")
    for name, groups in cuts.items():
        console.print(_make_table(name, [precision.write_row(group) for group in groups]))
        console.print()
    for line in precision.list_frequent_lines(days):
        console.print(line, markup=False, soft_wrap=True)
    for each in precision.list_wrong_verdicts(days):
        line = f"contradicted: {each.verdict}: {each.reason} ({each.web_url})"
        console.print(line, markup=False, soft_wrap=True)


def _make_table(name: str, rows: Sequence[tuple[str, ...]]) -> Table:
    """Make a table that wraps long names on a narrow terminal, but never numbers."""
    table = Table(box=None, pad_edge=False)
    table.add_column(name, overflow="fold")
    for title in precision.HEADER:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
