"""`sandpiper sessions`: lists and shows stored sessions, and facts remembered about a project."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import click

from worker import wiring
from worker.core.conversation import turn_row
from worker.core.conversation.context import Context
from worker.core.conversation.messages import Assistant, Message, ToolResult, User
from worker.core.failure import aftermath
from worker.core.failure.project_memory import Fact, load_facts
from worker.core.ports import RecentTurns, SessionKey, SessionStore
from worker.core.text.untrusted import one_line
from worker.errors import SandpiperError, StoreError
from worker.turns.stored_turns import load_turn

_SEARCHED = 10_000
"""The most turns that are read, newest first."""

_SHOWN = 1200
"""Characters shown of a message; the opening text of a reply alone has about 500."""

Row = dict[str, Any]
"""One session as `--json` shows it."""


@click.group()
def command() -> None:
    """List stored sessions, show one, or list what is remembered of a project."""


@command.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1))
@click.option("--project", default="", help="Only this one: its id, its path, or a glob.")
@click.option("--all", "everything", is_flag=True, help="Every stored session, read one by one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def list_(config: str | None, limit: int, project: str, everything: bool, as_json: bool) -> None:
    """Stored sessions, one line each, the newest first."""
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    keys = find_sessions(store, store.recent_turns, project, everything=everything)
    rows = read_rows(store, keys, "" if turn_row.parse_project_id(project) else project)
    for row in rows if everything else islice(rows, limit):
        _print_row(row, as_json)
    if next(rows, None):
        click.echo("sandpiper: there are more: --limit N, or --all", err=True)


@command.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="The stored context.json itself.")
@click.pass_obj
def show(config: str | None, session: str, as_json: bool) -> None:
    """The conversation of SESSION (its id, or a unique beginning of it)."""
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    key, latest = find_latest(store, session)
    if as_json:
        click.echo(store.read_context(key, latest))
        return
    context = load_turn(store, key, latest)
    _print_row(_make_row(key, context), as_json=False)
    click.echo(f"stored: {store.describe_location(key, latest)}")
    for line in _describe_aftermath(store, key, latest):
        click.echo(line)
    click.echo()
    for message in context.messages:
        click.echo(_format_message(message))


@command.command()
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
    if number := turn_row.parse_project_id(project):
        return number
    for place, data in turns.list_newest(_SEARCHED):
        with suppress(turn_row.RowError):
            row = turn_row.load_row_of(place, data)
            if row.project == project:
                return row.project_id
    raise SandpiperError(f"no stored turn is of a project {project!r}; give its id")


def _print_fact(fact: Fact, as_json: bool) -> None:
    newest = fact.sources[0]
    if as_json:
        sources = [f"!{each.mr_iid}/{each.session_id}" for each in fact.sources]
        row = {"date": fact.day, "fact": fact.text, "count": fact.count, "sources": sources}
        click.echo(json.dumps(row, ensure_ascii=False))
        return
    times = f"  {fact.count} times" if fact.count > 1 else ""
    click.echo(f"{fact.day}  {fact.text}  !{newest.mr_iid}  {newest.session_id}{times}")


def read_rows(store: SessionStore, keys: Iterable[SessionKey], path: str = "") -> Iterator[Row]:
    """Yield a row for each session with a committed turn in projects that match `path`.

    A session that cannot be read has a row with the reason. Raises transient StoreErrors.
    """
    for key in keys:
        try:
            latest = store.find_latest_turn(key)
            context = None if latest is None else load_turn(store, key, latest)
        except StoreError as error:
            if error.transient:
                raise
            yield _make_damaged_row(key, error)
            continue
        if context and turn_row.matches_project(path, context.subject.project):
            yield _make_row(key, context)


def find_sessions(
    store: SessionStore, turns: RecentTurns, project: str = "", *, everything: bool = False
) -> Iterator[SessionKey]:
    """Yield each session once: first those of the newest turns, then all other stored ones.

    Only the list of turns has the projects' paths. With a path, the other sessions are therefore
    left out unless `everything` is set.
    """
    number, seen = turn_row.parse_project_id(project), set[SessionKey]()
    listed = _list_by_turns(turns, number, "" if number else project)
    others = store.list_sessions(number) if everything or number or not project else ()
    for key in chain(listed, others):
        if key not in seen:
            seen.add(key)
            yield key


def _list_by_turns(turns: RecentTurns, number: int, path: str) -> Iterator[SessionKey]:
    for place, data in turns.list_newest(_SEARCHED, project_id=number):
        with suppress(turn_row.RowError):
            row = turn_row.load_row_of(place, data)
            if turn_row.matches_project(path, row.project):
                yield SessionKey(row.project_id, row.mr_iid, row.session_id)


def find_latest(store: SessionStore, session: str) -> tuple[SessionKey, int]:
    """Return the key and the newest turn of the session with this id or unique id prefix.

    Raises SandpiperError or StoreError.
    """
    key = store.find_session(session)
    latest = store.find_latest_turn(key) if key else None
    if key is None or latest is None:
        raise SandpiperError(f"there is no session {session!r}; see `sandpiper sessions list`")
    return key, latest


def _describe_aftermath(store: SessionStore, key: SessionKey, latest: int) -> Iterator[str]:
    """Describe what happened after each turn's note."""
    for turn in range(latest + 1):
        after = aftermath.load_aftermath(store.read_aftermath(key, turn))
        feedback = aftermath.load_feedback(store.read_feedback(key, turn))
        for line in aftermath.describe_aftermath(feedback, after):
            yield f"turn {turn}: {line}"


