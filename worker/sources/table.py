"""All sources, and how they are bound to a session."""

import logging
import re
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx

from worker.conversation.messages import ToolSpec
from worker.errors import UNFORESEEN, ConfigError, SourceError
from worker.gitlab.read.archives import ALL_ARTIFACTS, ARTIFACT, LIST_ARTIFACTS, SOURCE_ARCHIVE
from worker.gitlab.read.base import RawDocument, SourceDef, redact_document
from worker.gitlab.read.ci_config import CI_CONFIG
from worker.gitlab.read.job_runs import BRANCH_PIPELINES, JOB_LOG, JOB_RUNS, LAST_GREEN_LOG
from worker.gitlab.read.merge_request import DISCUSSIONS, MR_COMMITS, MR_DETAILS, MR_DIFF
from worker.gitlab.read.pipeline_jobs import PIPELINE_JOBS
from worker.gitlab.read.reports import STATUSES, TEST_REPORT
from worker.gitlab.read.repository import COMPARE, FILE, SEARCH, TREE
from worker.gitlab.read.session_reader import Reader
from worker.safety.redacted_values import Redacted
from worker.safety.untrusted import one_line, visible
from worker.tools.arguments import Arguments, parse, schema
from worker.tools.source import Document, Source

Rows = Sequence[SourceDef[Any]]

SOURCES: tuple[SourceDef[Any], ...] = (
    MR_DETAILS,
    MR_DIFF,
    MR_COMMITS,
    DISCUSSIONS,
    PIPELINE_JOBS,
    JOB_LOG,
    TEST_REPORT,
    LIST_ARTIFACTS,
    ARTIFACT,
    ALL_ARTIFACTS,
    FILE,
    TREE,
    SEARCH,
    SOURCE_ARCHIVE,
    COMPARE,
    CI_CONFIG,
    BRANCH_PIPELINES,
    JOB_RUNS,
    LAST_GREEN_LOG,
    STATUSES,
)
"""The sources of GitLab, in the order of the tools."""

MAX_KEPT = 32 * 1024 * 1024
"""Bytes of all documents kept."""

MAX_MISSING = 2000
"""Characters of the text that says what is missing in a document."""

MAX_NAME = 80
"""Characters of a document's name."""

MAX_MESSAGE = 300
"""Characters of the text of an unexpected exception."""

_UNFORESEEN = (*UNFORESEEN, httpx.HTTPError, httpx.InvalidURL, zlib.error)

_log = logging.getLogger(__name__)


class Cache:
    """Keeps the final documents of a session: the same call returns the same bytes.

    The least recently used ones are dropped. Safe to share between threads.
    """

    def __init__(self, max_kept: int = MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._kept: OrderedDict[tuple[str, str], Document] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], make: Callable[[], Document]) -> Document:
        """Return the kept document of `key`, or that of `make`. Raises what `make` raises."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        document = make()
        if document.final and document.chunks is None:
            self._keep(key, document)
        return document

    def _keep(self, key: tuple[str, str], document: Document) -> None:
        with self._lock:
            if key in self._kept or len(document.data) > self._max_kept:
                return
            self._kept[key] = document
            self._size += len(document.data)
            while self._size > self._max_kept:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone.data)


@dataclass(frozen=True, slots=True)
class _BoundSource:
    row: SourceDef[Any]
    reader: Reader
    cache: Cache
    spec: ToolSpec

    def fetch(self, arguments: str) -> Document:
        args = parse(self.row.args, arguments)
        key = (self.row.name, args.model_dump_json())
        return self.cache.get(key, lambda: self._make_document(args))

    def _make_document(self, args: Any) -> Document:
        row, reader = self.row, self.reader.with_deadline(time.monotonic() + self.row.timeout)
        reader = replace(reader, redact=reader.redact.for_document(_name_document(row.name, args)))
        with _translate_errors(row.name):
            given = row.fetch(args, reader)
            found = given if isinstance(given, Document) else redact_document(given, reader.redact)
        if found.chunks:
            found = replace(found, chunks=partial(_read_chunks, found.chunks, row.name))
        # It may contain names that strangers chose.
        missing = reader.redact.redact_text(visible(found.gaps))[:MAX_MISSING]
        document = cap_document(replace(found, gaps=missing), row.cap)
        if isinstance(given, RawDocument) and given.place is not None:
            reader.evidence.keep(given.place, document.data, reader.redact.redact_text(given.url))
        return document


_VERB = re.compile(r"^[a-z0-9]+_(?:get|list)_")


def _name_document(source: str, args: Arguments) -> str:
    """Return a readable name for what a source gives, such as "file src/app.py"."""
    given = (str(each) for each in args.model_dump(exclude_defaults=True).values())
    words = " ".join([_VERB.sub("", source).replace("_", " "), *given])
    return one_line(words, MAX_NAME)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Turn an unexpected exception of a source, ours or a plug-in's, into a SourceError."""
    try:
        yield
    except _UNFORESEEN as error:
        _log.exception("the source %s failed", name)
        message = one_line(f"{type(error).__name__}: {error}", MAX_MESSAGE)
        raise SourceError(f"{name} failed: {message}") from error


def _read_chunks(chunks: Callable[[], Iterator[Redacted]], name: str) -> Iterator[Redacted]:
    """Yield the `chunks` of a source; their unexpected exceptions become a SourceError too."""
    with _translate_errors(name):
        yield from chunks()


def cap_document(document: Document, cap: int) -> Document:
    """Cut the document to `cap` bytes, and say in `gaps` how many are missing."""
    over = len(document.data) - cap
    if over <= 0:
        return document
    missing = "; ".join(filter(None, (document.gaps, f"the last {over} bytes")))
    return replace(document, data=document.data.cut(cap), gaps=missing)


def join_rows(*more: Rows) -> tuple[SourceDef[Any], ...]:
    """GitLab's rows and others, in this order. Raises ConfigError for a name that is taken."""
    rows = [*SOURCES, *(row for each in more for row in each)]
    names = [row.name for row in rows]
    if taken := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two sources have the same name: {', '.join(taken)}")
    return tuple(rows)


def bind_sources(reader: Reader, rows: Rows = SOURCES) -> dict[str, Source]:
    """Return the sources of one session by name, in the order of the table.

    Every document is redacted, and final ones are cached: the same call returns the same bytes.
    """
    cache = Cache()
    return {
        row.name: _BoundSource(
            row, reader, cache, ToolSpec(row.name, row.description, schema(row.args))
        )
        for row in rows
        if row.applies(reader.subject)
    }


def write_notes(names: Iterable[str], rows: Rows = SOURCES) -> str:
    """Write the part of the system prompt on the named sources that have a note, in the table's
    order; "" if none has."""
    wanted = set(names)
    lines = [f"- `{row.name}`: {row.note}." for row in rows if row.note and row.name in wanted]
    return "\n".join(["## Data sources", *lines, ""]) if lines else ""
