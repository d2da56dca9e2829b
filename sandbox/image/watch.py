"""The main process of a container without memory limit: it exits when the memory is exceeded.

    watch.py BYTES

Commands can neither stop nor deceive it, because it has another uid; when it ends, the container
ends. It counts the processes' own memory and the files in memory; memory that forked processes
still share counts for each of them. Runs inside; standard library only.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123, PTH208

import contextlib
import os
import sys
import time

INTERVAL = 0.25
EXCEEDED = 90
"""The exit status when the memory is exceeded."""
TMPFS = ("/tmp", "/dev/shm")
SEGMENTS = "/proc/sysvipc/shm"


def _parse_size(status: str, name: str) -> int:
    """Return the bytes of a line such as `RssAnon:  120 kB`; 0 if there is none."""
    _, _, rest = status.partition(f"\n{name}:")
    words = rest.split(None, 1)
    return int(words[0]) * 1024 if words and words[0].isdigit() else 0


def _measure_files() -> int:
    """Return the bytes of files in memory."""
    size = 0
    for path in TMPFS:
        with contextlib.suppress(OSError):
            info = os.statvfs(path)
            size += (info.f_blocks - info.f_bfree) * info.f_frsize
    return size


def _measure_segments() -> int:
    """Return the bytes of System V shared memory, attached or not: the `rss` column."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(SEGMENTS) as file:
        column = file.readline().split().index("rss")
        return sum(int(line.split()[column]) for line in file)
    return 0


def _measure_memory() -> int:
    """Return the bytes that the container uses. A mapped file in memory is not counted twice."""
    own = mapped = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/status", errors="replace") as file:
            status = file.read()
            own += _parse_size(status, "RssAnon")
            mapped += _parse_size(status, "RssShmem")
    return own + max(mapped, _measure_files() + _measure_segments())


def main(memory: str) -> None:
    while _measure_memory() <= int(memory):
        time.sleep(INTERVAL)
    sys.exit(EXCEEDED)


if __name__ == "__main__":
    main(*sys.argv[1:])
