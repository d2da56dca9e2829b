"""gzip both ways through a program, which is several times as fast as Python's own.

igzip (ISA-L) where it is installed, else gzip; both at level 1, without name or time.
"""

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import IO, cast

from sandbox.image.frames import CHUNK, Refused, Source, write_all

BUFFER = 1 << 18
F_SETPIPE_SZ = 1031
WARNED = 2  # gzip's status for what it could ignore


def program(*options: str) -> list[str]:
    return ["igzip" if shutil.which("igzip") else "gzip", *options]


class Pipe:
    """A program between two unbuffered pipes."""

    def __init__(self, command: list[str]) -> None:
        ends = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=ends, stdout=ends, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.input = cast(io.FileIO, self.process.stdin)
        self.output = cast(io.FileIO, self.process.stdout)
        for pipe in (self.input, self.output):
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe, F_SETPIPE_SZ, CHUNK)

    def end(self) -> bool:
        """Whether it ended well."""
        return self.process.wait() in (0, WARNED)


class Helper(threading.Thread):
    """Work beside the main thread; what it raised is raised again by `finish`."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except (Refused, OSError, EOFError) as error:
            self.error = error

    def finish(self) -> None:
        self.join()
        if self.error:
            raise self.error


@contextlib.contextmanager
def packing(send: Callable[[bytes], None]) -> Iterator[IO[bytes]]:
    """A file: what is written to it goes to `send`, compressed. `send` may raise Refused."""
    pipe, done = Pipe(program("-1", "-n", "-c")), False

    def forward() -> None:
        with pipe.output:
            while data := os.read(pipe.output.fileno(), BUFFER):
                send(data)

    helper = Helper(forward)
    try:
        with io.BufferedWriter(pipe.input, BUFFER) as file:
            yield file
        done = True
    finally:
        if not done:
            pipe.process.kill()
        helper.finish()
    if not pipe.end():
        raise OSError("the compressor failed")


@contextlib.contextmanager
def unpacking(source: Source, count: Callable[[int], None]) -> Iterator[IO[bytes]]:
    """A file: what the host sends, decompressed. `count` hears of what arrives, may raise Refused.

    It must be read to its end. Raises ValueError for what is no whole gzip.
    """
    pipe, done = Pipe(program("-d", "-c")), False

    def forward() -> None:
        with pipe.input, contextlib.suppress(BrokenPipeError):
            for data in source.data():
                count(len(data))
                write_all(pipe.input.fileno(), data)

    helper = Helper(forward)
    try:
        with io.BufferedReader(pipe.output, BUFFER) as file:
            yield file
        done = True
    finally:
        if not done:
            pipe.process.kill()
        helper.finish()  # where it refused, the rest followed from that
    if not pipe.end():
        raise ValueError("it does not unpack")
