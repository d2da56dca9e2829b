"""What the diff of a merge request has to do with a failure, as a fact."""

from worker.core.failure.changed_files import (
    FileChange,
    find_added_lines,
    find_definitions,
    find_touches,
)
from worker.core.failure.facts import Change, Unknown
from worker.core.failure.file_kinds import changes_dependency, is_ci, is_docs, may_configure
from worker.sources.api import wire
from worker.sources.api.client import Listing


def read_change(
    error_text: str, project: str, diff: Listing[wire.DiffFile] | Unknown
) -> Change | Unknown:
    """The kinds of files that `diff` changes, and the changed files that `error_text` points to.

    `error_text` is a log's lines about the failure, `project` the project's path.
    """
    if isinstance(diff, Unknown):
        return diff
    files, whole = diff.items, not diff.more
    paths = [path for each in files for path in dict.fromkeys((each.new_path, each.old_path))]
    touched = find_touches(error_text, [_describe_file(each) for each in files], project)
    return Change(
        files=len(files),
        ci=tuple(path for path in paths if is_ci(path)),
        dependencies=tuple(
            each.new_path for each in files if changes_dependency(each.new_path, each.diff)
        ),
        only_docs=whole and bool(files) and all(is_docs(path) for path in paths),
        touches=tuple(each for each in touched if each.is_certain or each.names_tests),
        whole=whole,
        may_configure=any(map(may_configure, paths)),
    )


def _describe_file(file: wire.DiffFile) -> FileChange:
    return FileChange(
        file.new_path,
        file.old_path,
        find_definitions(file.diff),
        find_added_lines(file.diff),
        file.new_file,
    )
