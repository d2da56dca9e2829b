"""The terminal around a command: the signals that end it, and a stdout of any encoding and width.

Ctrl-C, SIGTERM and the end of the terminal: the first one ends a command between two steps as it
ends a worker, the second one at once.
"""

import codecs
import io
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS = 5.0
"""How long a command that is ended at once may take to remove what it holds."""

_NUDGE = 0.2
"""Seconds between two tries to end the main thread's wait for a signal's sake."""

_ENDING = b"sandpiper: stopping after this step; Ctrl-C again stops at once\n"


class StoppedBySignal(KeyboardInterrupt):
    """A command ends because of the signal `number`; the message is its last line."""

    def __init__(self, number: int = signal.SIGINT, message: str = "stopped") -> None:
        super().__init__(message)
        self.number = number


@contextmanager
def watch_signals(stop: Callable[[int], None], remove: Callable[[], None]) -> Iterator[list[int]]:
    """Within the block, the first signal calls `stop` with its number; it may raise, in the main
    thread. The second one calls `remove`, for a few seconds, and ends the process. Yields the list
    of the numbers of the signals that come.

    Does nothing outside the main thread, which no signal interrupts.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            end_at_once(number, remove)
        with suppress(OSError):  # what was interrupted may be writing there by a stream's buffer
            os.write(2, _ENDING)
        stop(number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        with _wake_main_thread(came):
            yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _wake_main_thread(came: list[int]) -> Iterator[None]:
    """Within the block, no wait of the main thread outlasts a signal that is not in `came` yet.

    A signal that comes just before a system call, or to another thread, does not end that call, and
    Python's handlers run after it: minutes later where it waits for a model.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    main = threading.main_thread().ident or 0

    def nudge() -> None:
        heard = 0
        while numbers := os.read(woken, 64):
            heard += sum(number in _SIGNALS for number in numbers)
            while len(came) < heard and not done.wait(_NUDGE):
                signal.pthread_kill(main, signal.SIGURG)
        os.close(woken)

    done = threading.Event()
    before = signal.signal(signal.SIGURG, lambda *_: None), signal.set_wakeup_fd(wake)
    thread = threading.Thread(target=nudge, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        signal.signal(signal.SIGURG, before[0])
        signal.set_wakeup_fd(before[1])
        os.close(wake)
        thread.join()


def end_at_once(number: int, remove: Callable[[], None]) -> None:
    """End the process after `remove`, which has a few seconds; never returns."""
    # In a thread of its own: what was interrupted may hold locks that it needs.
    thread = threading.Thread(target=remove, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    os._exit(128 + number)


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
