"""`sandpiper sessions`: lists and shows stored sessions, and facts remembered about a project."""

from collections.abc import Iterator, Sequence
from itertools import islice

import click

from worker import wiring
from worker.cli.completion import complete_session
from worker.cli.layout import cut_text, pad_text, print_note
from worker.cli.session_text import format_end, format_facts, format_messages, format_totals
from worker.cli.stdout import get_width, print_json
from worker.cli.stored_sessions import (
    Row,
    find_latest,
    find_sessions,
    find_verdict,
    format_time,
    list_by_turns,
    read_rows,
)
from worker.conversation.context import Context, SessionKey
from worker.errors import SandpiperError
from worker.safety.untrusted import one_line
from worker.sessions import recent
from worker.sessions.recent import RecentTurns
from worker.sessions.store import SessionStore
from worker.turns.stored_turns import load_turn, read_turn
from worker.verdict import aftermath
from worker.verdict.project_memory import Fact, load_facts
from worker.verdict.verdict import Verdict

_SHORT_ID = 8
"""Characters shown of an id on a terminal: enough to name a session."""

_WORDS = {
    Verdict.CHANGE: "this change",
    Verdict.TARGET: "target branch",
    Verdict.FLAKY: "flaky",
    Verdict.INFRASTRUCTURE: "infrastructure",
    Verdict.UNKNOWN: "unknown",
    Verdict.ABSTAIN: "no evidence",
}
"""The verdicts in at most 14 columns."""


@click.group()
def command() -> None:
    """List stored sessions, show one, or list what is remembered of a project."""


