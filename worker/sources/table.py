"""All sources, and how they are bound to a session."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from worker.arguments import parse, schema
from worker.core.messages import ToolSpec
from worker.core.ports import Document, Source
from worker.sources.base import SourceDef
from worker.sources.file import FILE
from worker.sources.job_log import JOB_LOG
from worker.sources.mr_details import MR_DETAILS
from worker.sources.mr_diff import MR_DIFF
from worker.sources.pipeline_jobs import PIPELINE_JOBS
from worker.sources.reader import Reader

SOURCES: tuple[SourceDef[Any], ...] = (MR_DETAILS, MR_DIFF, PIPELINE_JOBS, JOB_LOG, FILE)


@dataclass(frozen=True, slots=True)
class _Bound:
    row: SourceDef[Any]
    reader: Reader
    spec: ToolSpec

    def fetch(self, arguments: str) -> Document:
        document = self.row.fetch(parse(self.row.args, arguments), self.reader)
        if self.row.redacted:
            return document
        return replace(document, data=self.reader.redact(document.data))


def bind(reader: Reader) -> dict[str, Source]:
    """The sources of one session by name, in the order of the table.

    Every document is redacted exactly once.
    """
    return {
        row.name: _Bound(row, reader, ToolSpec(row.name, row.description, schema(row.args)))
        for row in SOURCES
    }


def notes(names: Iterable[str]) -> str:
    """The part of the system prompt that tells of the named sources, in the table's order."""
    wanted = set(names)
    lines = [f"- `{row.name}`: {row.note}." for row in SOURCES if row.name in wanted]
    return "\n".join(["## Data sources", *lines, ""]) if lines else ""
