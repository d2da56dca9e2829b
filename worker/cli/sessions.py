"""`sandpiper sessions`: lists and shows stored sessions, and facts remembered about a project."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

import click
from rich.cells import cell_len, set_cell_size

from worker import wiring
from worker.cli.layout import pad_text, print_note
from worker.cli.stored_sessions import (
    Row,
    complete_session,
    find_latest,
    find_sessions,
    find_verdict,
    format_time,
    list_by_turns,
    read_rows,
)
from worker.cli.terminal import get_width, print_json
from worker.conversation.context import NO_OUTCOME, Context
from worker.conversation.messages import Assistant, Message, ToolResult, User
from worker.errors import SandpiperError
from worker.safety.untrusted import one_line, parse_object, visible
from worker.sessions import recent
from worker.sessions.recent import RecentTurns
from worker.turns.stored_turns import load_turn, read_turn
from worker.verdict import aftermath
from worker.verdict.project_memory import load_facts
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
def _list(config: str | None, limit: int, project: str, everything: bool, as_json: bool) -> None:
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


@command.command("show")
@click.argument("session", shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="The stored context.json itself: all of it.")
@click.pass_obj
def _show(config: str | None, session: str, as_json: bool) -> None:
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
    facts = [
        (name, one_line(text, _LONGEST_LINE))
        for name, text in _list_facts(context, find_verdict([*turns, context]))
        if text
    ]
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        click.echo(f"{name:<{width}}  {text}")
    click.echo(f"stored: {store.describe_location(key, latest)}")
    for number in range(latest + 1):
        after = aftermath.load_aftermath(store.read_aftermath(key, number))
        feedback = aftermath.load_feedback(store.read_feedback(key, number))
        for line in aftermath.describe_aftermath(feedback, after):
            click.echo(f"turn {number}: {line}")
    click.echo()
    for turn in (*turns, context):
        if turn.note_text:
            print_note(
                "The note" if turn.turn == 0 else f"The note of turn {turn.turn}", turn.note_text
            )
    for number, message in enumerate(context.messages):
        for line in _format_message(message, "user" if number else "sandpiper"):
            click.echo(line)
        click.echo()
    click.echo(_format_totals(context))


@command.command("memory", short_help="The confirmed facts of PROJECT.")
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def _memory(config: str | None, project: str, as_json: bool) -> None:
    """What is remembered of PROJECT (its id or path): confirmed facts, the newest first."""
    store = wiring.open_session_store(wiring.load_settings(config, quiet=True))
    number = _find_project(store.recent_turns, project)
    facts = load_facts(store.known_failures.read_memory(number))
    for fact in facts:
        newest = fact.sources[0]
        if as_json:
            sources = [f"!{each.mr_iid}/{each.session_id}" for each in fact.sources]
            row = {"date": fact.day, "fact": fact.text, "count": fact.count, "sources": sources}
            print_json(row, indent=None)
            continue
        times = f"  {fact.count} times" if fact.count > 1 else ""
        click.echo(f"{fact.day}  {fact.text}  !{newest.mr_iid}  {newest.session_id}{times}")
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


def _list_cells(row: Row, *, is_short: bool) -> tuple[str, ...]:
    """Return the cells of a line. Each says something, so that a line can be split at blanks."""
    path, sign, branch = row["mr"].partition("@")
    place = f"{path.rpartition('/')[2]}{sign}{branch}" if is_short else row["mr"]
    about = " ".join(filter(None, (place, row["title"], row.get("reason", ""))))
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
    room = None if width is None else max(10, width - len(line))
    if room is None or cell_len(last) <= room:
        return line + last
    return line + set_cell_size(last, room - 1).rstrip() + "…"


def _list_facts(context: Context, verdict: str) -> list[tuple[str, str]]:
    """Return the facts of a session by their names, "" for those that are unknown."""
    subject, outcome = context.subject, context.outcome or NO_OUTCOME
    return [
        ("session", context.session_id),
        (
            "branch" if subject.branch else "merge request",
            f"{subject.name} {subject.title}".strip(),
        ),
        ("", subject.web_url),
        ("pipeline", f"{subject.pipeline_id} {subject.pipeline_web_url}"),
        ("began", format_time(context.turn_usage.started_at).replace("T", " ")),
        ("verdict", verdict or "-"),
        ("state", ": ".join(filter(None, (outcome.status.value, outcome.reason)))),
        ("dry run", "nothing of it was posted" if context.began_dry else ""),
        ("turns", str(context.turn + 1)),
        ("model", context.model),
    ]


_LONGEST_LINE = 300
"""The most characters of one line of a fact, an argument or a result."""

_LONGEST_SAID = 2000
"""The most characters of one line of what a person or the model said."""

_LONGEST_ARGUMENTS = 160

_MOST_SAID = 6000
"""Characters shown of what a person or the model said; a note alone has some 3,000."""

_MOST_LINES = 8
"""Lines shown of one text in a tool's result."""

