"""All sources, and how they are bound to a session."""

import logging
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from worker.arguments import Arguments, parse, schema
from worker.core.conversation.messages import ToolSpec
from worker.core.ports import Document, Source
from worker.core.text.redacted_values import Redacted
from worker.core.text.untrusted import one_line, visible
from worker.errors import UNFORESEEN, ConfigError, SourceError
from worker.sources.base import RawDocument, SourceDef, redacted_document
from worker.sources.document_cache import Cache
from worker.sources.files.artifacts import ALL_ARTIFACTS, ARTIFACT, LIST_ARTIFACTS
from worker.sources.job_logs.source import JOB_LOG
from worker.sources.merge_request.commits import MR_COMMITS
from worker.sources.merge_request.details import MR_DETAILS
from worker.sources.merge_request.diff import MR_DIFF
from worker.sources.merge_request.discussions import DISCUSSIONS
from worker.sources.pipelines.branch_pipelines import BRANCH_PIPELINES
from worker.sources.pipelines.commit_statuses import STATUSES
from worker.sources.pipelines.job_runs import JOB_RUNS, LAST_GREEN_LOG
from worker.sources.pipelines.pipeline_jobs import PIPELINE_JOBS
from worker.sources.pipelines.test_report import TEST_REPORT
from worker.sources.repository.archive import SOURCE_ARCHIVE
from worker.sources.repository.ci_config import CI_CONFIG
from worker.sources.repository.compare import COMPARE
from worker.sources.repository.file import FILE
from worker.sources.repository.search import SEARCH
from worker.sources.repository.tree import TREE
from worker.sources.session_reader import Reader

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

MAX_MISSING = 2000
"""Characters of the text that says what is missing in a document."""

MAX_NAME = 80
"""Characters of a document's name."""

MAX_TOLD = 300
"""Characters of the text of an unexpected exception."""

_UNFORESEEN = (*UNFORESEEN, httpx.HTTPError, httpx.InvalidURL, zlib.error)

_log = logging.getLogger(__name__)


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
            found = (
                given if isinstance(given, Document) else redacted_document(given, reader.redact)
            )
        if found.chunks:
            found = replace(found, chunks=_guard_chunks(found.chunks, row.name))
        # It may contain names that strangers chose.
        missing = reader.redact.redact_text(visible(found.gaps))[:MAX_MISSING]
        document = cap_document(replace(found, gaps=missing), row.cap)
        if isinstance(given, RawDocument) and given.place is not None:
            reader.evidence.keep(given.place, document.data, reader.redact.redact_text(given.url))
        return document


_VERB = re.compile(r"^[a-z0-9]+_(?:get|list)_")


def _name_document(source: str, args: Arguments) -> str:
    """A readable name for what a source gives, such as "file src/app.py"."""
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
        message = one_line(f"{type(error).__name__}: {error}", MAX_TOLD)
        raise SourceError(f"{name} failed: {message}") from error


def _guard_chunks(
    chunks: Callable[[], Iterator[Redacted]], name: str
) -> Callable[[], Iterator[Redacted]]:
    """`chunks`, whose unexpected exceptions become a SourceError too."""

    def read_chunks() -> Iterator[Redacted]:
        with _translate_errors(name):
            yield from chunks()

    return read_chunks


def cap_document(document: Document, cap: int) -> Document:
    """The document, or its first `cap` bytes and a note in `gaps` of how many are missing."""
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
    """The sources of one session by name, in the order of the table.

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
    """The part of the system prompt that describes the named sources, in the table's order."""
    wanted = set(names)
    lines = [f"- `{row.name}`: {row.note}." for row in rows if row.name in wanted]
    return "\n".join(["## Data sources", *lines, ""]) if lines else ""
