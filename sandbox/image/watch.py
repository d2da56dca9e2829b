"""A container's main process where nothing else limits the container: it ends with too much memory.

    watch.py BYTES

It has another uid than the commands, which thus can neither stop nor deceive it, and its end is the
container's end. Counted are the processes' own memory and the files in memory; what forked
processes still share counts for each of them. Runs inside; standard library only.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123, PTH208

import contextlib
import os
import sys
import time
from collections.abc import Iterator

INTERVAL = 0.25
EXCEEDED = 90
"""The exit status with which it ends the container."""
TMPFS = ("/tmp", "/dev/shm")
SEGMENTS = "/proc/sysvipc/shm"


def field(status: str, name: str) -> int:
    """Bytes of a line such as `RssAnon:  120 kB`; 0 without one."""
    _, _, rest = status.partition(f"\n{name}:")
    words = rest.split(None, 1)
    return int(words[0]) * 1024 if words and words[0].isdigit() else 0


def statuses() -> Iterator[str]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/status", errors="replace") as file:
            yield file.read()


def files() -> int:
    """Bytes of files in memory."""
    size = 0
    for path in TMPFS:
        with contextlib.suppress(OSError):
            info = os.statvfs(path)
            size += (info.f_blocks - info.f_bfree) * info.f_frsize
    return size


def segments() -> int:
    """Bytes of System V shared memory, attached or not: the `rss` column."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(SEGMENTS) as file:
        column = file.readline().split().index("rss")
        return sum(int(line.split()[column]) for line in file)
    return 0


def used() -> int:
    """Bytes that the container takes. A mapped file in memory is not counted twice."""
    own = mapped = 0
    for status in statuses():
        own += field(status, "RssAnon")
        mapped += field(status, "RssShmem")
    return own + max(mapped, files() + segments())


def main(memory: str) -> None:
    while used() <= int(memory):
        time.sleep(INTERVAL)
    sys.exit(EXCEEDED)


if __name__ == "__main__":
    main(*sys.argv[1:])
