"""The landings of a branch: what became its newest commit, one after the other.

Only of those that lie between a pass and a failure, or a failure and a pass, the merge request and
the changed files are asked for: those alone may be suspects or may have mended something.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient, skip_refused
from worker.incidents.record import (
    MOST_LANDINGS,
    BranchPipeline,
    BranchRecord,
    JobOutcome,
    Landing,
)
from worker.safety.untrusted import one_line
from worker.verdict.facts import parse_time

LISTED = 50
"""Landings that are listed at a time, the newest."""

MOST_ASKED = 20
"""Landings of which the merge request and the files are asked for, at a time: the newest."""

MOST_FILES = 300
"""The most changed files of a landing; of one with more, they are not known."""

_FILE_PAGES = 3
_LONGEST_TITLE, _LONGEST_NAME, _LONGEST_PATH = 300, 100, 300

_REVERTS = re.compile(
    r"\b[Tt]his reverts (?:(?:commit|merge commit) (?P<sha>[0-9a-f]{7,64})\b"
    r"|merge request (?P<request>!\d{1,18})\b)"
)
"""What GitLab writes when somebody presses *Revert*: on a commit, or on a merge request."""
_MOST_REVERTS = 20


def find_reverts(message: str) -> tuple[str, ...]:
    """Return the commits, and the merge requests as `!12`, that a commit's message says it
    reverts."""
    found = (each["sha"] or each["request"] for each in _REVERTS.finditer(message))
    return tuple(dict.fromkeys(found))[:_MOST_REVERTS]


@dataclass(frozen=True, slots=True)
class LandingReader:
    """Reads the landings of one branch. `redact` takes the secrets out of a text."""

    client: ReadClient
    project_id: int
    branch: str
    redact: Callable[[str], str]

    def read(self, record: BranchRecord) -> tuple[Landing, ...]:
        """Return the record's landings with newer ones, the oldest first, and with what is known of
        those that its pipelines ask for. Raises SourceError; if the branch is gone, nothing is new.
        """
        known = {each.sha: each for each in record.landings}
        folded = {sha for each in record.landings for sha in each.commits}
        listed = [each for each in self.list_newest() if each.sha not in folded]
        if not listed:
            return record.landings
        first = next(
            (at for at, each in enumerate(record.landings) if each.sha == listed[0].sha), 0
        )
        landings = [*record.landings[:first], *(known.get(each.sha, each) for each in listed)]
        landings = landings[-MOST_LANDINGS:]
        wanted = _choose_landings(landings, record.pipelines)
        for at in [*wanted][:MOST_ASKED]:
            landings[at] = self._describe(landings[at])
        return tuple(_fold_merge_requests(landings, {each.sha for each in record.pipelines}))

    def list_newest(self) -> list[Landing]:
        """Return the newest landings, the oldest first; none if there is no such branch."""
        path = f"/projects/{self.project_id}/repository/commits"
        query = {"ref_name": self.branch, "first_parent": "true"}
        what = f"the commits of {self.branch}"
        found: Sequence[wire.Commit] = ()
        with skip_refused():
            found = self.client.page(path, wire.Commit, what, 1, LISTED, query).items
        return [
            Landing(
                sha=each.id,
                landed_at=parse_time(each.committed_date or each.created_at or "") or 0.0,
                title=one_line(self.redact(each.title), _LONGEST_TITLE),
                author=one_line(self.redact(each.author_name), _LONGEST_NAME),
                reverts=find_reverts(each.message or ""),
            )
            for each in reversed(found)
            if each.id
        ]

    def _describe(self, landing: Landing) -> Landing:
        """Return the landing with its merge request and files, as far as GitLab tells them."""
        path = f"/projects/{self.project_id}/repository/commits/{quote(landing.sha, safe='')}"
        what = f"the merge requests of commit {landing.sha[:8]}"
        with skip_refused():
            query = {"state": "merged"}
            found = self.client.many(
                f"{path}/merge_requests", wire.MergeRequest, what, query, pages=1
            ).items
            brought = [each for each in found if self._is_merged_here(each)]
            made = [each for each in brought if landing.sha in _list_made(each)]
            if len(brought := made or brought) == 1:
                mr = brought[0]
                author = mr.author.username if mr.author else landing.author
                landing = replace(
                    landing,
                    mr_iid=mr.iid,
                    mr_sha=mr.sha or "",
                    author=one_line(author, _LONGEST_NAME),
                )
        with skip_refused():
            what = f"the files of commit {landing.sha[:8]}"
            files = self.client.many(f"{path}/diff", wire.DiffFile, what, pages=_FILE_PAGES)
            paths = dict.fromkeys(
                path for each in files.items for path in (each.new_path, each.old_path) if path
            )
            if not files.more and len(paths) <= MOST_FILES:
                shown = tuple(one_line(self.redact(path), _LONGEST_PATH) for path in paths)
                landing = replace(landing, files=shown)
        return landing

    def _is_merged_here(self, mr: wire.MergeRequest) -> bool:
        return (
            mr.state == "merged"
            and mr.target_branch == self.branch
            and mr.target_project_id == self.project_id
        )


def _list_made(mr: wire.MergeRequest) -> tuple[str | None, ...]:
    """Return the commits that the merge of a merge request has made, or its own last one."""
    return mr.merge_commit_sha, mr.squash_commit_sha, mr.sha


def _choose_landings(landings: Sequence[Landing], pipelines: Iterable[BranchPipeline]) -> list[int]:
    """Return the places of the landings of which more has to be known, the newest first: what lies
    between two runs of a job on the branch of which one passed and the other failed."""
    places = {each.sha: at for at, each in enumerate(landings)}
    runs: dict[str, dict[int, set[JobOutcome]]] = {}
    for pipeline in pipelines:
        if (at := places.get(pipeline.sha)) is not None:
            for job in pipeline.jobs:
                if job.outcome is not JobOutcome.NO_RESULT:
                    runs.setdefault(job.name, {}).setdefault(at, set()).add(job.outcome)
    wanted: set[int] = set()
    for by_place in runs.values():
        before: int | None = None
        for at in sorted(by_place):
            if before is not None and by_place[at] != by_place[before]:
                wanted.update(range(before + 1, at + 1))
            before = at
    return sorted((at for at in wanted if landings[at].files is None), reverse=True)


def _fold_merge_requests(landings: Sequence[Landing], built: Iterable[str]) -> list[Landing]:
    """Return the landings with neighbours of one merge request folded into the newest of them: a
    branch that is only moved forward gets all commits of a merge request at once. Those `built` by
    a pipeline stand for themselves."""
    kept = set(built)
    folded: list[Landing] = []
    for each in landings:
        last = folded[-1] if folded else None
        if last and each.mr_iid and last.mr_iid == each.mr_iid and last.sha not in kept:
            files = None
            if last.files is not None and each.files is not None:
                files = tuple(dict.fromkeys((*each.files, *last.files)))
            reverts = tuple(dict.fromkeys((*each.reverts, *last.reverts)))
            commits = (*each.commits, last.sha, *last.commits)
            folded[-1] = replace(each, files=files, reverts=reverts, commits=commits)
        else:
            folded.append(each)
    return folded
