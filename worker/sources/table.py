"""All sources, and how they are bound to a session.

Other packages' are the entry points of the group `sandpiper.sources`; their contract is in
`worker.gitlab.read.base`. A broken one is reported at the start, not in a run.
"""

import logging
import re
import sys
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import httpx

from worker.conversation import context
from worker.conversation.messages import ToolSpec
from worker.errors import UNFORESEEN, ConfigError, SourceError
from worker.gitlab.read import base, evidence, session_reader
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
from worker.tools import arguments, source
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

_MAX_MISSING = 2000
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
        missing = reader.redact.redact_text(visible(found.gaps))[:_MAX_MISSING]
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


GROUP = "sandpiper.sources"

_RESERVED = ("gitlab_", "konflux_", "testing_farm_", "sandbox_", "fetch_")

FORMER = {
    "worker.arguments": arguments,
    "worker.core.conversation.context": context,
    "worker.core.ports": source,
    "worker.core.ports.tools": source,
    "worker.sources.base": base,
    "worker.sources.evidence": evidence,
    "worker.sources.session_reader": session_reader,
}
"""The modules of the contract by the names that they had when older plug-ins were written."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def load_plugins(points: Iterable[EntryPoint] | None = None) -> tuple[SourceDef[Any], ...]:
    """Load all installed plug-ins, by entry point name. Raises ConfigError for a bad one."""
    found = entry_points(group=GROUP) if points is None else points
    rows = sorted(found, key=lambda each: each.name)
    if rows:
        _accept_former_names()
    return tuple(row for point in rows for row in _load_rows(point))


def _accept_former_names() -> None:
    """Let modules be imported by their former names too, from now on: a plug-in may import when it
    is called. Where there is no plug-in, nothing is found by these names."""
    sys.modules.update(FORMER)
    for name, module in FORMER.items():
        parent, _, last = name.rpartition(".")
        if parent in sys.modules and parent not in FORMER:
            setattr(sys.modules[parent], last, module)


def _load_rows(point: EntryPoint) -> list[SourceDef[Any]]:
    where = f"the plug-in {point.name!r} ({point.value}) of {GROUP}"
    try:
        loaded = point.load()
    except UNFORESEEN as error:
        raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    rows = list(loaded) if isinstance(loaded, Sequence) else [loaded]
    for row in rows:
        if problem := _find_problem(row):
            raise ConfigError(f"{where}: {problem} (see worker/gitlab/read/base.py)")
    return [replace(row, fetch=partial(_fetch_raw, row.fetch, row.name)) for row in rows]


def _find_problem(row: object) -> str:
    if not isinstance(row, SourceDef):
        return f"{row!r:.100} is not a SourceDef"
    if not (_NAME.fullmatch(row.name) and len(row.name) <= 64):
        return f"{row.name!r:.100} is not a name like weather_get_forecast"
    if row.name.startswith(_RESERVED):
        return f"{row.name} begins with a word that is taken ({', '.join(_RESERVED)})"
    args: object = row.args
    if not (isinstance(args, type) and issubclass(args, Arguments)):
        return f"the args of {row.name} are not a subclass of worker.tools.arguments.Arguments"
    functions: tuple[object, ...] = (row.fetch, row.applies)
    if not all(map(callable, functions)):
        return f"fetch and applies of {row.name} are not both functions"
    if not (row.description and row.note):
        return f"{row.name} has no description or no note"
    return "" if row.timeout > 0 and row.cap > 0 else f"{row.name} has no time-out or no cap"


def _fetch_raw(
    fetch: Callable[[Any, Reader], object], name: str, args: Any, reader: Reader
) -> RawDocument:
    """Call `fetch` of a plug-in. Raises SourceError if it returns anything but a RawDocument."""
    raw = fetch(args, reader)
    if not isinstance(raw, RawDocument):
        raise SourceError(f"{name} failed: it gave {type(raw).__name__}, not a RawDocument")
    return raw
