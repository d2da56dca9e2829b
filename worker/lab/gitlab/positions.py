"""Checks a note's `position` on a diff as GitLab does: https://docs.gitlab.com/api/discussions/."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from worker.lab.gitlab.state import DiffFile, MergeRequest

_REQUIRED = ("position_type", "base_sha", "start_sha", "head_sha", "old_path", "new_path")
_KNOWN = {*_REQUIRED, "new_line", "old_line"}
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

INVALID_LINE = (
    '400 Bad request - Note {:line_code=>["can\'t be blank", "must be a valid line code"]}'
)


def explain_refusal(mr: MergeRequest, position: object) -> str:
    """Explain why GitLab refuses the position; "" if it does not."""
    if not isinstance(position, Mapping) or set(position) - _KNOWN:
        return "position is invalid"
    missing = [name for name in _REQUIRED if not position.get(name)]
    if missing or position["position_type"] != "text":
        return f"position[{(missing or ['position_type'])[0]}] is missing or invalid"
    shas = tuple(position[name] for name in ("base_sha", "start_sha", "head_sha"))
    lines = (position.get("old_line"), position.get("new_line"))
    if shas != (mr.base_sha, mr.base_sha, mr.sha) or lines not in _list_lines(mr, position):
        return INVALID_LINE
    return ""


def _list_lines(
    mr: MergeRequest, position: Mapping[str, Any]
) -> set[tuple[int | None, int | None]]:
    """Return (old, new) of each line of the diff: old is None if added, new is None if removed."""
    wanted = (position["old_path"], position["new_path"])
    files = (file for file in mr.diffs if (file.old_path or file.new_path, file.new_path) == wanted)
    return {line for file in files for line in _number_lines(file)}


def _number_lines(file: DiffFile) -> Iterator[tuple[int | None, int | None]]:
    old = new = 0
    for line in file.diff.splitlines():
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("+"):
            yield None, new
            new += 1
        elif line.startswith("-"):
            yield old, None
            old += 1
        elif line.startswith(" "):
            yield old, new
            old, new = old + 1, new + 1
