"""`sandpiper tests`: which single tests fail without a cause, since when, and what that costs."""

from collections.abc import Iterator
from typing import Any

import click

from worker import wiring
from worker.cli.layout import LONGEST_LINE, print_table, write_facts
from worker.cli.stored_sessions import format_time
from worker.cli.terminal import print_json
from worker.clock import SystemClock
from worker.errors import SandpiperError
from worker.jobs.incident_rows import format_span
from worker.jobs.ledger_rows import LedgerRow, Ranking, find_rows, rank_projects
from worker.ledger.history import Order, Seen
from worker.safety.untrusted import one_line
from worker.sessions.ledger import LedgerStore

_HEADER = (
    *("test", "job", "failed", "rate", "flakes", "first (UTC)", "last", "owner", "hit", "lost"),
    "project",
)
_TITLES = {
    Order.FLAKIEST: "flakiest",
    Order.NEWEST: "newest",
    Order.SLOWEST: "slowest to be mended",
}
_MOST_LIVES = 5
_MOST_FAILURES = 50


@click.command()
@click.argument("project", default="")
@click.option("--test", "name", default="", help="All of one test: its name, or a part of it.")
@click.option(
    "--days", default=30, show_default=True, type=click.IntRange(1, 3650), help="How many days."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(config: str | None, project: str, name: str, days: int, as_json: bool) -> None:
    """Tests that fail without a cause: the flakiest, the newest, and those that are the slowest to
    be mended. PROJECT is an id, a path or a glob.

    A failure is a flake if the test passed later on the same commit, in the same job. Tests that
    have only failed in merge requests, without that proof, are left out (not by --test).

    `failed` is of how many runs of its job, `rate` in percent, with the 95 % interval, `hit` how
    many merge requests it has failed in, `lost` how long the jobs ran that a flake has failed.
    Kept are the last days of the setting `tests.days`. Times are UTC.

    \b
    The fields of --json, which stay as they are; more may be added:
      days, projects, projects_left_out
      flakiest, newest, slowest   lists of tests; or with --test:
      tests                       a list of them, with `seen`
      each has: test, place (class or file), job, project, project_id,
        runs, failures, flakes, rate, low, high, first_failure,
        last_failure, runs_since (the last one), troubled_seconds,
        seconds_lost, merge_requests, owners, together (tests that have
        failed in just the same runs), former (names before)
      seen, the newest last: at, pipeline, sha, branch, mr, job, text,
        passed_in (the pipeline that proves a flake, or null)

    \b
    sandpiper tests acme/shop --json | jq -r '.flakiest[] | .test'
    """
    settings = wiring.load_settings(config, quiet=True)
    store = LedgerStore(wiring.open_session_store(settings).records)
    now = SystemClock().now()
    if name:
        rows = find_rows(store, project, name, now, days)
        if not rows:
            raise SandpiperError(f"no test that is called {name!r} has failed in {days} days")
        if as_json:
            print_json({"days": days, "tests": [make_json(row) | _list_seen(row) for row in rows]})
        else:
            for row in rows[:_MOST_LIVES]:
                click.echo("\n".join([*_describe_life(row), ""]))
            for row in rows[_MOST_LIVES:]:
                place = f"also: {row.name} in {row.life.test.suite} of {row.project}"
                click.echo(one_line(place, LONGEST_LINE))
        return
    ranking = rank_projects(store, project, now, days)
    if as_json:
        tests = {order.value: [*map(make_json, rows)] for order, rows in ranking.tests.items()}
        counted = {"projects": ranking.projects, "projects_left_out": ranking.left_out}
        print_json({"days": days} | counted | tests)
    else:
        _print_ranking(ranking, days)


def _print_ranking(ranking: Ranking, days: int) -> None:
    if not any(ranking.tests.values()):
        seen = "no test has failed without a cause" if ranking.projects else "no test is recorded"
        click.echo(f"sandpiper: {seen} in {days} days", err=True)
    for order, rows in ranking.tests.items():
        if rows:
            click.echo(f"{_TITLES[order]}:")
            print_table([_HEADER, *map(_list_cells, rows)], fold=0)
            click.echo()
    if ranking.left_out:
        click.echo(f"sandpiper: {ranking.left_out} more projects: name one", err=True)


# ---------------------------------------------------------------------------------------- in words


def _list_cells(row: LedgerRow) -> tuple[str, ...]:
    life = row.life
    return (
        row.name,
        life.test.suite or "-",
        f"{len(life.failures)} of {life.runs}",
        str(row.rate),
        str(len(life.flakes)),
        _write_time(life.first_failure_at),
        _write_time(row.last_at),
        row.owners or "-",
        str(len(life.requests) or "-"),
        row.lost_time or "-",
        row.project,
    )


def _describe_life(row: LedgerRow) -> Iterator[str]:
    """Yield the lines that tell all of a test."""
    life, lasted = row.life, row.life.troubled_seconds
    flakes = f"{len(life.flakes)}, which passed later on the same commit"
    facts = [
        ("test", life.test.name),
        ("of", life.test.place),
        ("job", life.test.suite),
        ("project", row.project),
        ("owner", row.owners),
        ("failed", f"in {len(life.failures)} of {life.runs} runs, {row.rate}"),
        ("flakes", flakes if life.flakes else "none is proven"),
        ("counted since", _write_time(life.since_at)),
        ("first failure", _write_time(life.first_failure_at)),
        ("last failure", f"{_write_time(row.last_at)}, {life.runs_since} runs since"),
        ("on and off for", format_span(lasted) if lasted else ""),
        ("merge requests hit", ", ".join(f"!{iid}" for iid in sorted(life.requests))),
        ("time lost", row.lost_time),
        ("fails together with", ", ".join(each.name for each in life.together)),
        ("perhaps before", ", ".join(f"{each.place} {each.name}" for each in life.former)),
    ]
    yield from write_facts(facts)
    for seen in life.failures[: -_MOST_FAILURES - 1 : -1]:
        yield f"  {one_line(_describe_failure(seen), LONGEST_LINE)}"
    if (more := len(life.failures) - _MOST_FAILURES) > 0:
        yield f"  and {more} earlier ones"


def _describe_failure(seen: Seen) -> str:
    where = f"!{seen.mr_iid}" if seen.mr_iid else seen.ref
    proof = f"passed again in {seen.passed_in}" if seen.passed_again else ""
    if proof and seen.passed_in == seen.pipeline_id:
        proof = "passed again in it"
    place = f"{_write_time(seen.made_at)} pipeline {seen.pipeline_id} {where} {seen.sha[:8]}"
    return ", ".join(filter(None, (place, seen.job, proof, seen.text)))


def _write_time(at: float) -> str:
    """Write a time in UTC; "-" for none."""
    return format_time(at).replace("T", " ")[:16] if at else "-"


# ----------------------------------------------------------------------------------------- as JSON


def make_json(row: LedgerRow) -> dict[str, Any]:
    """Return a test as JSON values."""
    life, (low, high) = row.life, row.rate.interval
    return {
        "test": life.test.name,
        "place": life.test.place,
        "job": life.test.suite,
        "project": row.project,
        "project_id": row.project_id,
        "runs": life.runs,
        "failures": len(life.failures),
        "flakes": len(life.flakes),
        "rate": round(row.rate.value, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "first_failure": format_time(life.first_failure_at),
        "last_failure": format_time(row.last_at),
        "runs_since": life.runs_since,
        "troubled_seconds": round(life.troubled_seconds),
        "seconds_lost": round(life.seconds_lost),
        "merge_requests": sorted(life.requests),
        "owners": row.owners.split(", ") if row.owners else [],
        "together": [each.name for each in life.together],
        "former": [f"{each.place} {each.name}".strip() for each in life.former],
    }


def _list_seen(row: LedgerRow) -> dict[str, Any]:
    seen = [
        {
            "at": format_time(each.made_at),
            "pipeline": each.pipeline_id,
            "sha": each.sha,
            "branch": each.ref,
            "mr": each.mr_iid or None,
            "job": each.job,
            "text": each.text,
            "passed_in": each.passed_in or None,
        }
        for each in row.life.failures
    ]
    return {"seen": seen}