_INDENT = "  "


def _format_totals(context: Context) -> str:
    """Write a session's steps, tokens and cost on one line."""
    steps = sum(not call.task for call in context.calls)
    helps = len(context.calls) - steps
    used = context.usage
    parts = [
        _count(steps, "step")
        + (f" and {_count(helps, 'question')} to the helper" if helps else ""),
        f"{used.input:,} tokens in ({used.cached_share:.0%} cached)",
        f"{used.output:,} out",
        "cost unknown" if context.cost_usd is None else f"${context.cost_usd:.4f}",
    ]
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _format_message(message: Message, user: str) -> Iterator[str]:
    """Yield who speaks, and below it what."""
    match message:
        case User(text):
            # The human's question is at the end of what we say.
            yield f"{user}:"
            yield from _indent(_clip_text(text, end=_MOST_SAID // 3))
        case Assistant(text, calls):
            yield "model:"
            yield from _indent(_clip_text(text))
            for call in calls:
                fields = parse_object(call.arguments)
                # What is no JSON object is shown as it came.
                given = "" if call.arguments.strip() == "{}" else call.arguments
                if fields:
                    given = " ".join(f"{key}={_format_value(fields[key])}" for key in fields)
                shown = one_line(given, _LONGEST_ARGUMENTS)
                yield f"{_INDENT}→ {_clean_name(call.name)} {shown}".rstrip()
        case ToolResult():
            failed = " (failed)" if message.is_error else ""
            yield f"{_clean_name(message.name)}{failed}:"
            yield from _indent("\n".join(_preview_result(message.content)))


def _clean_name(name: str) -> str:
    return one_line(click.unstyle(name), _LONGEST_LINE)


def _preview_result(content: str) -> Iterator[str]:
    """Yield the first lines of a result: a line for each short field, a few of each long one."""
    fields = parse_object(content)
    if not fields:
        yield from _preview_lines(content)
    for name, value in fields.items():
        text = _format_value(value).strip("\n")
        if "\n" not in text:
            yield f"{name}: {one_line(text, _LONGEST_LINE)}"
            continue
        yield f"{name}:"
        yield from (_INDENT + line for line in _preview_lines(text))


def _preview_lines(text: str) -> Iterator[str]:
    lines = visible(text).splitlines()
    yield from (_cut_line(line) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"… {len(lines) - _MOST_LINES:,} more lines"


def _format_value(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def _clip_text(text: str, end: int = 0) -> str:
    """Cut a long text to its beginning and its last `end` characters."""
    if len(text) <= _MOST_SAID:
        return text
    left = f"\n… {len(text) - _MOST_SAID:,} more characters\n"
    return text[: _MOST_SAID - end] + left + (text[-end:] if end else "")


def _indent(text: str) -> Iterator[str]:
    for line in visible(click.unstyle(text)).strip("\n").splitlines():
        yield f"{_INDENT}{_cut_line(line.expandtabs(4), _LONGEST_SAID)}".rstrip()


def _cut_line(line: str, most: int = _LONGEST_LINE) -> str:
    return line if len(line) <= most else f"{line[:most]}…"
