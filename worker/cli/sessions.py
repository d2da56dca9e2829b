"""`sandpiper sessions`: what is stored."""

import json
from collections.abc import Iterator

import click

from worker import wiring
from worker.core import aftermath, history
from worker.core.context import Context
from worker.core.messages import Assistant, Message, ToolResult, User
from worker.core.ports import SessionKey, SessionStore
from worker.errors import SandpiperError

_SHOWN = 1200
"""Characters of one message; a reply's opening text alone has some 500."""


@click.group()
def command() -> None:
    """List stored sessions, or show one."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def list_(config: str | None, as_json: bool) -> None:
    """Every stored session, one line each."""
    store = wiring.store(wiring.start(config, quiet=True))
    for key in store.sessions():
        latest = store.latest(key)
        if latest is not None:
            _row(key, history.load(store.read_context(key, latest)), as_json)


@command.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="The stored context.json itself.")
@click.pass_obj
def show(config: str | None, session: str, as_json: bool) -> None:
    """The conversation of SESSION (its id, or a unique beginning of it)."""
    store = wiring.store(wiring.start(config, quiet=True))
    key, latest, data = _latest(store, session)
    if as_json:
        click.echo(data.decode())
        return
    context = history.load(data)
    _row(key, context, as_json=False)
    click.echo(f"stored: {store.location(key, latest)}")
    for line in _aftermath(store, key, latest):
        click.echo(line)
    click.echo()
    for message in context.messages:
        click.echo(_line(message))


def _latest(store: SessionStore, session: str) -> tuple[SessionKey, int, bytes]:
    key = store.find(session)
    latest = store.latest(key) if key else None
    if key is None or latest is None:
        raise SandpiperError(f"there is no session {session!r}; see `sandpiper sessions list`")
    return key, latest, store.read_context(key, latest)


def _aftermath(store: SessionStore, key: SessionKey, latest: int) -> Iterator[str]:
    """What came after each turn's note."""
    for turn in range(latest + 1):
        after = aftermath.load_after(store.after(key, turn))
        feedback = aftermath.load_feedback(store.feedback(key, turn))
        for line in aftermath.told(feedback, after):
            yield f"turn {turn}: {line}"


def _row(key: SessionKey, context: Context, as_json: bool) -> None:
    status = context.outcome.status.value if context.outcome else "unknown"
    subject = context.subject
    fields = {
        "session": key.session_id,
        "mr": f"{subject.project}!{subject.mr_iid}",
        "pipeline": subject.pipeline_id,
        "turns": context.turn + 1,
        "status": status,
        "model": context.model,
        "cost_usd": context.cost_usd,
    }
    cost = "cost unknown" if context.cost_usd is None else f"${context.cost_usd:.4f}"
    click.echo(
        json.dumps(fields)
        if as_json
        else f"{key.session_id}  {fields['mr']}  pipeline {subject.pipeline_id}  "
        f"turns {fields['turns']}  {status}  {context.model}  {cost}"
    )


def _line(message: Message) -> str:
    match message:
        case User(text):
            return f"user: {_clip(text)}"
        case Assistant(text, calls):
            called = "".join(f"\n  → {call.name} {_clip(call.arguments)}" for call in calls)
            return f"model: {_clip(text)}{called}"
        case ToolResult():
            failed = " (failed)" if message.is_error else ""
            return f"{message.name}{failed}: {_clip(message.content)}"


def _clip(text: str) -> str:
    flat = click.unstyle(" ".join(text.split()))
    printable = "".join(char if char.isprintable() else "�" for char in flat)
    return printable if len(printable) <= _SHOWN else printable[:_SHOWN] + " …"
