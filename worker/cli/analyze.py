"""`sandpiper analyze`: one analysis in the foreground."""

import json
import re
import shlex
import sys
from collections.abc import Callable

import click
from rich.console import Console

from worker import wiring
from worker.cli import DONE, FAILED, PARTIAL, foreground, say_failure
from worker.cli.stored_sessions import complete_model
from worker.conversation.context import (
    NO_OUTCOME,
    Context,
    NoteRef,
    SessionKey,
    Status,
    Subject,
)
from worker.conversation.triggers import PipelineFailed
from worker.errors import ConfigError, SandpiperError
from worker.safety.untrusted import one_line, visible
from worker.turns import stored_turns
from worker.turns.parts import Attempt, Deps, Ended, FailedPipeline, Finished, Skipped
from worker.turns.run_again import look_again
from worker.turns.session import analyse_failure
from worker.turns.stored_turns import make_key

_URL = re.compile(r"^(?P<base>https?://.+?)/(?P<project>[^/].*?)/-/merge_requests/(?P<iid>\d+)")
_SHORT = re.compile(r"^(?P<project>[^!]+)!(?P<iid>\d+)$")
_STATUS = {Status.DONE: DONE, Status.PARTIAL: PARTIAL, Status.FAILED: FAILED}


@click.command()
@click.argument("mr", metavar="MR")
@click.option("--pipeline", type=int, help="Its id; the newest failed one by default.")
@click.option(
    "--workflow",
    default="analyze-failures",
    show_default=True,
    help="Its name, as in the folder of workflows.",
)
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="Instead of the configured one.",
    shell_complete=complete_model,
)
@click.option("--dry-run", is_flag=True, help="Print the note instead of posting it.")
@click.option("--again", is_flag=True, help="Analyse it once more if it is answered already.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: str | None,
    mr: str,
    pipeline: int | None,
    workflow: str,
    model: str | None,
    dry_run: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Explain the failed pipeline of MR: a URL, or group/project!iid.

    What is answered already is printed; a dry run is made anew each time, and needs a token to read
    GitLab with alone (GITLAB_READ_TOKEN). Ctrl-C ends the analysis after its present step.
    """
    settings = wiring.load_settings(config, model=model, quiet=True)
    wiring.require_worker(settings, tokens=(wiring.READ, *([] if dry_run else [wiring.WRITE])))
    project, iid = parse_mr(mr, settings.gitlab.url)
    settings = wiring.leave_out_pool(settings)
    deps = wiring.build_dry_deps(settings) if dry_run else wiring.build_deps(settings)
    deps.runtime.playbook.get(workflow)  # before GitLab is asked
    subject = deps.gitlab.pipelines.find_named_subject(project, iid, pipeline)
    if isinstance(subject, str):
        raise SandpiperError(subject)
    key = make_key(subject, deps.runtime.playbook.get(workflow), deps)
    answer = None if again else _find_answer(key, deps)
    if answer:
        note = answer.note or NoteRef(0)
        place = one_line(note.url, 500) or f"note {note.note_id}"
        click.echo(f"Analysed already: {place}", err=True)
        shown: Ended = Finished(
            key=key,
            turn=answer.turn,
            outcome=answer.outcome or NO_OUTCOME,
            body=answer.note_text,
            note=note,
            location=deps.storage.sessions.describe_location(key, answer.turn),
        )
    else:
        run = Attempt(foreground.make_watcher(Console(stderr=True), posts=not dry_run))
        shown = foreground.take_turn(
            _choose_turn(key, subject, workflow, deps),
            deps,
            run,
            stopped="stopped; nothing was posted"
            if dry_run
            else "stopped; its note says so, and the same command goes on from here",
        )
    status = print_ended(shown, as_json=as_json)
    if answer:
        written = shlex.join(sys.argv[1:])
        click.echo(f"To do it again: sandpiper {written} --again", err=True)
    elif dry_run and status != FAILED:
        tell_next_step(key.session_id)
    sys.exit(status)


def _find_answer(key: SessionKey, deps: Deps) -> Context | None:
    """Return what stands in the note on a failure; None if it was not explained yet."""
    latest = deps.storage.sessions.find_latest_turn(key)
    newest = None if latest is None else stored_turns.load_newest(key, latest, deps)
    if newest is None or stored_turns.is_unexplained(key, newest, deps):
        return None
    return stored_turns.find_newest_look(key, newest.turn, deps)


def _choose_turn(
    key: SessionKey, subject: Subject, workflow: str, deps: Deps
) -> Callable[[Attempt], Ended]:
    """Return what takes the session's first turn, or looks at its failure once more."""
    asked = PipelineFailed(subject.pipeline_project_id, subject.pipeline_id, subject.sha, "")
    ended_at = deps.gitlab.pipelines.find_end_time(asked)
    if deps.storage.sessions.find_latest_turn(key) is None:
        definition = deps.runtime.playbook.get(workflow)
        return lambda run: analyse_failure(subject, definition, deps, run, ended_at=ended_at)
    failure = FailedPipeline(subject, ended_at)
    return lambda run: look_again(key, failure, deps, run, on_request=True)


def parse_mr(text: str, gitlab_url: str) -> tuple[str, int]:
    """Return a project's path and an iid. Raises ConfigError for other text or another GitLab."""
    if match := _SHORT.match(text):
        return match["project"].strip("/"), int(match["iid"])
    expected = f"{gitlab_url}/group/project/-/merge_requests/12"
    if not text.startswith(gitlab_url + "/"):
        if other := _URL.match(text):
            origin = "/".join(other["base"].split("/")[:3])
            raise ConfigError(
                f"MR: {text!r} is not at {gitlab_url}: set GITLAB_URL (gitlab.url) to the GitLab "
                f"that it is at, such as {origin}"
            )
        raise ConfigError(f"MR: {text!r} is neither group/project!iid nor a URL like {expected}")
    if match := _URL.match("http://gitlab/" + text[len(gitlab_url) + 1 :]):
        return match["project"], int(match["iid"])
    raise ConfigError(f"MR: {text!r} is not a merge request's URL, such as {expected}")


def print_ended(ended: Ended, *, as_json: bool) -> int:
    """Print how a turn ended, a failure's reason as the last line; return the exit status."""
    if isinstance(ended, Skipped):
        click.echo(json.dumps({"skipped": ended.reason}) if as_json else ended.reason)
        return DONE
    outcome = ended.outcome
    if as_json:
        fields = {
            "session": ended.key.session_id,
            "turn": ended.turn,
            "status": outcome.status.value,
            "reason": outcome.reason,
            "note": ended.body,
            "note_url": ended.note.url,
            "stored": ended.location,
        }
        click.echo(json.dumps(fields, ensure_ascii=False))
    else:
        click.echo(visible(ended.body))
    if outcome.status is Status.FAILED:
        say_failure(outcome.reason)
    return _STATUS[outcome.status]


def tell_next_step(session: str) -> None:
    """Say how to ask more about what was only printed."""
    click.echo(f'To ask more: sandpiper reply {session} "…"', err=True)
