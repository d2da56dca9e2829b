"""`sandpiper doctor`: checks every outside part and says how to repair it."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.text import Text

from sandbox.bubblewrap import BubblewrapDriver
from sandbox.engine import describe_engine
from sandbox.kubernetes.cluster import describe_cluster
from worker import app, wiring
from worker import settings as settings_module
from worker.cli.terminal import get_width, print_json
from worker.doctor import gitlab
from worker.doctor.base import (
    LIMIT,
    Candidate,
    Check,
    CheckLine,
    CheckStatus,
    Installation,
    Lazy,
    ModelList,
    Report,
    report_failed,
    report_unchecked,
    run_checks,
)
from worker.doctor.table import CHECKS
from worker.doctor.tokens import FIXING
from worker.errors import ConfigError
from worker.queue import broker
from worker.safety.redact import Redactor
from worker.settings import Settings

_MARKS = {
    CheckStatus.GOOD: ("✓", "green"),
    CheckStatus.WARNING: ("!", "yellow"),
    CheckStatus.FAILED: ("✗", "red"),
    CheckStatus.UNCHECKED: ("–", "dim"),
}
_NAMES = click.Choice([check.name for check in CHECKS])
_COLUMN = 16
_ENDLESS = 10_000
"""The columns of a line that goes to no terminal: more than any line has."""


@click.command()
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="Where GitLab reaches `sandpiper serve`; else pages.url.",
)
@click.option("--fix", is_flag=True, help="Make or repair the webhooks (needs --url).")
@click.option("--no-model", is_flag=True, help="Do not ask the models; asking costs a little.")
@click.option(
    "--skip",
    multiple=True,
    type=_NAMES,
    metavar="CHECK",
    help="Leave a check out; may be repeated.",
)
@click.option(
    "--only",
    multiple=True,
    type=_NAMES,
    metavar="CHECK",
    help="Make only this check; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: str | None,
    url: str,
    fix: bool,
    no_model: bool,
    skip: tuple[str, ...],
    only: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check every outside part: GitLab, webhooks, broker, store, sandbox, models.

    Exit status 0 if nothing has failed (warnings are no failure), 1 otherwise. No secret is shown.
    Each line begins with the name of its CHECK.

    --fix writes to GitLab: the webhook of every served project that has none, or a wrong one. It
    needs a Maintainer's token: GITLAB_SETUP_TOKEN, else the write token.

    \b
    sandpiper doctor --only gitlab --only read-token
    sandpiper doctor --fix --url https://sandpiper.example.com
    """
    out = {*skip, *(["model"] if no_model else [])}
    checks = [each for each in CHECKS if each.name not in out and (not only or each.name in only)]
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError("--url: expected https://host")
    tell = _Teller()
    report = _run_checks(
        config, url.rstrip("/"), fix, checks, tell if not as_json else lambda check, line: None
    )
    if as_json:
        rows = [
            {
                "group": check.group,
                "check": check.name,
                "name": line.name,
                "status": line.status.value,
                "found": line.finding,
                "advice": line.advice,
            }
            for check, line in report.lines
        ]
        print_json({"ok": report.ok, "lines": rows})
    else:
        Console(highlight=False).print(Text(_format_summary(report), style="bold"))
    sys.stdout.flush()
    if report.has_hung:
        os._exit(1)  # a hanging thread would keep the process alive
    sys.exit(0 if report.ok else 1)


def _run_checks(
    config: str | None,
    url: str,
    fix: bool,
    checks: Sequence[Check],
    tell: Callable[[Check, CheckLine], None],
) -> Report:
    try:
        file = settings_module.find_file(config)
        settings = wiring.load_settings(config, quiet=True)
    except ConfigError as error:
        first, others = CHECKS[0], replace(CHECKS[0], name="all else")
        lines = [(first, report_failed(first.name, why)) for why in str(error).splitlines()]
        why = "there are no settings to check it by"
        lines.append((others, report_unchecked(others.name, why)))
        for check, line in lines:
            tell(check, line)
        return Report(lines, has_hung=False)
    url = url or settings.pages.url.rstrip("/")
    if fix and not (url and (settings.gitlab.webhook_secret or settings.gitlab.webhook_keys)):
        raise click.UsageError(
            "--fix needs --url, the address at which GitLab reaches us, and GITLAB_WEBHOOK_SECRET "
            "or GITLAB_WEBHOOK_KEY"
        )
    installation = make_installation(settings, file, url, fix)
    limit = LIMIT + FIXING if fix else LIMIT
    redact = Redactor(settings.list_secrets()).redact_text
    return run_checks(installation, checks, redact, limit, tell)


