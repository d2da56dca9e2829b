"""Where the session stores under contract lie, and what their tests share."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stores import S3Server
from worker.conversation.context import SessionKey
from worker.sessions.folder import FolderStore
from worker.sessions.store import SessionStore

KEY = SessionKey(7, 42, "0123456789abcdef0123")
WORKERS = 16


@dataclass(frozen=True)
class Place:
    """Where a store's objects lie: `store` opens it anew, `put` writes behind its back."""

    open: Callable[[], SessionStore]
    put: Callable[[str, bytes], None]
    remove: Callable[[str], None]
    names: Callable[[], list[str]]
    where: str

    @property
    def store(self) -> SessionStore:
        return self.open()


def folder_place(root: Path) -> Place:
    def put(name: str, content: bytes) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)

    def names() -> list[str]:
        files = (path for path in root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(root)) for path in files)

    return Place(
        lambda: FolderStore(root), put, lambda name: (root / name).unlink(), names, str(root)
    )


def s3_place(server: S3Server) -> Place:
    bucket, client, prefix = server.bucket(), server.client, "team/sandpiper/"

    def put(name: str, content: bytes) -> None:
        client.put_object(Bucket=bucket, Key=prefix + name, Body=content)

    def remove(name: str) -> None:
        client.delete_object(Bucket=bucket, Key=prefix + name)

    def names() -> list[str]:
        found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        return sorted(entry["Key"].removeprefix(prefix) for entry in found)

    return Place(
        lambda: server.store(bucket, prefix), put, remove, names, f"s3://{bucket}/{prefix[:-1]}"
    )


PLACES = ("folder", "s3")


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """An empty place of one of PLACES, for a fixture over all of them."""
    if kind == "folder":
        return folder_place(request.getfixturevalue("tmp_path") / "store")
    return s3_place(request.getfixturevalue("s3_server"))


def at(turn: int, leaf: str) -> str:
    """The name of an object of KEY."""
    return f"sessions/{KEY.project_id}/{KEY.mr_iid}/{KEY.session_id}/{turn:04d}/{leaf}"


def many(task: Callable[[int], object]) -> list[object]:
    """`task` in WORKERS threads that all start at the same moment."""
    gate = threading.Barrier(WORKERS)

    def start(number: int) -> object:
        gate.wait(30)
        return task(number)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(start, range(WORKERS)))
