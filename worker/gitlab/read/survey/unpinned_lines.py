"""Reads the files that say what a job installs, for the line that let a version drift."""

from dataclasses import replace
from functools import partial

from worker.gitlab.read.job_logs.captured_log import Log
from worker.gitlab.read.repository.file import read_from_project
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_pipelines import read_or_unknown
from worker.verdict.facts import Change, LastPass, Unknown
from worker.verdict.unpinned import UnpinnedLine, find_unpinned, list_requirement_files

FILES = 4
"""The most files that are read for one survey, those included that are not there."""


class RequirementFiles:
    """The files of the pipeline's commit that say what is installed, each asked for once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._texts: dict[str, str] = {}

    def add_unpinned(
        self, last_pass: LastPass | None, log: Log | None, change: Change | Unknown
    ) -> LastPass | None:
        """Return what differs since the last pass, with the lines that let it, unless the change
        touches what is installed or the files that say it."""
        names = [each.partition(" ")[0] for each in last_pass.package_changes] if last_pass else []
        if last_pass is None or log is None or isinstance(change, Unknown):
            return last_pass
        if not names or change.dependencies:
            return last_pass
        text = b"".join(log.spool.chunks()).decode(errors="replace")
        paths = [path for path in list_requirement_files(text) if path not in change.ci]
        found: dict[str, UnpinnedLine] = {}
        for path in paths[:FILES]:
            for each in find_unpinned(path, self._read_file(path), names):
                found.setdefault(each.name, each)
        return replace(last_pass, unpinned_lines=tuple(found.values()))

    def _read_file(self, path: str) -> str:
        """Return the text of a file, "" if there is none or no more files may be read."""
        if path not in self._texts and len(self._texts) < FILES:
            self._texts[path] = ""
            read = read_or_unknown(partial(self._fetch, path))
            self._texts[path] = "" if isinstance(read, Unknown) else read
        return self._texts.get(path, "")

    def _fetch(self, path: str) -> str:
        reader, sha = self._reader, self._reader.subject.sha
        blob = reader.read_first(lambda each: read_from_project(each, reader, path, sha), sha)
        return reader.redact(blob.head).decode(errors="replace")
