"""Stores sessions in a local folder that any number of processes may share."""

# ruff: noqa: PTH104, PTH108

import errno
import hashlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TypeVar

from worker.errors import StoreError
from worker.sessions.folder_lock import LOCK, lock_folder
from worker.sessions.objects import CHUNK, Stored
from worker.sessions.store import SessionStore

_READ = os.O_RDONLY | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_READ_ATTEMPTS = 3
"""A reader may miss an object while `write` swaps it; missing it three times is unlikely."""

_FOLDER_ATTEMPTS = 100
"""A writer may miss its folder while others remove it; it is made again as often as this."""

_LIVING = ("slots/", "workers/")
"""What concerns only workers that are alive, and so need not survive a loss of power."""

_SESSIONS = "sessions/"
"""Where a writer that died may have left much of what was said."""

_DEAD_AFTER = 20.0
"""Seconds after which an unfinished file is a dead writer's; a turn is taken over later."""

_TRANSIENT = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE}
_ELSEWHERE = "name another folder, such as SANDPIPER_STORE=file://$HOME/sandpiper"
_HINTS = {
    errno.EACCES: f"let this user write there, or {_ELSEWHERE}",
    errno.EPERM: f"let this user write there, on a file system with hard links, or {_ELSEWHERE}",
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), _ELSEWHERE),
    errno.EOPNOTSUPP: "use a file system with hard links",
    errno.EROFS: f"the file system is read-only: {_ELSEWHERE}",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
}
T = TypeVar("T")


