"""`sandpiper reply`: the next turn of a stored session, from the terminal."""

import sys

import click
from rich.console import Console

from worker import wiring
from worker.cli import FAILED, foreground
from worker.cli.analyze import print_ended, tell_next_step
from worker.cli.stored_sessions import complete_model, complete_session
from worker.conversation.questions import Route, route_reply
from worker.errors import SandpiperError
from worker.turns.parts import Attempt, ReplyRoute
from worker.turns.session import answer_reply


@click.command()
@click.argument("session", shell_complete=complete_session)
@click.argument("text")
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="Instead of the configured one.",
    shell_complete=complete_model,
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(config: str | None, session: str, text: str, model: str | None, as_json: bool) -> None:
    """Ask SESSION (its id, or a unique beginning of it) the question TEXT.

    The answer is printed and stored as the session's next turn; nothing is posted.
    """
    settings = wiring.load_settings(config, model=model, quiet=True)
    wiring.require_worker(settings, tokens=(wiring.READ,))
    deps = wiring.build_dry_deps(settings)
    key = deps.storage.sessions.find_session(session)
    if key is None:
        raise SandpiperError(f"there is no session {session!r}; see `sandpiper sessions list`")
    # What is not work is a question: who asks in a terminal wants an answer.
    route = Route.WORK if route_reply(text) is Route.WORK else Route.QUESTION
    run = Attempt(
        foreground.make_watcher(Console(stderr=True), posts=False), reply_route=ReplyRoute(route)
    )
    answered = foreground.take_turn(
        lambda run: answer_reply(key, text, deps, run),
        deps,
        run,
        stopped="stopped; nothing is stored of this question",
    )
    status = print_ended(answered, as_json=as_json)
    if status != FAILED:
        tell_next_step(key.session_id)
    sys.exit(status)
