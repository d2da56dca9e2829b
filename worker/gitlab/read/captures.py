"""The lines of the documents of a session's sources, with links, for checking quotes."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.archives import ARTIFACT
from worker.gitlab.read.reports import TEST_REPORT
from worker.gitlab.read.repository import FILE, list_known_lines
from worker.gitlab.read.session_reader import COMMIT, Reader
from worker.tools.source import Document, Source
from worker.verdict.finding import (
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
)

SECONDS = 90.0
"""Seconds after which nothing more is fetched for checking quotes."""


class CapturedDocuments:
    """The documents of the session's bound sources. Satisfies verdict.finding.Captures.

    They are read through the sources, or from what these keep. So they are bound to the session's
    project, capped, timed out and redacted, and have the same bytes that the model was given.
    """

    def __init__(
        self, reader: Reader, sources: Mapping[str, Source], seconds: float = SECONDS
    ) -> None:
        self._reader = reader
        self._sources = sources
        self._deadline = time.monotonic() + seconds
        self._commits: dict[str, str] = {}
        self._fork_only: set[str] = set()

    def read_lines(self, place: Place) -> Sequence[str]:
        """Return the lines of a document. Raises SourceError or ArgumentError."""
        if time.monotonic() > self._deadline:
            raise SourceError("the time to look it up was over")
        match place:
            case JobLog(job_id):
                return self._reader.logs.read_log(job_id).lines
            case RepoFile(path, ref):
                return _get_file_lines(
                    self._fetch(FILE.name, path=path, ref=self._find_commit(ref))
                )
            case JobArtifact(job_id, path):
                return _get_file_lines(self._fetch(ARTIFACT.name, job_id=job_id, path=path))
            case ReportedTest(name):
                return list(_read_test_output(self._fetch(TEST_REPORT.name), name))
            case TaskStep() | RequestFile():
                return self._reader.evidence.read_lines(place)

    def link_lines(self, place: Place, first: int, last: int) -> str:
        """Return a link to the lines, or to the nearest anchor or page; "" if there is none."""
        match place:
            case JobLog(job_id):
                return self._reader.logs.link_line(job_id, first)
            case RepoFile(path, ref):
                commit = self._find_commit(ref)
                # The target project has the merge request's own commits, not a fork's others.
                project = self._get_project_url(fork=commit in self._fork_only)
                anchor = f"L{first}-{last}" if last > first else f"L{first}"
                return project and f"{project}/-/blob/{quote(commit)}/{quote(path)}#{anchor}"
            case JobArtifact(job_id, path):
                page = self._reader.logs.link_line(job_id, 1).partition("#")[0]
                return f"{page}/artifacts/file/{quote(path)}"
            case ReportedTest():
                pipeline = self._reader.subject.pipeline_id
                project = self._get_project_url(fork=True)
                return project and f"{project}/-/pipelines/{pipeline}/test_report"
            case TaskStep() | RequestFile():
                return self._reader.evidence.link_lines(place)

    def _fetch(self, source: str, **arguments: Any) -> Document:
        return self._sources[source].fetch(json.dumps(arguments))

    def _find_commit(self, ref: str) -> str:
        """Return the commit that `ref` points to now, so that a link always shows the same content.

        Raises SourceError.
        """
        if not ref or COMMIT.fullmatch(ref):
            return ref or self._reader.subject.sha
        if ref in self._commits:
            return self._commits[ref]
        what = f"the newest commit of {ref}"
        for project in reversed(self._reader.projects):  # as Reader.find_projects has it
            path = f"{project}/repository/commits/{quote(ref, safe='')}"
            with suppress(NotFound):
                sha = self._reader.client.one(path, wire.Commit, what).id
                if not COMMIT.fullmatch(sha):
                    raise SourceError(f"{what}: GitLab's answer has no usable id")
                if project != self._reader.target_project:
                    self._fork_only.add(sha)
                self._commits[ref] = sha
                return sha
        raise SourceError(f"there is no branch, tag or commit {ref}")

    def _get_project_url(self, *, fork: bool) -> str:
        """Return the page of the merge request's project, or of the `fork` its pipeline ran in."""
        subject = self._reader.subject
        if not fork or subject.pipeline_project_id == subject.project_id:
            return f"{subject.gitlab_url}/{subject.project}"
        try:
            path = self._reader.pipeline_project
            return self._reader.client.one(path, wire.Project, "the fork").web_url
        except SourceError:
            return ""


def _get_file_lines(document: Document) -> list[str]:
    """List the lines of a file whose numbers are known: all, or those before a cut."""
    if document.chunks:
        raise SourceError("it is a binary file, which has no lines")
    return list_known_lines(document)


def _read_test_output(document: Document, name: str) -> Iterator[str]:
    """Yield a failed test's output and stack trace. Raises SourceError if there is none."""
    try:
        cases = json.loads(document.data)["failed"]
    except (ValueError, KeyError) as error:
        raise SourceError("the test report is too long to be read") from error
    found = [case for case in cases if name in _list_test_names(case)]
    if not found:
        gaps = f" ({document.gaps})" if document.gaps else ""
        raise SourceError(f"the test report has no failed test of that name{gaps}")
    for case in found:
        for part in ("output", "stack_trace"):
            yield from case.get(part, "").split("\n")


def _list_test_names(case: Mapping[str, str]) -> set[str]:
    """List the names that people use for a test: its name alone, or with its class, file or job."""
    name, group, file = case["name"], case.get("classname", ""), case.get("file", "")
    plain = {name, *(f"{group}{mark}{name}" for mark in (".", "::", " ", "#") if group)}
    plain |= {f"{file}::{name}"} if file else set()
    return plain | {f"{case['job']}{mark}{each}" for each in plain for mark in (" ", ".", ": ")}