class FolderStore(SessionStore):
    """A SessionStore under `root`, which is created. Raises StoreError if that fails.

    `lock_seconds` is how long to wait for another process that changes the same turn.
    """

    def __init__(
        self, root: Path, *, lock_seconds: float = 10.0, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(Folder(root, lock_seconds), now)


class Folder:
    """Objects as files. Folders have mode 0700, files 0600; dot-files are temporary files.

    Whoever removes the last file of a folder removes the folder too, as the system does it: only if
    it is empty. A writer that misses its folder for this reason makes it again.
    """

    def __init__(self, root: Path, lock_seconds: float) -> None:
        self._root = root
        self._lock_seconds = lock_seconds
        with _translate_errors(f"create the store {root}"):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def exists(self, name: str) -> bool:
        path = self._root / name
        with _translate_errors(f"look at {path}"), suppress(FileNotFoundError):
            path.stat()
            return True
        return False

    def find_modification_time(self, name: str) -> float | None:
        path = self._root / name
        with _translate_errors(f"look at {path}"):
            for each in (path, Path(_name_aside(str(path)))):
                with suppress(FileNotFoundError, NotADirectoryError):
                    return each.stat().st_mtime
            return None

    def read(self, name: str, limit: int) -> Stored | None:
        path, content = self._root / name, None
        with _translate_errors(f"read {path}"):
            # Also while `write` swaps it, or if a worker was killed in the middle.
            for place in (path, Path(_name_aside(str(path)))) * _READ_ATTEMPTS:
                content = _read(place, limit + 1)
                if content is not None:
                    break
        if content is None:
            return None
        if len(content) > limit:
            raise StoreError(f"{path} has more than {limit} bytes: it is not one of our objects")
        return Stored(content, _compute_version(content))

    def create(self, name: str, content: bytes) -> bool:
        path = self._root / name
        with _translate_errors(f"write {path}"), self._make_scratch_file(path) as (scratch, file):
            durable = not name.startswith(_LIVING)
            _finish_file(file, content, durable)
            won = _link(scratch, path)
            if durable:
                _sync(path.parent)
            return won

    def replace(self, name: str, content: bytes, version: str) -> bool:
        path = self._root / name
        with _translate_errors(f"write {path}"), self._make_scratch_file(path) as (scratch, file):
            durable = not name.startswith(_LIVING)
            _finish_file(file, content, durable)
            with lock_folder(path.parent, self._lock_seconds):
                if _digest(path) != version:
                    return False
                scratch.replace(path)
            if durable:
                _sync(path.parent)
            return True

    def write(self, name: str, content: bytes) -> None:
        """The old object is renamed, and removed when the new one is in its place.

        Renaming over it would be simpler, but then a file system with delayed allocation (ext4)
        writes to the disk at once, which costs more than the rest of an iteration; a file that is
        removed soon never reaches the disk. `read` looks for the renamed object too.
        """
        path = f"{self._root}/{name}"
        with _translate_errors(f"write {path}"):
            self._do_in_folder(path, lambda: _swap(path, content))

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        path, size = self._root / name, 0
        with ExitStack() as stack:
            with _translate_errors(f"write {path}"):
                scratch, file = stack.enter_context(self._make_scratch_file(path))
            # An OSError of the stream itself is passed on unchanged.
            for chunk in chunks:
                with _translate_errors(f"write {path}"):
                    size += file.write(chunk)
            with _translate_errors(f"write {path}"):
                _finish_file(file, b"", durable=True)
                scratch.replace(path)
                _sync(path.parent)
        return size

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        return self._open(self._root / name) if self.exists(name) else None

    def delete(self, name: str, version: str | None = None) -> None:
        """In a turn's folder, unfinished files of dead writers are removed too."""
        path = self._root / name
        missing = suppress(FileNotFoundError, NotADirectoryError)
        with _translate_errors(f"remove {path}"), missing:
            with lock_folder(path.parent, self._lock_seconds):
                if version is None or _digest(path) == version:
                    path.unlink(missing_ok=True)
                    Path(_name_aside(str(path))).unlink(missing_ok=True)
                if version is None and name.startswith(_SESSIONS):
                    _remove_dead_scratch(path.parent)
            self._remove_empty_folders(path.parent)

    def list_names(self, prefix: str) -> Iterator[str]:
        """Where unfinished files of killed writers are seen, they are removed."""
        folder, _, _ = prefix.rpartition("/")
        for path in _walk(self._root / folder, self._tidy_folder):
            name = path.relative_to(self._root).as_posix()
            if name.startswith(prefix):
                yield name

    def _tidy_folder(self, folder: Path) -> None:
        """Remove unfinished files, unless somebody writes to the folder just now."""
        with suppress(StoreError, FileNotFoundError, NotADirectoryError):
            with lock_folder(folder, 0.0):
                _remove_dead_scratch(folder)
            self._remove_empty_folders(folder)

    def describe_place(self, name: str) -> str:
        return str(self._root / name)

    @contextmanager
    def _open(self, path: Path) -> Iterator[Iterator[bytes]]:
        with _translate_errors(f"read {path}"):
            file = FileIO(os.open(path, _READ))
        with file:
            yield _chunks(file, path)

    @contextmanager
    def _make_scratch_file(self, path: Path) -> Iterator[tuple[Path, BufferedWriter]]:
        """Open a new file beside `path`, which is removed afterwards unless it was renamed."""
        scratch = path.with_name(f".{secrets.token_hex(8)}.tmp")
        handle = self._do_in_folder(path, lambda: os.open(scratch, _CREATE, 0o600))
        try:
            with os.fdopen(handle, "wb") as file:
                yield scratch, file
        finally:
            with suppress(FileNotFoundError):
                scratch.unlink()
                self._remove_empty_folders(path.parent)

    def _do_in_folder(self, path: Path | str, create_file: Callable[[], T]) -> T:
        """Create a file in the folder of `path`, which is made if it is missing."""
        for _ in range(_FOLDER_ATTEMPTS):
            with suppress(FileNotFoundError):
                return create_file()
            with suppress(FileNotFoundError):
                self._make_folder(Path(path).parent)
        return create_file()

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self._root:
            self._make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _sync(folder.parent)

    def _remove_empty_folders(self, folder: Path) -> None:
        """Remove `folder` and the ones above it that are empty then, except those of the root."""
        parts = folder.relative_to(self._root).parts
        with suppress(OSError):
            for depth in range(len(parts), 1, -1):
                self._root.joinpath(*parts[:depth]).rmdir()


@contextmanager
def _translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "")
        raise StoreError(
            f"cannot {doing}: {error.strerror or error}{f': {hint}' if hint else ''}",
            transient=error.errno in _TRANSIENT,
        ) from error