def make_installation(
    settings: Settings,
    file: Path | None = None,
    url: str = "",
    fix: bool = False,
    now: Callable[[], float] = time.time,
) -> Installation:
    """Make the installation to check, from the parts that the product itself uses."""
    # The app builds the parts of a job only when it runs one, and the doctor runs none.
    celery = Lazy(lambda: app.build_app(settings, partial(wiring.build_deps, settings)))
    chosen = settings.gitlab
    read = gitlab.Client(chosen.url, chosen.read_token, "read")
    write = gitlab.Client(chosen.url, chosen.write_token, "write")
    setup = write
    if chosen.setup_token:
        setup = gitlab.Client(chosen.url, chosen.setup_token, "setup")
    return Installation(
        settings=settings,
        file=file,
        url=url,
        fix=fix,
        gitlab=gitlab.Accounts(
            read=read,
            write=write,
            setup=setup,
            connection=Lazy(lambda: gitlab.check_connection(read, now)),
            reader=Lazy(lambda: gitlab.get_account(read)),
            writer=Lazy(lambda: gitlab.get_account(write)),
            projects=Lazy(lambda: gitlab.list_member_projects(read)),
        ),
        store=lambda: wiring.open_session_store(settings),
        other_addressing=lambda: wiring.find_other_addressing(settings),
        driver=lambda: wiring.build_driver(settings),
        engine=describe_engine,
        cluster=lambda: describe_cluster(settings.sandbox.namespace),
        missing_limits=lambda: _list_missing_limits(settings),
        models=lambda: _list_candidates(settings),
        model_lists=lambda: [
            ModelList(who, partial(wiring.compare_provider, settings, who))
            for who in wiring.list_chosen_providers(settings)
        ],
        broker=lambda: broker.find_broker_failure(celery()),
        workers=lambda: broker.list_workers(celery()),
        tools=lambda: wiring.list_tool_names(settings),
        import_path=tuple(sys.path),
        now=now,
        monotonic=time.monotonic,
    )


def _list_candidates(settings: Settings) -> list[Candidate]:
    known, helper = wiring.build_catalogue(settings), wiring.build_helper_model(settings)
    models = [(model, True) for model in wiring.build_models(settings)]
    models += [(helper, False)] if helper else []
    entries = {name: known.resolve_name(name) for name in {model.name for model, _ in models}}
    return [
        Candidate(
            name=model.name,
            roles=", ".join(wiring.list_roles(settings, model.name, model.level)),
            level=model.level,
            is_listed=bool(entries[model.name].name),
            has_price=bool(entries[model.name].info.rates),
            assumed_like=entries[model.name].name if entries[model.name].is_assumed else "",
            open=partial(wiring.open_model, model, settings)
            if calls_tools
            else partial(closing, model),
            calls_tools=calls_tools,
            refusal=wiring.explain_unpriced(settings, model.name),
            is_charged=not entries[model.name].info.rates and known.assumed_rate is not None,
        )
        for model, calls_tools in models
    ]


def _list_missing_limits(settings: Settings) -> Sequence[str]:
    chosen = wiring.build_driver(settings)
    return chosen.list_missing_limits() if isinstance(chosen, BubblewrapDriver) else ()


# ---------------------------------------------------------------------------------------- printing


class _Teller:
    """Prints each line as it becomes known, the checks' groups as headings above them."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, emoji=False)
        self._width = get_width() or _ENDLESS
        self._group = ""

    def __call__(self, check: Check, line: CheckLine) -> None:
        if check.group != self._group:
            self._group = check.group
            self._console.print(Text(check.group, style="bold"))
        mark, style = _MARKS[line.status]
        lead = Text.assemble("  ", (mark, style), " ", f"{check.name:<{_COLUMN}}")
        is_part = line.name.replace(" ", "-") != check.name
        self._print_hanging(lead, f"{line.name}: {line.finding}" if is_part else line.finding)
        if line.advice:
            lead = Text.assemble(" " * (_COLUMN + 4), ("→ ", style))
            self._print_hanging(lead, line.advice)

    def _print_hanging(self, lead: Text, text: str) -> None:
        """Print the text after `lead`; its other lines are aligned with the first one."""
        room = max(20, self._width - lead.cell_len)
        for part in Text(text).wrap(self._console, room, overflow="fold"):
            part.rstrip()
            whole = Text.assemble(lead, part)
            self._console.print(whole, no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)
            lead = Text(" " * lead.cell_len)


def _format_summary(report: Report) -> str:
    count = {status: sum(line.status is status for _, line in report.lines) for status in _MARKS}
    words = {
        CheckStatus.GOOD: "well",
        CheckStatus.WARNING: "warned of",
        CheckStatus.FAILED: "failed",
        CheckStatus.UNCHECKED: "not checked",
    }
    counts = [f"{count[status]} {word}" for status, word in words.items() if count[status]]
    return ", ".join(counts)
