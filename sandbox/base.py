"""The sandbox's contract: five members, five errors.

SandboxError
├── SandboxUnavailable   nothing starts sandboxes here, or not now
│   └── SandboxRefused   and waiting does not help: no image, no permission, or a limit or network
│                        isolation that would not be enforced
├── SandboxLimit         a cap on bytes, members or time was hit while moving files
└── SandboxGone          the container died or does not answer; never shown as command output
    ├── SandboxTaken       another worker has taken it over
    └── SandboxNotStarted  the sandbox never started: no command has run
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

OUT = "/tmp/_out"
"""The folder inside the sandbox for output that is too long for a preview."""

DATA = "/tmp/data"
"""The folder inside the sandbox for fetched documents."""


class SandboxError(Exception):
    """The base class. The message says what was wrong and what to do."""


class SandboxUnavailable(SandboxError):
    """A sandbox cannot be started here."""


class SandboxRefused(SandboxUnavailable):
    """A sandbox cannot be started here until somebody changes the installation."""


class SandboxLimit(SandboxError):
    """A cap was hit; nothing beyond it was moved."""


class SandboxGone(SandboxError):
    """The container is dead, removed or silent."""


class SandboxTaken(SandboxGone):
    """Another worker has taken the container over; nothing in it is ours any more."""


class SandboxNotStarted(SandboxGone):
    """The sandbox was starting in the background and could not; no command has run in it."""


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of one command.

    `preview` is UTF-8 text: all of an output of at most 5,120 bytes, or 4,096 bytes of its head and
    tail with the cut marked. `size` is in bytes, `lines` counts newlines. `path` names the file
    inside the sandbox that holds the whole output, or is None if the preview is everything.
    `file_size` is the size of that file in bytes: less than `size` if the cap on one output was
    hit.
    """

    preview: str
    size: int
    lines: int
    path: str | None = None
    file_size: int = 0
    binary: bool = False


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command did. A failing command is a value, never an exception.

    `exit_code` is the shell's (128+n for signal n), or None if the deadline ended the command.
    `out_of_memory` says whether the kernel has killed a process of the sandbox for want of memory
    meanwhile; None if that is unknown.
    """

    exit_code: int | None
    stdout: Output
    stderr: Output
    seconds: float
    timed_out: bool = False
    out_of_memory: bool | None = None


class Sandbox(Protocol):
    """One running container. Methods raise SandboxGone when it is dead."""

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run `command` in bash, wait at most `timeout` seconds, then kill its process group.

        Output over 5,120 bytes, or fewer if the spec says so, is spilled inside the container to
        `/tmp/_out/{number}.txt` (stderr: `{number}.err.txt`) and only a preview crosses to the
        host. Processes the command leaves in the background are killed when it ends.

        Any failure of the command is in the result: an exit code, a signal, a time-out, an unknown
        command or folder. Raises SandboxLimit for a command of over 1 MiB.
        """
        ...

    def put(self, path: str, content: Iterable[bytes]) -> int:
        """Write a file under /tmp and make its folders; an existing file is replaced.

        Returns the bytes written. Raises ValueError for a path that is not under /tmp, and
        SandboxLimit when the file does not fit.
        """
        ...

    def get(self, path: str, *, limit: int) -> bytes:
        """Return the first `limit` bytes of a regular file; a relative path is one under /tmp.

        Raises FileNotFoundError if the path is missing or is not a regular file.
        """
        ...

    def export(self, tell_left_out: Callable[[str], object] | None = None) -> Iterator[bytes]:
        """Stream `/tmp/_out` and `/tmp/data` as a gzip tarball, in constant memory.

        Commands that still run are ended first. The archive has only regular files and folders,
        and the same files give the same bytes. Files over a cap are left out: after the last chunk,
        `tell_left_out` is told in words how many and which. Raises SandboxLimit when a cap is
        exceeded all the same, also in the middle of the stream: the chunks before that are no
        usable archive.
        """
        ...

    def close(self) -> None:
        """Remove the container, whatever it is doing. Safe to call twice; never raises."""
        ...


class Driver(Protocol):
    """Starts sandboxes."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        """Start a new container, labelled with `session`, and restore the files of `archive`.

        `archive` comes from `export` and is hostile: it is unpacked inside the container only.
        Raises SandboxUnavailable, or SandboxLimit if the archive is over a cap.
        """
        ...

    def adopt(self, session: str) -> Sandbox | None:
        """Take over the session's container that another process left running, with its files.

        All commands in it are killed first. Returns None, and removes what is left, if there is no
        container or it cannot be used. Raises SandboxUnavailable.
        """
        ...
