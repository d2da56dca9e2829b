"""Any stdout: whatever its encoding and width."""

import codecs
import io
import json
import shutil
import sys
from typing import Any

import click

_ASCII = "sandpiper-ascii"
"""ASCII by a name that click does not know: to a stdout in ASCII it would write UTF-8."""

_SUBSTITUTES = str.maketrans(
    {"✓": "+", "✗": "x", "–": "-", "—": "-", "→": ">", "•": "*", "·": "-", "…": "~", "’": "'"}
)
"""One character for one, so that columns stay aligned."""


def prepare_stdout() -> None:
    """Let stdout take every text: what its encoding lacks becomes a similar character, or `?`."""
    codecs.register_error(_ASCII, _substitute)
    codecs.register(_find_ascii)
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        sys.stdout.reconfigure(encoding=_ASCII if is_ascii else None, errors=_ASCII)


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_SUBSTITUTES)
    return "".join(char if char.isascii() else "?" for char in text), error.end


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != _ASCII:
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        encode=plain.encode,
        decode=plain.decode,
        streamreader=plain.streamreader,
        streamwriter=plain.streamwriter,
        incrementalencoder=plain.incrementalencoder,
        incrementaldecoder=plain.incrementaldecoder,
        name=_ASCII,
    )


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON; where stdout is not UTF-8, with escapes for what its encoding may lack."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(json.dumps(value, indent=indent, ensure_ascii="utf" not in encoding.lower()))


def get_width() -> int | None:
    """Return the columns of the terminal, None if stdout is none."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None
