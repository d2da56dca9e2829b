"""`sandpiper analyze`: one analysis in the foreground."""

import json
import re
import sys

import click
from rich.console import Console

from worker import wiring
from worker.cli import DONE, FAILED, PARTIAL, live, say_failure
from worker.core.conversation.context import Status
from worker.errors import ConfigError, SandpiperError
from worker.turns.parts import Run
from worker.turns.results import Ended, Skipped
from worker.turns.session import analyse_failure

_URL = re.compile(r"^(?P<base>https?://.+?)/(?P<project>[^/].*?)/-/merge_requests/(?P<iid>\d+)")
_SHORT = re.compile(r"^(?P<project>[^!]+)!(?P<iid>\d+)$")
STATUS = {Status.DONE: DONE, Status.PARTIAL: PARTIAL, Status.FAILED: FAILED}


@click.command()
@click.argument("mr", metavar="MR")
@click.option("--pipeline", type=int, help="Its id; the newest failed one by default.")
@click.option("--workflow", default="analyze-failures", show_default=True)
@click.option("--model", metavar="PROVIDER/MODEL", help="Instead of the configured one.")
@click.option("--dry-run", is_flag=True, help="Print the note instead of posting it.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: str | None,
    mr: str,
    pipeline: int | None,
    workflow: str,
    model: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Analyse MR: a URL, or group/project!iid."""
    settings = wiring.load_settings(config, model=model, quiet=True)
    wiring.require_worker(settings)
    project, iid = parse_mr(mr, settings.gitlab.url)
    deps = wiring.build_dry_deps(settings) if dry_run else wiring.build_deps(settings)
    subject = deps.gitlab.pipelines.find_named_subject(project, iid, pipeline)
    if isinstance(subject, str):
        raise SandpiperError(subject)
    watch = live.make_watcher(Console(stderr=True), posts=not dry_run)
    ended = analyse_failure(subject, deps.runtime.playbook.get(workflow), deps, Run(watch))
    print_ended(ended, as_json=as_json)


def parse_mr(text: str, gitlab_url: str) -> tuple[str, int]:
    """Return a project's path and an iid. Raises ConfigError for other text or another GitLab."""
    if match := _SHORT.match(text):
        return match["project"].strip("/"), int(match["iid"])
    if not text.startswith(gitlab_url + "/"):
        expected = f"{gitlab_url}/group/project/-/merge_requests/12"
        raise ConfigError(f"MR: {text!r} is neither group/project!iid nor a URL like {expected}")
    if match := _URL.match("http://gitlab/" + text[len(gitlab_url) + 1 :]):
        return match["project"], int(match["iid"])
    raise ConfigError(f"MR: {text!r} is not a merge request's URL")


def print_ended(ended: Ended, *, as_json: bool) -> None:
    """Print how a turn ended. Exits with its status, but returns if the turn was skipped."""
    if isinstance(ended, Skipped):
        click.echo(json.dumps({"skipped": ended.reason}) if as_json else ended.reason)
        return
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
        click.echo(ended.body)
    if outcome.status is Status.FAILED:
        say_failure(outcome.reason)
    sys.exit(STATUS[outcome.status])
