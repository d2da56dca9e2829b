"""`sandpiper replay`: a stored analysis once more, on its recorded tool results."""

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from worker import wiring
from worker.cli import DONE, PARTIAL, foreground
from worker.cli.stored_sessions import complete_model, complete_session, find_latest
from worker.cli.terminal import StoppedBySignal, watch_signals
from worker.errors import HandedOver
from worker.lab.replaying import Replay, name_sandbox, replay_session
from worker.safety.untrusted import visible
from worker.settings import playbook
from worker.turns.sandbox import remove_sandbox
from worker.turns.stored_turns import load_turn

_ROWS = (
    *("model", "verdict", "proven_quotes", "unproven_quotes", "requests"),
    *("input_tokens", "output_tokens", "cost_usd"),
)


@click.command()
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="Instead of the configured one.",
    shell_complete=complete_model,
)
@click.option(
    "--workflow",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file instead of the recorded workflow.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: str | None, session: str, model: str | None, workflow: Path | None, as_json: bool
) -> None:
    """Run SESSION's analysis again on the tool results that it has recorded, and compare.

    Commands that it never ran run in its restored files; other calls that it never made are
    unavailable. Quotes are proven against GitLab. Nothing is posted or stored. Exit status 3 if the
    answer is not whole.
    """
    settings = wiring.load_settings(config, model=model, quiet=True)
    wiring.require_worker(settings, tokens=(wiring.READ,))
    deps = wiring.build_dry_deps(settings)
    key, _ = find_latest(deps.storage.sessions, session)
    stored = load_turn(deps.storage.sessions, key, 0)
    other = playbook.parse(workflow.read_text("utf-8"), str(workflow)) if workflow else None
    watch = foreground.make_watcher(Console(stderr=True), posts=False)

    def stop(number: int) -> None:
        deps.queue.leases.is_stopping = True

    with watch_signals(stop, lambda: remove_sandbox(name_sandbox(key), deps)) as came:
        try:
            replay = replay_session(key, stored, deps, watch, other)
        except HandedOver:
            raise StoppedBySignal(came[-1]) from None
    if as_json:
        click.echo(json.dumps(asdict(replay), indent=2, ensure_ascii=False))
    else:
        _print(replay)
    raise SystemExit(DONE if replay.replayed_side.is_whole else PARTIAL)


def _print(replay: Replay) -> None:
    table = Table("", "stored", "replayed", box=None, pad_edge=False)
    for name in _ROWS:
        cells = (
            _write_value(getattr(side, name)) for side in (replay.stored_side, replay.replayed_side)
        )
        table.add_row(name.replace("_", " "), *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"calls: {replay.recorded_calls} from the record, {replay.new_commands} new commands, "
        f"{replay.unavailable_calls} unavailable"
    )
    answer = visible(replay.replayed_side.answer) or "(no answer)"
    console.print(f"\n{answer}", markup=False)


def _write_value(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