def _link(scratch: Path, path: Path) -> bool:
    """Give the finished file its name unless that exists. Atomic, also between hosts."""
    try:
        os.link(scratch, path, follow_symlinks=False)
    except FileExistsError:
        # A repeated NFS request fails because of its own link: then the file has both names.
        return scratch.stat().st_nlink == 2
    return True


def _finish_file(file: BufferedWriter, content: bytes, durable: bool) -> None:
    """Write the rest and close the file, so that it is whole before it gets its name."""
    file.write(content)
    file.flush()
    if durable:
        os.fsync(file.fileno())
    file.close()


def _sync(folder: Path) -> None:
    """Make the names in `folder` durable. Without one there is nothing to do: others emptied it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(path: str, content: bytes) -> None:
    # Plain strings: Path objects for the names would cost as much as the files themselves.
    folder, aside = path.rpartition("/")[0], _name_aside(path)
    scratch = f"{folder}/.{secrets.token_hex(8)}.tmp"
    handle = os.open(scratch, _CREATE, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        with suppress(FileNotFoundError):
            os.rename(path, aside)
        os.rename(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise
    with suppress(FileNotFoundError):
        os.unlink(aside)


def _name_aside(path: str) -> str:
    folder, _, leaf = path.rpartition("/")
    return f"{folder}/.{leaf}.old"


def _remove_dead_scratch(folder: Path) -> None:
    """Remove old unfinished files. The caller holds the folder's lock."""
    scratch = list(folder.glob(".*.tmp"))
    if not scratch:
        return
    # The file system's clock is asked, which another host may keep.
    (folder / LOCK).touch()
    now = (folder / LOCK).stat().st_mtime
    for each in scratch:
        with suppress(FileNotFoundError):
            if now - each.stat().st_mtime > _DEAD_AFTER:
                each.unlink()


def _read(path: Path, limit: int) -> bytes | None:
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        # Reading `limit` bytes at once would allocate that much memory.
        return file.read(min(limit, os.fstat(handle).st_size))


def _digest(path: Path) -> str | None:
    content = _read(path, sys.maxsize)
    return None if content is None else _compute_version(content)


def _compute_version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _chunks(file: FileIO, path: Path) -> Iterator[bytes]:
    while True:
        with _translate_errors(f"read {path}"):
            chunk = file.read(CHUNK)
        if not chunk:
            return
        yield chunk


def _walk(folder: Path, tidy: Callable[[Path], None]) -> Iterator[Path]:
    """Yield the objects under `folder`, sorted; none if there is no folder. `tidy` is called with
    each folder in which a killed writer has left something.

    One whose writer died in `write`, between two renames, has only its name aside.
    """
    with _translate_errors(f"list {folder}"):
        try:
            found = list(os.scandir(folder))
        except FileNotFoundError:
            return
    if any(map(_is_dead_scratch, found)):
        tidy(folder)
    entries = {_name_object(entry.name): entry for entry in found}
    for name, entry in sorted(entries.items()):
        if name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / name, tidy)
        elif entry.is_file(follow_symlinks=False):
            yield folder / name


def _is_dead_scratch(entry: os.DirEntry[str]) -> bool:
    """Whether an entry seems to be an unfinished file of a dead writer, by this machine's clock."""
    if not (entry.name.startswith(".") and entry.name.endswith(".tmp")):
        return False
    with suppress(FileNotFoundError):
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _DEAD_AFTER
    return False


def _name_object(leaf: str) -> str:
    """Return the name of the object in a file, which begins with a dot if it is none."""
    is_aside = leaf.startswith(".") and leaf.endswith(".old")
    return leaf.removeprefix(".").removesuffix(".old") if is_aside else leaf
