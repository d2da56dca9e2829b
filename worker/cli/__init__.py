"""The command line. Each command is a module, imported when it is called."""

import gc
import importlib
import logging
import signal
import sys
from contextlib import suppress
from types import TracebackType

import click
from click.shell_completion import CompletionItem

from worker import __version__
from worker.cli.terminal import StoppedBySignal, prepare_stdout
from worker.errors import ConfigError, SandpiperError
from worker.safety.untrusted import one_line

log = logging.getLogger("sandpiper")

_LONGEST = 2000
"""The most characters of the last line."""

_COMMANDS = {
    "analyze": "Explain a merge request's failed pipeline, here and now.",
    "demo": "A failure, a note, a reply, on bundled parts: begin here.",
    "doctor": "Check every outside part, and say what to do.",
    "eval": "Keep failures as cases; play them against models; score them.",
    "image": "Build the image that sandboxes are made of.",
    "incidents": "Red branches: since when, by what, and who is hit.",
    "models": "The configured models; what a provider serves.",
    "preview": "The lines of a job log that explain its failure; no model.",
    "reply": "Ask a stored session one more question; nothing is posted.",
    "replay": "A stored analysis once more, on its recorded tool results.",
    "report": "How often verdicts were right, and what they cost.",
    "serve": "Receive GitLab's webhooks; with memory://, run the jobs too.",
    "sessions": "List stored sessions, or show one: who said what.",
    "settings": "Print a whole sandpiper.yaml: every setting and its default.",
    "sweep": "Find what was lost; remove what is too old to keep.",
    "tests": "Tests that fail without a cause, and what that costs.",
    "webhook": "What to set in GitLab for a webhook that is made by hand.",
    "worker": "Run jobs from the broker.",
}
DONE, FAILED, USAGE, PARTIAL = 0, 1, 2, 3


class _Commands(click.Group):
    """Commands by name; only the module of the command that runs is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # Imported modules stay in use: the garbage collector would find nothing in them, and would
        # take a sixth of the start-up time.
        gc.disable()
        command: click.Command = importlib.import_module(f"worker.cli.{cmd_name}").command
        gc.freeze()
        gc.enable()
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            with suppress(BrokenPipeError):
                say_failure(str(error) or "stopped")
            number = error.number if isinstance(error, StoppedBySignal) else signal.SIGINT
            sys.exit(128 + number)  # as a shell tells that a signal has ended a command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands and options; no command's module is imported for that."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        commands = (
            CompletionItem(name, help=about)
            for name, about in sorted(_COMMANDS.items())
            if name.startswith(incomplete)
        )
        return [*commands, *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


_EPILOG = """\b
First steps:
  sandpiper demo                      the whole story, without credentials
  sandpiper settings > sandpiper.yaml a commented file to begin with
  sandpiper doctor                    what is missing, and what to do
  sandpiper analyze --dry-run MR      a note that is printed, not posted
Completion in bash (zsh, fish likewise):
  eval "$(_SANDPIPER_COMPLETE=bash_source sandpiper)"
"""


@click.command(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG
)
@click.version_option(__version__, prog_name="sandpiper")
@click.option("--config", metavar="FILE", help="Default: $SANDPIPER_CONFIG, ./sandpiper.yaml.")
@click.pass_context
def cli(ctx: click.Context, config: str | None) -> None:
    """Explain why GitLab merge-request pipelines fail."""
    ctx.obj = config


def main(command: click.Command = cli) -> None:
    """Run the console script; errors become last lines on stderr, of the configuration one for each
    problem, and an exit status."""
    sys.excepthook = _report
    prepare_stdout()
    try:
        command.main(prog_name="sandpiper", standalone_mode=True)
    except ConfigError as error:
        _fail(str(error), USAGE)
    except SandpiperError as error:
        _fail(str(error), FAILED)
    except ImportError as error:
        from worker.doctor.shadows import explain_import_error

        if why := explain_import_error(error):
            _fail(why, FAILED)
        raise


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected error as a log record, which is redacted."""
    log.error("unexpected error", exc_info=(kind, error, trace))
    say_failure(f"an internal error ({kind.__name__}): its traceback is above")


def say_failure(reason: str) -> None:
    """Write the last line of a command that failed."""
    click.echo(f"sandpiper: {one_line(reason, _LONGEST)}", err=True)


def _fail(message: str, status: int) -> None:
    for line in message.split("\n") if status == USAGE else [message]:
        say_failure(line)
    sys.exit(status)