@command.command("list", short_help="Stored sessions, a line each, the newest first.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1), help="The most sessions."
)
@click.option("--project", default="", help="Only this one: its id, its path, or a glob.")
@click.option("--all", "everything", is_flag=True, help="Every stored session, read one by one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def list_(config: str | None, limit: int, project: str, everything: bool, as_json: bool) -> None:
    """Stored sessions, one line each, the newest first: what was found, and of what.

    Times are UTC. On a terminal, ids and titles are cut to its width; `sessions show` takes the
    short ids. Elsewhere nothing is cut, and two blanks or more separate the columns.

    \b
    sandpiper sessions list --project 'group/*'
    sandpiper sessions list --json | jq -r 'select(.verdict == "flaky") | .url'
    """
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    listed = find_sessions(store, store.recent_turns, project, everything=everything)
    rows = read_rows(store, listed, "" if recent.parse_project_id(project) else project)
    width = get_width()
    if width and not as_json:
        click.echo(
            _format_line(("session", "date (UTC)", "verdict", "state", "merge request"), width)
        )
    for row in rows if everything else islice(rows, limit):
        if as_json:
            print_json(row, indent=None)
        else:
            click.echo(_format_line(_list_cells(row, is_short=width is not None), width))
    if next(rows, None):
        click.echo("sandpiper: there are more: --limit N, or --all", err=True)


@command.command()
@click.argument("session", shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="The stored context.json itself: all of it.")
@click.pass_obj
def show(config: str | None, session: str, as_json: bool) -> None:
    """The notes of SESSION, and who said what.

    SESSION is an id, or a beginning of one that no other id has.
    """
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    key, latest = find_latest(store, session)
    if as_json:
        click.echo(store.read_context(key, latest))
        return
    turns = [turn for number in range(latest) if (turn := read_turn(store, key, number))]
    context = load_turn(store, key, latest)
    for line in format_facts(_list_facts(context, find_verdict([*turns, context]))):
        click.echo(line)
    click.echo(f"stored: {store.describe_location(key, latest)}")
    for line in _describe_aftermath(store, key, latest):
        click.echo(line)
    click.echo()
    for turn in (*turns, context):
        if turn.note_text:
            print_note(
                "The note" if turn.turn == 0 else f"The note of turn {turn.turn}", turn.note_text
            )
    for paragraph in format_messages(context.messages):
        click.echo(f"{paragraph}\n")
    click.echo(format_totals(context))


@command.command(short_help="The confirmed facts of PROJECT.")
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def memory(config: str | None, project: str, as_json: bool) -> None:
    """What is remembered of PROJECT (its id or path): confirmed facts, the newest first."""
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    facts = load_facts(store.known_failures.read_memory(_find_project(store.recent_turns, project)))
    for fact in facts:
        _print_fact(fact, as_json)
    if not facts:
        click.echo(f"sandpiper: nothing is remembered of {project}", err=True)


def _find_project(turns: RecentTurns, project: str) -> int:
    """Return a project's id; a path is looked up in the list of turns. Raises SandpiperError."""
    if number := recent.parse_project_id(project):
        return number
    for key, row in list_by_turns(turns, 0, ""):
        if row.project == project:
            return key.project_id
    raise SandpiperError(f"no stored turn is of a project {project!r}; give its id")


def _print_fact(fact: Fact, as_json: bool) -> None:
    newest = fact.sources[0]
    if as_json:
        sources = [f"!{each.mr_iid}/{each.session_id}" for each in fact.sources]
        row = {"date": fact.day, "fact": fact.text, "count": fact.count, "sources": sources}
        print_json(row, indent=None)
        return
    times = f"  {fact.count} times" if fact.count > 1 else ""
    click.echo(f"{fact.day}  {fact.text}  !{newest.mr_iid}  {newest.session_id}{times}")


def _describe_aftermath(store: SessionStore, key: SessionKey, latest: int) -> Iterator[str]:
    """Describe what happened after each turn's note."""
    for turn in range(latest + 1):
        after = aftermath.load_aftermath(store.read_aftermath(key, turn))
        feedback = aftermath.load_feedback(store.read_feedback(key, turn))
        for line in aftermath.describe_aftermath(feedback, after):
            yield f"turn {turn}: {line}"


def _list_cells(row: Row, *, is_short: bool) -> tuple[str, ...]:
    """Return the cells of a line. Each says something, so that a line can be split at blanks."""
    mr = row["mr"].rpartition("/")[2] if is_short else row["mr"]
    about = " ".join(filter(None, (mr, row["title"], row.get("reason", ""))))
    began = (row["date"] or "-").replace("T", " ")[:16]
    verdict = _WORDS.get(row["verdict"], row["verdict"]) if is_short else row["verdict"]
    session = row["session"][:_SHORT_ID] if is_short else row["session"]
    marked = f"(dry run) {about}" if row["dry_run"] else about
    return session, began, verdict or "-", row["status"], marked


_COLUMNS = (20, 16, max(map(len, Verdict)), len("partial"))
"""The columns of a line, whose last cell is as long as it is, for whatever reads it."""

_TERMINAL_COLUMNS = (_SHORT_ID, 16, max(map(len, _WORDS.values())), len("partial"))


def _format_line(cells: Sequence[str], width: int | None) -> str:
    """Align the cells; on a terminal of this width the last one is cut."""
    *cells, last = [one_line(cell, 500) for cell in cells]
    columns = _COLUMNS if width is None else _TERMINAL_COLUMNS
    line = "".join(f"{pad_text(cell, size)}  " for cell, size in zip(cells, columns, strict=True))
    return line + (last if width is None else cut_text(last, max(10, width - len(line))))


def _list_facts(context: Context, verdict: str) -> list[tuple[str, str]]:
    """Return the named facts of a session."""
    subject = context.subject
    return [
        ("session", context.session_id),
        ("merge request", f"{subject.project}!{subject.mr_iid} {subject.title}"),
        ("", subject.web_url),
        ("pipeline", f"{subject.pipeline_id} {subject.pipeline_web_url}"),
        ("began", format_time(context.turn_usage.started_at).replace("T", " ")),
        ("verdict", verdict or "-"),
        ("state", format_end(context)),
        ("dry run", "nothing of it was posted" if context.began_dry else ""),
        ("turns", str(context.turn + 1)),
        ("model", context.model),
    ]
