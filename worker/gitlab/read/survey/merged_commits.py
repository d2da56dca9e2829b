"""Finds the target branch's commits that contain the change already, for instance cherry-picked.

A pipeline of such a commit ran with the change.
"""

import re
from collections.abc import Sequence

from worker.gitlab.read.api import wire
from worker.gitlab.read.session_reader import Reader

LISTED = 100
"""Commits of the merge request, and of the target branch, that are looked at."""

_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,64})\)")


def find_commits_with_change(newest: str, base: str, reader: Reader) -> frozenset[str]:
    """Find the target's commits from `newest` back to the oldest that is one of the change's.

    Such a commit has the same title, or says that it was picked from one of the change's. Only
    commits after `base` are looked at. Raises SourceError.
    """
    path, what = f"{reader.merge_request}/commits", "the commits"
    ours = reader.client.page(path, wire.Commit, what, 1, LISTED).items
    path, query = f"{reader.target_project}/repository/commits", {"ref_name": newest}
    what = "the target branch's commits"
    theirs = reader.client.page(path, wire.Commit, what, 1, LISTED, query).items
    shas = [each.id for each in theirs]
    since = theirs[: shas.index(base)] if base in shas else theirs
    carrying = [at for at, each in enumerate(since) if _is_one_of(each, ours)]
    return frozenset(shas[: carrying[-1] + 1]) if carrying else frozenset()


def _is_one_of(commit: wire.Commit, ours: Sequence[wire.Commit]) -> bool:
    picked = _PICKED.search((commit.message or "")[-2000:])
    return any(
        (commit.title and commit.title == each.title) or (picked and each.id.startswith(picked[1]))
        for each in ours
    )
