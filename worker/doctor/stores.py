"""Checks the broker, its workers, and the session store: conditional writes, space, the clock."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from worker.doctor.base import (
    CheckLine,
    Installation,
    Unchecked,
    report_failed,
    report_good,
    report_warning,
)
from worker.doctor.tokens import compare_clocks
from worker.errors import StoreError
from worker.sessions.objects import Records
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient

AWS = "https://s3.amazonaws.com"
TIMEOUT = httpx.Timeout(6.0, connect=3.0)
TOTAL = 10.0
"""Seconds for one whole answer."""

_GIB = 1 << 30
_LITTLE, _NONE = 2 * _GIB, _GIB // 10
_SIZE = 64


def check_store(installation: Installation) -> Iterator[CheckLine]:
    """Check that objects can be written, read, replaced conditionally, and removed."""
    try:
        store = installation.store()
        store.probe()
        _read_back(store.records)
    except StoreError as error:
        if other := installation.other_addressing():
            advice = f"it answers to the other way of naming a bucket: set s3_addressing: {other}"
            yield report_failed("store", str(error), advice)
            return
        raise
    place = store.records.describe_place("")
    yield report_good("store", f"{place} takes writes, reads them back, honours conditions")


def _read_back(records: Records) -> None:
    name, content = f"probe/{secrets.token_hex(8)}", secrets.token_bytes(_SIZE)
    try:
        records.create(name, content)
        stored = records.read(name, _SIZE)
        if stored is None or stored.content != content:
            raise StoreError(
                f"{records.describe_place(name)} does not hold what was written there: "
                "do not use this store"
            )
    finally:
        with suppress(StoreError):
            records.delete(name)


def check_space(installation: Installation) -> Iterator[CheckLine]:
    """Check that a folder's disk has room for sessions."""
    url = urlsplit(installation.settings.store)
    if url.scheme != "file":
        return
    folder = Path(unquote(url.path))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    finding, advice = f"{free / _GIB:.1f} GiB free", "make room, or use a larger disk or S3"
    if free < _NONE:
        yield report_failed("disk", finding, advice)
    elif free < _LITTLE:
        yield report_warning("disk", finding, advice)
    else:
        yield report_good("disk", finding)


def check_store_clock(installation: Installation) -> Iterator[CheckLine]:
    """Check that S3's clock and ours agree: S3 refuses requests that are 15 minutes off."""
    if not installation.settings.store.startswith("s3://"):
        return
    endpoint = installation.settings.s3_endpoint or AWS
    try:
        before = installation.now()
        with BoundedClient(total=TOTAL, timeout=TIMEOUT) as client:
            header = client.head(endpoint).headers.get("date", "")
        date = parsedate_to_datetime(header).timestamp()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unchecked(f"S3 told no time: {describe_failure(error, endpoint)}") from error
    except (ValueError, TypeError) as error:
        raise Unchecked("S3 told no time") from error
    yield compare_clocks("clock of S3", "S3", date - (before + installation.now()) / 2)


_NAMED = 5


def check_broker(installation: Installation) -> Iterator[CheckLine]:
    """Check that the broker answers."""
    if _is_embedded(installation):
        yield report_good("broker", "embedded: `sandpiper serve` runs the jobs itself")
    elif failure := installation.broker():
        finding, _, advice = str(failure).partition("; ")
        yield report_failed("broker", finding, advice)
    else:
        yield report_good("broker", f"{installation.settings.broker.partition('://')[0]} answers")


def check_workers(installation: Installation) -> Iterator[CheckLine]:
    """Check that a worker answers through the broker."""
    if _is_embedded(installation):
        return
    if installation.broker():
        raise Unchecked("the broker does not answer")
    if workers := installation.workers():
        shown = ", ".join(sorted(workers)[:_NAMED])
        yield report_good("workers", f"{len(workers)}: {shown}")
    else:
        advice = "start `sandpiper worker` with the same SANDPIPER_BROKER"
        yield report_failed("workers", "none answers: triggers wait in the queue", advice)


def _is_embedded(installation: Installation) -> bool:
    return installation.settings.broker.startswith("memory://")
