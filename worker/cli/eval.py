"""`sandpiper eval`: plays recorded failures against models, and counts the right verdicts."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from worker import wiring
from worker.cli import DONE, FAILED, PARTIAL
from worker.cli.analyze import parse_mr
from worker.cli.layout import print_table
from worker.cli.serve import serve_embedded
from worker.cli.stored_sessions import complete_model, complete_session, find_latest
from worker.cli.terminal import print_json
from worker.errors import ConfigError, SandpiperError
from worker.lab import scoring
from worker.lab.cases import EXPECT, Case, find_cases, load_case, require_expectations
from worker.lab.recording import Recorder, list_names, make_cleaner
from worker.lab.running import Judge, judge_cause, play_case
from worker.lab.scoring import Played, summarise_runs
from worker.safety.redact import Redactor
from worker.safety.untrusted import one_line
from worker.settings import Settings
from worker.turns.stored_turns import load_turn

_Run = tuple[Case, str, int]

_LONGEST = 2000
"""The most characters of a line below the table."""


@click.group()
def command() -> None:
    """Keep real failures as cases; play cases against models, and score them.

    \b
    sandpiper eval record 'group/project!12' cases/rounding
    sandpiper eval run cases --model anthropic/claude-sonnet-5-5 --max-cost 5
    """


@command.command("run", short_help="Play the cases in FOLDERS, and score the notes.")
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="PROVIDER/MODEL",
    help="Instead of the configured one; may be repeated.",
    shell_complete=complete_model,
)
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100),
    help="How often each case is played.",
)
@click.option(
    "--judge",
    default="",
    metavar="PROVIDER/MODEL",
    help="Compares causes by meaning.",
    shell_complete=complete_model,
)
@click.option("--results", type=click.Path(path_type=Path), help="Keep results; resume from them.")
@click.option("--max-cost", type=click.FloatRange(min=0), help="Dollars after which no run begins.")
@click.option("--min-right", default=0.0, type=click.FloatRange(0, 1), help="Exit with 1 below it.")
@click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print the result as Markdown.")
@click.pass_obj
def _run(
    config: str | None,
    folders: tuple[Path, ...],
    models: tuple[str, ...],
    repeat: int,
    judge: str,
    results: Path | None,
    max_cost: float | None,
    min_right: float,
    form: str | None,
) -> None:
    """Play the cases in FOLDERS through the whole product, from webhook to note.

    GitLab is simulated and serves the case; all else is real. Needs Docker. Exit status 1 if less
    than --min-right of the runs of a model are right, 3 if --max-cost ended it early.
    """
    cases = [load_case(folder) for folder in find_cases(folders)]
    require_expectations(cases)
    for model in models:  # before the first run
        wiring.require_worker(wiring.load_settings(config, model=model, quiet=True), tokens=())
    settings = wiring.load_settings(config, quiet=True)
    wiring.require_worker(settings, tokens=())
    chosen_models = models or (settings.models.default,)
    for model in chosen_models if max_cost is not None else ():
        changes = {"default": model, "helper": judge or settings.models.helper}
        chosen = settings.models.model_copy(update=changes)
        wiring.require_prices(settings.model_copy(update={"models": chosen}), "--max-cost")
    wanted = [
        (case, model, number)
        for number in range(1, repeat + 1)
        for model in chosen_models
        for case in cases
    ]
    played = _load_results(results)
    with ExitStack() as opened:
        ask_judge = _make_judge(settings, judge, opened)
        left = _play_all(wanted, played, settings, ask_judge, results, max_cost)
    keys = {_make_key(*each) for each in wanted}
    counted = [each for each in played if _get_key(each) in keys]
    _print(counted, form)
    rights = [each.right for each in summarise_runs(counted)]
    if any(right.hits < min_right * right.total for right in rights):
        raise SystemExit(FAILED)
    raise SystemExit(PARTIAL if left else DONE)


def _play_all(
    wanted: Sequence[_Run],
    played: list[Played],
    settings: Settings,
    judge: Judge,
    results: Path | None,
    max_cost: float | None,
) -> int:
    """Play the runs missing in `played` and add them; return how many the cost cap left out."""
    done, progress = {_get_key(each) for each in played}, Console(stderr=True, highlight=False)
    todo = [each for each in wanted if _make_key(*each) not in done]
    spent = 0.0
    for number, (case, model, repeat) in enumerate(todo):
        if max_cost is not None and spent >= max_cost:
            progress.print(f"{spent:.2f} USD are spent: {len(todo) - number} runs left out")
            return len(todo) - number
        newest = play_case(case, model, repeat, settings, serve_embedded, judge)
        spent += settings.limits.cost_usd if newest.cost_usd is None else newest.cost_usd
        played.append(newest)
        if results is not None:
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(newest)) + "\n")
        progress.print(f"[{number + 1}/{len(todo)}] {_describe(newest)}", markup=False)
    return 0


def _describe(played: Played) -> str:
    score = "right" if played.is_right else "WRONG"
    took = "" if played.seconds_to_note is None else f", {played.seconds_to_note:.1f} s"
    why = f" ({played.problem})" if played.problem else ""
    return f"{played.case}, {played.model}: {score}, {played.verdict or 'no verdict'}{took}{why}"


def _make_judge(settings: Settings, name: str, opened: ExitStack) -> Judge:
    if not name:
        return lambda meaning, cause: None
    chosen = settings.models.model_copy(update={"helper": name})
    helper = wiring.build_helper(settings.model_copy(update={"models": chosen}), None, opened)
    if helper is None:
        raise ConfigError(f"--judge: {name} is not a configured model")
    return lambda meaning, cause: judge_cause(helper, meaning, cause)


@command.command("record", short_help="Keep a real failure as a case in the new folder DIR.")
@click.argument("places", nargs=-1, required=True, metavar="[MR] DIR")
@click.option(
    "--session",
    default="",
    metavar="ID",
    help="A stored session's, instead of MR's.",
    shell_complete=complete_session,
)
@click.option("--pipeline", type=int, help="Its id; the newest failed one by default.")
@click.option("--anonymise", is_flag=True, help="Replace the names of project, host and author.")
@click.pass_obj
def _record(
    config: str | None, places: tuple[str, ...], session: str, pipeline: int | None, anonymise: bool
) -> None:
    """Keep the failure of MR (a URL, or group/project!iid) as a case in the new folder DIR.

    What GitLab says is read with the read token, and redacted. Then fill in DIR/expect.yaml.
    """
    if len(places) != (1 if session else 2):
        raise click.UsageError("expected MR and DIR, or --session ID and DIR")
    settings = wiring.load_settings(config, quiet=True)
    deps, client = wiring.build_dry_deps(settings), wiring.open_read_client(settings)
    verdict = ""
    if session:
        store = wiring.open_session_store(settings)
        key, latest = find_latest(store, session)
        context = load_turn(store, key, latest)
        subject = context.subject
        verdict = context.verdict or load_turn(store, key, 0).verdict
    else:
        found = deps.gitlab.pipelines.find_named_subject(
            *parse_mr(places[0], settings.gitlab.url), pipeline
        )
        if isinstance(found, str):
            raise SandpiperError(found)
        subject = found
    redact = Redactor(settings.list_secrets()).redact_data
    names = list_names(client, subject) if anonymise else {}
    recorder = Recorder(client, subject, Path(places[-1]), make_cleaner(redact, names))
    recorder.record(verdict or "unknown")
    for line in recorder.gaps:
        click.echo(f"not kept: {line}", err=True)
    click.echo(
        f"kept in {places[-1]}; now fill in {Path(places[-1]) / EXPECT}: `eval run` asks for it"
    )


# ---------------------------------------------------------------------------------------- results

_Key = tuple[str, str, str, int]


def _make_key(case: Case, model: str, repeat: int) -> _Key:
    return case.name, case.digest, model, repeat


def _get_key(played: Played) -> _Key:
    return played.case, played.digest, played.model, played.repeat


def _load_results(path: Path | None) -> list[Played]:
    """Return the runs of a results file, which has one per line. Raises ConfigError."""
    played: list[Played] = []
    lines = path.read_text("utf-8").splitlines() if path and path.exists() else ()
    for number, line in enumerate(lines, 1):
        try:
            played.append(Played(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{path}:{number}: not a result of `eval run`: {error}") from error
    return played


def _print(played: Sequence[Played], form: str | None) -> None:
    if form == "json":
        print_json(scoring.make_json(played))
    elif form == "markdown":
        click.echo(scoring.write_markdown(played), nl=False)
    else:
        print_table([scoring.HEADER, *scoring.list_rows(played)])
        for line in scoring.list_wrong_runs(played):
            click.echo(f"not right: {one_line(line, _LONGEST)}")
