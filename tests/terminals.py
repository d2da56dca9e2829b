"""Runs a command of the product on a terminal."""

import os
import pty
import termios
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests import forks


def run_on_terminal(
    words: tuple[str, ...], env: Mapping[str, str], cwd: Path, columns: int = 80
) -> str:
    """Return what a command writes to a terminal of this width, stderr included."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as stream:
        process = forks.start((forks.SANDPIPER, *words), env, cwd, stream, stream)
    pieces: list[bytes] = []
    with os.fdopen(ours, "rb", 0) as screen, suppress(OSError):  # EIO: nobody writes any more
        while piece := screen.read(1 << 16):
            pieces.append(piece)
    process.wait(60)
    return b"".join(pieces).decode().replace("\r\n", "\n")
