"""`sandpiper incidents`: which watched branches are red, since when, by what, and who is hit."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from worker import wiring
from worker.cli.layout import LONGEST_LINE, print_table, write_facts
from worker.cli.stored_sessions import format_time
from worker.cli.terminal import print_json
from worker.clock import SystemClock
from worker.errors import SandpiperError
from worker.incidents.record import BranchFailure, IncidentState
from worker.jobs.incident_rows import IncidentRow, format_span, read_rows
from worker.safety.untrusted import one_line
from worker.sessions.incidents import IncidentStore
from worker.sessions.store import SessionStore
from worker.settings import Settings

_HEADER = ("incident", "since (UTC)", "branch", "what failed", "suspect", "hit", "state", "until")
_WHAT_FAILED = _HEADER.index("what failed")
_LONGEST_ERROR = 120
_LONGEST_SUSPECT = 60
_MOST_REQUESTS = 100

_project = click.option("--project", default="", help="Only this one: its id, its path, or a glob.")


@click.group(invoke_without_command=True)
@_project
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_context
def command(context: click.Context, project: str, as_json: bool) -> None:
    """Red branches (`list`, which also runs without a command), or one of them (`show`)."""
    if context.invoked_subcommand is None:
        context.invoke(_list, project=project, as_json=as_json)


@command.command("list", short_help="Incidents, a line each, the open ones first.")
@_project
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def _list(config: str | None, project: str, as_json: bool) -> None:
    """A line for each time that a watched branch was red: what is open first, then the newest.
    Flakes are left out.

    `suspect` is the change that is proven to have broken the branch, `hit` how many merge requests
    were told that they fail because of it. What is `suspected` was seen once, no change explains
    it, and nobody is told yet. Times are UTC.

    \b
    The fields of --json, which stay as they are; more may be added:
      incident, project, project_id, branch
      state           suspected, open, closed, withdrawn (it was a flake)
      since, until    texts such as 2026-11-29T15:20:00Z, null for never
      failures        a list: error, jobs, since, since_pipeline, since_url,
                      green_pipeline (the last one before), landings (in
                      between, the oldest first), suspect, until,
                      until_pipeline, until_url, ended_by (a commit; none: it
                      passed again; gone; "" while it is red)
      landings, suspect  have sha, mr, title, author
      hit             merge requests that were told of it
      without_model   those of them that were answered without a model
      menders         open merge requests in which it is mended
      saved_seconds   of analyses that were not made
      verdict, cause, to_do, session   what the analysis found; or ""
      issue           its number, or null

    \b
    sandpiper incidents --json | jq -r 'select(.state == "open") | .branch'
    """
    store, _ = _open_store(config)
    rows = read_rows(IncidentStore(store.records), project)
    shown = [each for each in rows if each.incident.state is not IncidentState.WITHDRAWN]
    for row in shown if as_json else ():
        print_json(_make_json(row), indent=None)
    if shown and not as_json:
        print_table([_HEADER, *map(_list_cells, shown)], fold=_WHAT_FAILED)
    elif not as_json:
        click.echo("sandpiper: there are no incidents", err=True)


@command.command("show", short_help="All that is known of one incident.")
@click.argument("incident")
@_project
@click.option("--json", "as_json", is_flag=True, help="As in `list`, and `page`, on many lines.")
@click.pass_obj
def _show(config: str | None, incident: str, project: str, as_json: bool) -> None:
    """INCIDENT is an id of `sandpiper incidents`, or the beginning of one. Each error, what landed
    before it, what the analysis found, and the merge requests that it hits."""
    store, settings = _open_store(config)
    row = _find_row(read_rows(IncidentStore(store.records), project), incident)
    page = _link_session(row, store, settings)
    if as_json:
        print_json(_make_json(row) | {"page": page})
        return
    for line in _describe_row(row, page):
        click.echo(line.rstrip())


def _open_store(config: str | None) -> tuple[SessionStore, Settings]:
    settings = wiring.load_settings(config, quiet=True)
    return wiring.open_session_store(settings), settings


def _link_session(row: IncidentRow, store: SessionStore, settings: Settings) -> str:
    """Return the address of the page of the session that looked into it, "" if there is none."""
    if not settings.pages.url or not row.incident.session_id:
        return ""
    link = wiring.build_pages(settings).make_linker(store.read_installation_key())
    return link(row.incident.session_id)


def _find_row(rows: Sequence[IncidentRow], name: str) -> IncidentRow:
    """Find the incident whose id is `name`, or alone begins so. Raises SandpiperError."""
    found = [each for each in rows if each.incident.incident_id == name]
    found = found or [each for each in rows if each.incident.incident_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SandpiperError(f"there is no incident {name!r}; see `sandpiper incidents`")
    where = ", ".join(f"{each.incident.incident_id} of {each.record.project}" for each in found[:5])
    raise SandpiperError(f"several incidents are {name!r}: {where}; give --project, or more of it")


# ---------------------------------------------------------------------------------------- in words


def _list_cells(row: IncidentRow) -> tuple[str, ...]:
    first, hit = row.incident.first, len(row.incident.told_requests)
    failed = f"{row.jobs}: {one_line(first.text, _LONGEST_ERROR)}"
    return (
        row.incident.incident_id,
        _write_time(row.since_at),
        f"{row.record.project} {row.record.branch}",
        failed,
        one_line(row.suspects, _LONGEST_SUSPECT) or "-",
        str(hit) if hit else "-",
        row.incident.state.value,
        _write_time(row.ended_at) or "-",
    )


def _describe_row(row: IncidentRow, page: str) -> Iterator[str]:
    """Yield the lines that tell all of an incident."""
    record, incident = row.record, row.incident
    lasted = format_span(row.measure_seconds(SystemClock().now()))
    facts = [
        ("incident", incident.incident_id),
        ("branch", f"{record.project} {record.branch}"),
        ("state", f"{incident.state.value}, red for {lasted}"),
        ("since", _write_time(row.since_at)),
        ("until", ": ".join(filter(None, (_write_time(row.ended_at), row.end)))),
        ("being mended in", _list_requests(incident.menders)),
        ("hit", _list_requests(incident.told_requests)),
        ("without a model", _list_requests(incident.short)),
        ("saved", format_span(row.saved_seconds) if row.saved_seconds else ""),
        ("issue", f"#{incident.issue_iid}" if incident.issue_iid else ""),
        ("verdict", incident.verdict),
        ("cause", incident.cause),
        ("to do", incident.to_do),
        ("session", incident.session_id),
        ("", page),
    ]
    yield from write_facts(facts)
    for failure in incident.failures:
        yield ""
        yield one_line(failure.text, LONGEST_LINE)
        yield from (f"  {line}" for line in _describe_failure(row, failure))


def _describe_failure(row: IncidentRow, failure: BranchFailure) -> Iterator[str]:
    green = f"{failure.green_sha[:8]}, pipeline {failure.green_pipeline}"
    end = row.describe_end(failure)
    yield from write_facts(
        [
            ("jobs", ", ".join(failure.jobs)),
            ("since", _write_place(failure.since_at, failure.since_pipeline, failure.since_url)),
            ("last green", green if failure.green_pipeline else "never"),
            ("suspect", row.describe_landing(failure.suspect) if failure.suspect else "none"),
            ("until", _write_place(failure.until_at, failure.until_pipeline, failure.until_url)),
            ("by", end),
        ]
    )
    if failure.landings:
        yield "landed in between:"
    for sha in failure.landings:
        landing = row.find_landing(sha)
        by = f"by {landing.author}" * bool(landing.author)
        parts = (_write_time(landing.landed_at), row.describe_landing(sha), by)
        yield one_line(" ".join(filter(None, parts)), LONGEST_LINE)


def _write_place(at: float, pipeline: int, url: str) -> str:
    return f"{_write_time(at)}, pipeline {pipeline} {url}".rstrip() if pipeline else ""


def _write_time(at: float) -> str:
    """Write a time in UTC; "" for none."""
    return format_time(at).replace("T", " ")[:16] if at else ""


def _list_requests(numbers: Sequence[int]) -> str:
    shown = ", ".join(f"!{number}" for number in numbers[:_MOST_REQUESTS])
    more = len(numbers) - _MOST_REQUESTS
    return f"{shown} and {more} more" if more > 0 else shown


# ----------------------------------------------------------------------------------------- as JSON


def _make_json(row: IncidentRow) -> dict[str, Any]:
    record, incident = row.record, row.incident
    return {
        "incident": incident.incident_id,
        "project": record.project,
        "project_id": record.project_id,
        "branch": record.branch,
        "state": incident.state.value,
        "since": _stamp(row.since_at),
        "until": _stamp(row.ended_at),
        "failures": [_make_failure_json(row, each) for each in incident.failures],
        "hit": incident.told_requests,
        "without_model": incident.short,
        "menders": incident.menders,
        "saved_seconds": round(row.saved_seconds, 1),
        "verdict": incident.verdict,
        "cause": incident.cause,
        "to_do": incident.to_do,
        "session": incident.session_id,
        "issue": incident.issue_iid or None,
    }


def _make_failure_json(row: IncidentRow, failure: BranchFailure) -> dict[str, Any]:
    return {
        "error": failure.text,
        "jobs": failure.jobs,
        "since": _stamp(failure.since_at),
        "since_pipeline": failure.since_pipeline,
        "since_url": failure.since_url,
        "green_pipeline": failure.green_pipeline or None,
        "landings": [_make_landing_json(row, sha) for sha in failure.landings],
        "suspect": _make_landing_json(row, failure.suspect) if failure.suspect else None,
        "until": _stamp(failure.until_at),
        "until_pipeline": failure.until_pipeline or None,
        "until_url": failure.until_url,
        "ended_by": failure.ended_by,
    }


def _make_landing_json(row: IncidentRow, sha: str) -> dict[str, Any]:
    landing = row.find_landing(sha)
    mr = landing.mr_iid or None
    return {"sha": sha, "mr": mr, "title": landing.title, "author": landing.author}


def _stamp(at: float) -> str | None:
    return format_time(at) if at else None
