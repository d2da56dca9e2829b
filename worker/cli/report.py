"""`sandpiper report`: how often verdicts were right, by what came after them, and what it cost."""

import json
from collections.abc import Iterator
from itertools import groupby

import click
from rich.console import Console
from rich.table import Table

from worker import wiring
from worker.core.conversation import turn_row
from worker.core.conversation.turn_row import Row
from worker.core.ports import RecentTurns, SessionKey, SessionStore
from worker.evaluation import precision
from worker.evaluation.precision import JudgedTurn
from worker.turns.outcomes import judge_turn
from worker.wiring.clock import SystemClock

_MOST_ROWS = 200_000
_DAY = 86_400.0


@click.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650))
@click.option("--project", default="", help="Only this one: its id, its path, or a glob.")
@click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
@click.option("--digest", "form", flag_value="digest", help="Print the result as Markdown.")
@click.pass_obj
def command(config: str | None, days: int, project: str, form: str | None) -> None:
    """How often verdicts of the last --days were right, by what came after them.

    A verdict is confirmed or contradicted by a pass without a change, by a fix in a file that it
    names, by the target branch, by votes and by later turns; else it is open.
    """
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    since = SystemClock().now() - days * _DAY
    turns = list(_judge_turns(store, store.recent_turns, project, since))
    if form == "json":
        click.echo(json.dumps({"days": days} | precision.make_json(turns), indent=2))
    elif form == "digest":
        click.echo(precision.write_digest(turns, days), nl=False)
    else:
        _print_tables(turns)


def _judge_turns(
    store: SessionStore, recent: RecentTurns, project: str, since: float
) -> Iterator[JudgedTurn]:
    """The turns with a verdict since then, each judged by what came after it."""
    rows = sorted(_list_rows(recent, project, since), key=lambda row: (row.session_id, row.turn))
    for _, session in groupby(rows, key=lambda row: row.session_id):
        turns = [row for row in session if row.verdict]
        for row, *later in (turns[at:] for at in range(len(turns))):
            yield _judge_turn(store, row, later)


def _list_rows(recent: RecentTurns, project: str, since: float) -> Iterator[Row]:
    """The rows of turns that began since then; a damaged one is left out."""
    number = turn_row.parse_project_id(project)
    for _, data in recent.newest(_MOST_ROWS, project_id=number):
        try:
            row = turn_row.load_row(data)
        except turn_row.RowError:
            continue
        if row.started_at < since:
            return
        if number or turn_row.matches_project(project, row.project):
            yield row


def _judge_turn(store: SessionStore, row: Row, later: list[Row]) -> JudgedTurn:
    key = SessionKey(row.project_id, row.mr_iid, row.session_id)
    changed = next((each.verdict for each in later if each.verdict != row.verdict), "")
    return JudgedTurn(
        session_id=row.session_id,
        project=row.project,
        web_url=row.web_url,
        verdict=row.verdict,
        judgement=judge_turn(store, key, row.turn, row.verdict, changed),
        model=row.model,
        tier=row.tier,
        cost_usd=row.cost_usd,
        started_at=row.started_at,
        has_asked_model=row.iterations > 0,
        jobs=row.jobs,
        cause=row.cause,
    )


def _print_tables(turns: list[JudgedTurn]) -> None:
    console = Console(highlight=False)
    if not turns:
        console.print("There are no verdicts in this time.")
    for name, groups in precision.count_turns(turns).items():
        table = Table(box=None, pad_edge=False)
        for title in (name, *precision.HEADER):
            table.add_column(title, no_wrap=True)
        for group in groups:
            table.add_row(*precision.write_row(group))
        console.print(table)
        console.print()
    for line in precision.list_frequent_lines(turns):
        console.print(line, markup=False, soft_wrap=True)
    for each in precision.list_contradicted(turns):
        line = f"contradicted: {each.verdict}: {each.judgement.reason} ({each.web_url})"
        console.print(line, markup=False, soft_wrap=True)
