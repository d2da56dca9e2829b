"""`sandpiper preview`: what the model first sees of a job log."""

import gzip
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

import click

from worker.cli.terminal import print_json
from worker.errors import SandpiperError
from worker.logs.excerpt import preview_trace

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_STDIN = Path("-")
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
_MOST_IN_MEMORY = 16 << 20


@click.command()
@click.argument("log", type=_FILE)
@click.option("--green", type=_FILE, metavar="LOG", help="The log of a run that passed.")
@click.option(
    "--max",
    "limit",
    type=click.IntRange(min=200),
    default=4096,
    show_default=True,
    metavar="BYTES",
    help="The most bytes shown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(log: Path, green: Path | None, limit: int, as_json: bool) -> None:
    """The lines of the job log LOG that explain the failure, as the model first sees them.

    LOG is a trace as GitLab stores it, plain or gzipped; `-` is standard input. With the log of the
    last run of the same job that passed, what is new in LOG counts for more. Secrets are not taken
    out here.

    \b
    sandpiper preview job.log --green passed.log
    glab ci trace 4711 | sandpiper preview -
    """
    if log == _STDIN == green:
        raise click.UsageError("only one of the two logs can be standard input")
    try:
        passed = _read_pieces(green) if green else None
        shown = preview_trace(_read_pieces(log), limit, passed)
    except (OSError, EOFError, zlib.error) as error:
        raise SandpiperError(f"cannot read the log: {error}") from error
    if as_json:
        print_json({"log": str(log), "green": str(green) if green else None, "preview": shown})
    else:
        click.echo(shown)


def _read_pieces(path: Path) -> Iterator[bytes]:
    with _open_log(path) as plain:
        packed = plain.read(len(_GZIP)) == _GZIP
        plain.seek(0)
        with gzip.open(plain) if packed else plain as source:
            while piece := source.read(_PIECE):
                yield piece


@contextmanager
def _open_log(path: Path) -> Iterator[IO[bytes]]:
    if path != _STDIN:
        with path.open("rb") as plain:
            yield plain
        return
    with SpooledTemporaryFile(_MOST_IN_MEMORY) as kept:  # a pipe cannot be wound back
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.seek(0)
        yield kept
