"""What the diff of a merge request has to do with a failure, as a fact, and which line of the files
that say what a job installs has let a version drift."""

from contextlib import suppress
from dataclasses import replace

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing
from worker.gitlab.read.job_log import Log
from worker.gitlab.read.repository import read_from_project
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_runs import MAX_LOG, read_excerpt
from worker.logs import trace
from worker.logs.error_lines import find_ignored, select_error_lines
from worker.logs.failed_tests import list_failed_tests
from worker.logs.failing_command import keep_last_command
from worker.logs.named_places import MAX_TEXT, names_place
from worker.verdict.changed_files import count_tests, find_touches
from worker.verdict.dependencies import changes_dependency, find_changed_install
from worker.verdict.diffs import (
    FileChange,
    find_removed_names,
    is_ci,
    is_docs,
    is_image,
    may_choose_runner,
    may_configure,
)
from worker.verdict.facts import Change, LastPass, Unknown
from worker.verdict.jobs import Group
from worker.verdict.unpinned import UnpinnedLine, find_unpinned, list_requirement_files


def read_change(
    group: Group, log: Log | None, project: str, diff: Listing[wire.DiffFile] | Unknown
) -> Change | Unknown:
    """Describe the kinds of files that `diff` changes, and those that the group's error names.

    `log` is the log of the group's first job, if it was read; `project` the project's path.
    """
    if isinstance(diff, Unknown):
        return diff
    files, whole = diff.items, not diff.more
    paths = [path for each in files for path in dict.fromkeys((each.new_path, each.old_path))]
    changed = [
        FileChange.read(each.new_path, each.diff, each.old_path, is_new=each.new_file)
        for each in files
    ]
    # The error, and the lines about it in the log of the group's first job.
    lines = read_excerpt(log, MAX_TEXT) if log else group.jobs[0].excerpt.split("\n")
    last, every = (
        select_error_lines("\n".join(some)) for some in (keep_last_command(lines), lines)
    )
    error = f"{group.text}\n{last if names_place(last) else every}"
    touched = find_touches(error, changed, project)
    failed = _list_failed_tests(log) if log and touched else ()
    # Files with failed tests do not count if together they have less than half of these.
    counts = {
        each.path: sum(test == each.path or test.startswith(f"{each.path}:") for test in failed)
        for each in touched
    }
    few = sum(counts.values()) < len(failed) / 2
    touched = tuple(each for each in touched if not (few and counts[each.path]))
    tested = [each.path for each in touched if each.names_tests]
    return Change(
        files=len(files),
        ci=tuple(path for path in paths if is_ci(path)),
        dependencies=tuple(
            _name_dependency(each) for each in files if changes_dependency(each.new_path, each.diff)
        ),
        only_docs=whole and bool(files) and all(is_docs(path) for path in paths),
        touches=tuple(each for each in touched if each.is_certain or each.names_tests),
        failed_tests=len(failed) if tested else 0,
        tests_of_touched=count_tests(failed, tested, project),
        whole=whole,
        may_configure=any(map(may_configure, paths)),
        may_choose_runner=any(map(may_choose_runner, paths)),
        removed_names=tuple(
            find_removed_names({each.new_path: each.diff for each in files}, group.text).items()
        )
        if whole
        else (),
    )


def _name_dependency(file: wire.DiffFile) -> str:
    """Return the path, with the first line of a Dockerfile that changes what the image has."""
    line = find_changed_install(file.diff) if is_image(file.new_path) else 0
    return f"{file.new_path}:{line}" if line else file.new_path


def _list_failed_tests(log: Log) -> tuple[str, ...]:
    """Return the failed tests that the log names; none if they cannot be counted."""
    if log.spool.size > MAX_LOG or log.spool.dropped_lines:
        return ()
    cleaned = b"".join(log.spool.chunks())
    ignored = find_ignored(cleaned)
    lines = enumerate(trace.split_lines(cleaned), 1)
    return list_failed_tests(line for number, line in lines if number not in ignored)


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
        reader, sha = self._reader, self._reader.subject.sha
        if path not in self._texts and len(self._texts) < FILES:
            self._texts[path] = ""
            with suppress(SourceError):
                blob = reader.read_first(
                    lambda each: read_from_project(each, reader, path, sha), sha
                )
                self._texts[path] = reader.redact(blob.head).decode(errors="replace")
        return self._texts.get(path, "")