def _make_row(key: SessionKey, context: Context) -> Row:
    subject = context.subject
    return {
        "session": key.session_id,
        "mr": f"{subject.project}!{subject.mr_iid}",
        "pipeline": subject.pipeline_id,
        "turns": context.turn + 1,
        "status": context.outcome.status.value if context.outcome else "unknown",
        "model": context.model,
        "cost_usd": context.cost_usd,
    }


def _make_damaged_row(key: SessionKey, error: StoreError) -> Row:
    known = {"session": key.session_id, "mr": f"{key.project_id}!{key.mr_iid}"}
    nothing = dict.fromkeys(("pipeline", "turns", "model", "cost_usd"))
    return {**known, **nothing, "status": "damaged", "reason": str(error)}


def _print_row(row: Row, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(row))
        return
    parts = [row["session"], row["mr"]]
    if row["status"] == "damaged":
        parts += ["damaged", row["reason"]]
    else:
        cost = "cost unknown" if row["cost_usd"] is None else f"${row['cost_usd']:.4f}"
        parts += [f"pipeline {row['pipeline']}", f"turns {row['turns']}"]
        parts += [row["status"], row["model"], cost]
    click.echo("  ".join(one_line(str(part), 500) for part in parts))


def _format_message(message: Message) -> str:
    match message:
        case User(text):
            # The human's question is at the end.
            return f"user: {_clip(text, end=_SHOWN // 3)}"
        case Assistant(text, calls):
            called = "".join(f"\n  → {_clip(call.name)} {_clip(call.arguments)}" for call in calls)
            return f"model: {_clip(text)}{called}"
        case ToolResult():
            failed = " (failed)" if message.is_error else ""
            return f"{_clip(message.name)}{failed}: {_clip(message.content)}"


def _clip(text: str, end: int = 0) -> str:
    """Put `text` on one line; a long text is cut to its beginning and its last `end` characters."""
    flat = click.unstyle(" ".join(text.split()))
    printable = "".join(char if char.isprintable() else "�" for char in flat)
    if len(printable) <= _SHOWN:
        return printable
    return f"{printable[: _SHOWN - end]} … {printable[-end:] if end else ''}".rstrip()
