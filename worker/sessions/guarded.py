"""Makes a store that ignores conditional writes safe with the broker's Redis.

Objects that are only compared and swapped (claims, heartbeats, the journal) are kept in Redis; any
other conditional write is made under a lock there. Redis needs persistence and no eviction: if it
loses journal entries, they are lost for good, which happens with no other store.
"""

import hashlib
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

import redis

from worker.errors import StoreError
from worker.sessions import layout
from worker.sessions.objects import Objects, Stored
from worker.transport.failures import describe_failure

LOCK_SECONDS = 60
"""How many seconds a writer that died blocks other writers of its object."""

MAX_OBJECT = 64 * 1024 * 1024
"""The most bytes of an object that is compared."""

BROKER_SETTING = "broker_tls.ca_file or SSL_CERT_FILE"
"""What names the certificates that hold for the broker."""

_IN_REDIS = ("workers/", "journal/", "slots/", "spend/")
_SWAP = """
local found = redis.call('GET', KEYS[1])
if not found or redis.sha1hex(found) ~= ARGV[1] then return 0 end
if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('DEL', KEYS[1]) end
return 1
"""


class RedisGuardedObjects:
    """`objects`, of a store that ignores conditions, with a Redis that keeps them.

    `url` is Redis's; `options` are redis-py's for this URL.
    """

    def __init__(
        self, objects: Objects, url: str, options: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._objects, self._url = objects, url
        waits = {"socket_timeout": 10, "socket_connect_timeout": 5}
        self._redis: Any = redis.Redis.from_url(url, **waits, **options)
        place = hashlib.sha256(objects.describe_place("").encode()).hexdigest()[:16]
        self._prefix = f"sandpiper:{place}:"

    def exists(self, name: str) -> bool:
        if not _is_in_redis(name):
            return self._objects.exists(name)
        with self._translate_errors(name):
            return bool(self._redis.exists(self._prefix + name))

    def find_modification_time(self, name: str) -> float | None:
        """For Redis it is the time of the last use, which serves the same purpose."""
        if not _is_in_redis(name):
            return self._objects.find_modification_time(name)
        with self._translate_errors(name):
            idle = self._redis.object("idletime", self._prefix + name)
            return None if idle is None else time.time() - idle

    def read(self, name: str, limit: int) -> Stored | None:
        if not _is_in_redis(name):
            return self._objects.read(name, limit)
        with self._translate_errors(name):
            content = self._redis.get(self._prefix + name)
        return None if content is None else Stored(content, _compute_version(content))

    def create(self, name: str, content: bytes) -> bool:
        if _is_in_redis(name):
            with self._translate_errors(name):
                return bool(self._redis.set(self._prefix + name, content, nx=True))
        with self._lock_object(name):
            if self._objects.exists(name):
                return False
            self._objects.write(name, content)
            return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        if _is_in_redis(name):
            return self._swap(name, version, content)
        with self._lock_object(name):
            found = self._objects.read(name, MAX_OBJECT)
            if found is None or found.version != version:
                return False
            self._objects.write(name, content)
            return True

    def write(self, name: str, content: bytes) -> None:
        self._objects.write(name, content)

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        return self._objects.upload(name, chunks)

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        return self._objects.open(name)

    def delete(self, name: str, version: str | None = None) -> None:
        if not _is_in_redis(name):
            self._objects.delete(name, version)
        elif version is not None:
            self._swap(name, version)
        else:
            with self._translate_errors(name):
                self._redis.delete(self._prefix + name)

    def list_names(self, prefix: str) -> Iterator[str]:
        """Claims of turns are not listed."""
        if not prefix.startswith(_IN_REDIS):
            yield from self._objects.list_names(prefix)
            return
        with self._translate_errors(prefix):
            found = list(self._redis.scan_iter(f"{self._prefix}{prefix}*", count=1000))
        yield from sorted(key.decode().removeprefix(self._prefix) for key in found)

    def describe_place(self, name: str) -> str:
        return (
            f"Redis {self._prefix}{name}"
            if _is_in_redis(name)
            else self._objects.describe_place(name)
        )

    def _swap(self, name: str, version: str, *content: bytes) -> bool:
        with self._translate_errors(name):
            return bool(self._redis.eval(_SWAP, 1, self._prefix + name, version, *content))

    @contextmanager
    def _lock_object(self, name: str) -> Iterator[None]:
        """Hold the lock on writing an object."""
        key, token = f"{self._prefix}lock:{name}", secrets.token_bytes(16)
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            with self._translate_errors(key):
                if self._redis.set(key, token, nx=True, ex=LOCK_SECONDS):
                    break
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._objects.describe_place(name)} stays locked", transient=True
                )
            time.sleep(0.02)
        try:
            yield
        finally:
            with self._translate_errors(name):
                self._redis.eval(_SWAP, 1, key, _compute_version(token))

    @contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError) as error:
            why = describe_failure(error, self._url, BROKER_SETTING)
            message = f"cannot reach {self._prefix}{name} in the broker's Redis: {why}"
            raise StoreError(message, transient=True) from error


def _is_in_redis(name: str) -> bool:
    return name.startswith(_IN_REDIS) or name.endswith(f"/{layout.CLAIM}")


def _compute_version(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
