"""The table of session stores, by the scheme of their URL."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from worker.errors import ConfigError, StoreError
from worker.sessions.folder import FolderStore
from worker.sessions.objects import Addressing
from worker.sessions.store import SessionStore

Options = Mapping[str, Any]
"""Those of S3Store."""

LOOK = 10.0
"""Seconds of silence in which a look at S3 ends."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]", re.ASCII)
_BUCKET_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()/-]*", re.ASCII)


def open_store(
    url: str,
    endpoint_url: str | None = None,
    addressing: Addressing = "path",
    **limits: Any,
) -> SessionStore:
    """Open the store at `file:///dir` or `s3://bucket/prefix`.

    `endpoint_url` is the address of S3, None for AWS; `addressing` says where S3 expects the
    bucket's name, and `limits` are S3Store's. Raises ConfigError for a wrong address,
    StoreError if a folder cannot be made. S3 is not contacted before `Store.probe`.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"store: {_hide_password(url)} is not a URL") from error
    opener = OPENERS.get(parts.scheme)
    if opener is None or parts.query or parts.fragment:
        raise ConfigError(
            f"store: {_hide_password(url)} should be file:///dir or s3://bucket/prefix"
        )
    return opener(parts, endpoint_url, {"addressing": addressing, **limits})


def find_addressing(url: str, endpoint_url: str) -> Addressing:
    """Find out where the S3 server at `endpoint_url` expects the bucket's name.

    Raises StoreError, that of a name in the path, if neither is answered.
    """
    try:
        _look(url, endpoint_url, "path")
    except StoreError as error:
        try:
            _look(url, endpoint_url, "virtual")
        except StoreError:
            raise error from None
        return "virtual"
    return "path"


def find_other_addressing(url: str, endpoint_url: str, addressing: Addressing) -> Addressing | None:
    """Return the other addressing if the server answers to it, None if it does not."""
    other: Addressing = "virtual" if addressing == "path" else "path"
    try:
        _look(url, endpoint_url, other)
    except StoreError:
        return None
    return other


def _look(url: str, endpoint_url: str, addressing: Addressing) -> None:
    """Ask for one name. Raises StoreError unless S3 says what it has."""
    objects = open_store(url, endpoint_url, addressing, attempts=1, read_timeout=LOOK).records
    next(iter(objects.list_names("keys/")), None)


def guard_store(
    store: SessionStore, broker: str, options: Mapping[str, Any] = MappingProxyType({})
) -> SessionStore:
    """Guard a store that ignores conditions with the Redis at `broker`, by redis-py's `options`."""
    from worker.sessions.guarded import RedisGuardedObjects

    return SessionStore(RedisGuardedObjects(store.records, broker, options))


def _open_folder(parts: SplitResult, endpoint_url: str | None, options: Options) -> SessionStore:
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not path.is_absolute() or "\0" in str(path):
        raise ConfigError(
            f"store: {_hide_password(parts.geturl())} should be file:// and an absolute path, "
            "as in file:///var/lib/sandpiper"
        )
    return FolderStore(path)


def _open_s3(parts: SplitResult, endpoint_url: str | None, options: Options) -> SessionStore:
    # Importing boto3 takes most of a second, for which users of a folder need not wait.
    from worker.sessions.bucket import S3Store

    if not _BUCKET.fullmatch(parts.netloc) or not _BUCKET_PREFIX.fullmatch(parts.path):
        raise ConfigError(
            f"store: {_hide_password(parts.geturl())} should be s3://bucket/prefix "
            "in plain characters; credentials come from the environment, "
            "the endpoint from AWS_ENDPOINT_URL_S3"
        )
    if endpoint_url and not re.match(r"https?://[^/]", endpoint_url):
        raise ConfigError(f"the S3 endpoint {endpoint_url!r} should begin with http:// or https://")
    return S3Store(parts.netloc, parts.path, endpoint_url or None, **options)


OPENERS: Mapping[str, Callable[[SplitResult, str | None, Options], SessionStore]] = {
    "file": _open_folder,
    "s3": _open_s3,
}


def _hide_password(url: str) -> str:
    # The part before an @ may contain a password.
    return repr(url) if "@" not in url else "the address (with something before an @)"
