"""The sandbox's contract: five members, three errors.

SandboxError
├── SandboxUnavailable   no engine, no image, or a limit the engine would not enforce
├── SandboxLimit         a cap on bytes, members or time was hit while moving files
└── SandboxGone          the container died or does not answer; never shown as command output
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

OUT = "/tmp/_out"
"""Where spilled output lies inside the sandbox."""

DATA = "/tmp/data"
"""Where fetched documents lie inside the sandbox."""


class SandboxError(Exception):
    """The root. The message says what was wrong and what to do."""


class SandboxUnavailable(SandboxError):
    """A sandbox cannot be started here."""


class SandboxLimit(SandboxError):
    """A cap was hit; nothing beyond it was moved."""


class SandboxGone(SandboxError):
    """The container is dead, removed or silent."""


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of one command.

    `preview` is UTF-8 text: all of an output of at most 5,120 bytes, or 4,096 bytes of its head and
    tail with the cut marked. `size` is in bytes, `lines` counts newlines. `path` names the file
    inside the sandbox that holds the whole output, or is None if the preview is everything. `kept`
    is the number of bytes in that file: less than `size` where the cap on one output was hit.
    """

    preview: str
    size: int
    lines: int
    path: str | None = None
    kept: int = 0
    binary: bool = False


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command did. A failing command is a value, never an exception.

    `exit_code` is the shell's (128+n for signal n), or None if the deadline ended the command.
    """

    exit_code: int | None
    stdout: Output
    stderr: Output
    seconds: float
    timed_out: bool = False


class Sandbox(Protocol):
    """One running container. Methods raise SandboxGone when it is dead."""

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run `command` in bash, wait at most `timeout` seconds, then kill its process group.

        Output over 5,120 bytes, or fewer if the spec says so, is spilled inside the container to
        `/tmp/_out/{number}.txt` (stderr: `{number}.err.txt`) and only a preview crosses to the
        host. Processes the command leaves in the background are killed when it ends.

        A value: any exit code, a signal, a time-out, an unknown command or folder, a command that
        killed everything it could. Raised: SandboxLimit for a command of over 1 MiB.
        """
        ...

    def put(self, path: str, content: Iterable[bytes]) -> int:
        """Write a file under /tmp, making its folders; an existing file is replaced.

        Returns the bytes written. Raises ValueError for a path that is not under /tmp, and
        SandboxLimit when the file does not fit.
        """
        ...

    def get(self, path: str, *, limit: int) -> bytes:
        """The first `limit` bytes of a regular file; a relative path is one under /tmp.

        Raises FileNotFoundError if there is none, or if it is something else than a file.
        """
        ...

    def export(self) -> Iterator[bytes]:
        """`/tmp/_out` and `/tmp/data` as a gzip tarball, in chunks, in constant memory.

        What still runs is ended first; SandboxGone where it cannot be.
        Only regular files and folders; the same files give the same bytes. Raises SandboxLimit
        past a cap, also in the middle of the stream: what came until then is no archive.
        """
        ...

    def close(self) -> None:
        """Remove the container, whatever it is doing. Safe to call twice; never raises."""
        ...


class Driver(Protocol):
    """Starts sandboxes."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        """A fresh container labelled with `session`, with the files of `archive` restored.

        `archive` is what `export` gave, and hostile: extracted inside the container only.
        Raises SandboxUnavailable, or SandboxLimit if the archive is over a cap.
        """
        ...

    def adopt(self, session: str) -> Sandbox | None:
        """The session's container that another process has left running, with its files.

        What ran in it has been killed, or it is not used. None if there is none that can be; then
        nothing of it is left. Raises SandboxUnavailable.
        """
        ...
