"""Locks a folder among processes and threads, by a file that exists only while it is locked."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.errors import StoreError

LOCK = ".lock"
_PAUSE = 0.005


@contextmanager
def lock_folder(folder: Path, seconds: float) -> Iterator[None]:
    """Hold the lock on changing existing objects of `folder`.

    Raises FileNotFoundError if there is no such folder, and a transient StoreError if another
    process holds the lock for longer than `seconds`.
    """
    path, deadline = folder / LOCK, time.monotonic() + seconds
    while (handle := _try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise StoreError(f"{folder} stays locked by another process", transient=True)
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        # Removed before it is released: whoever waits for this file sees that it is gone.
        path.unlink(missing_ok=True)
        # Closing releases the lock; the kernel does the same for a process that dies.
        os.close(handle)


def _try_lock(path: Path) -> int | None:
    """Lock the file, which is created, and return its handle; None if another process has it."""
    handle = _open(path, os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(handle, path):
            return handle
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno != errno.ESTALE:  # On NFS: removed since it was opened.
            os.close(handle)
            raise
    os.close(handle)
    return None


def _is_current(handle: int, path: Path) -> bool:
    """Whether the file still has this name. It is opened again, because on NFS a name alone may be
    answered from a cache."""
    try:
        again = _open(path)
    except FileNotFoundError:
        return False
    try:
        return os.path.samestat(os.fstat(handle), os.fstat(again))
    finally:
        os.close(again)


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
