"""`sandpiper preview`: what the model first sees of a job log."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from worker.core.logs import trace
from worker.errors import SandpiperError

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20


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
def command(log: Path, green: Path | None, limit: int) -> None:
    """The lines of the job log LOG that explain the failure, as the model first sees them.

    LOG is a trace as GitLab stores it, plain or gzipped. With the log of the last run of the same
    job that passed, what is new in LOG counts for more. Secrets are not taken out here.
    """
    with _translate_errors():
        passed = _read_pieces(green) if green else None
        shown = trace.preview_trace(_read_pieces(log), limit, passed)
    click.echo(shown.encode())


def _read_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as plain:
        packed = plain.read(2) == _GZIP
        plain.seek(0)
        with gzip.open(plain) if packed else plain as source:
            while piece := source.read(_PIECE):
                yield piece


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise SandpiperError(f"cannot read the log: {error}") from error
