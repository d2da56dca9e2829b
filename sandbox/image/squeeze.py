"""Compresses and decompresses through a program, several times as fast as Python's gzip.

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
from sandbox.image.users import Users

BUFFER = 1 << 18
F_SETPIPE_SZ = 1031
WARNING_STATUS = 2  # gzip's exit status for a warning


class _Pipe:
    """The program, of the commands' uid, with unbuffered pipes as its input and output."""

    def __init__(self, users: Users, *options: str) -> None:
        self.process = subprocess.Popen(
            ["igzip" if shutil.which("igzip") else "gzip", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            **users.list_popen_options(),
        )
        self.input = cast(io.FileIO, self.process.stdin)
        self.output = cast(io.FileIO, self.process.stdout)
        for pipe in (self.input, self.output):
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe, F_SETPIPE_SZ, CHUNK)

    def wait_for_end(self) -> bool:
        """Wait for the program's end; returns whether it succeeded."""
        return self.process.wait() in (0, WARNING_STATUS)


@contextlib.contextmanager
def _run_beside(work: Callable[[], None], pipe: _Pipe) -> Iterator[None]:
    """Run `work` in a thread beside the block, and wait for it. If the block fails, the program is
    killed.

    An error of `work` takes precedence: a refusal is the cause of any error of the block.
    """
    errors, done = list[Exception](), False

    def run() -> None:
        try:
            work()
        except (Refused, OSError, EOFError) as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
        done = True
    finally:
        if not done:
            pipe.process.kill()
        thread.join()
        if errors:
            raise errors[0]


@contextlib.contextmanager
def compress_stream(send: Callable[[bytes], None], users: Users) -> Iterator[IO[bytes]]:
    """Open a file whose content is compressed and passed to `send`, which may raise Refused."""
    pipe = _Pipe(users, "-1", "-n", "-c")

    def forward() -> None:
        with pipe.output:
            while data := os.read(pipe.output.fileno(), BUFFER):
                send(data)

    with _run_beside(forward, pipe), io.BufferedWriter(pipe.input, BUFFER) as file:
        yield file
    if not pipe.wait_for_end():
        raise OSError("the compressor failed")


@contextlib.contextmanager
def decompress_stream(
    source: Source, count: Callable[[int], None], users: Users
) -> Iterator[IO[bytes]]:
    """Open the host's data as a decompressed file, which must be read to its end.

    `count` is given the size of each received piece and may raise Refused. Raises ValueError for an
    invalid or incomplete gzip file.
    """
    pipe = _Pipe(users, "-d", "-c")

    def forward() -> None:
        with pipe.input, contextlib.suppress(BrokenPipeError):
            for data in source.read_data():
                count(len(data))
                write_all(pipe.input.fileno(), data)

    with _run_beside(forward, pipe), io.BufferedReader(pipe.output, BUFFER) as file:
        yield file
    if not pipe.wait_for_end():
        raise ValueError("it does not unpack")
