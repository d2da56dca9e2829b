"""Reads and chooses the pipelines that a failing one is compared with."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.session_reader import Reader
from worker.verdict.facts import Unknown

BEFORE = 2

AGAIN = 6

LISTED = 100
"""Pipelines of the target branch that are listed, one after the other."""

_MOST_LISTED = 30
"""Pipelines of a list."""

_COMMITS_LISTED = 100
"""Commits of the merge request, and of the target branch, that are looked at."""

_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,64})\)")

T = TypeVar("T")

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ComparedPipelines:
    """The pipelines whose jobs are compared; each list is newest first."""

    own: wire.Pipeline
    attempts: Sequence[wire.Pipeline] | Unknown
    """The session's pipeline and others of its kind on the same commit."""
    of_other_kinds: Sequence[wire.Pipeline]
    """Others on the same commit, with other variables or rules."""
    earlier: Sequence[wire.Pipeline] | Unknown
    """Of the merge request's earlier commits."""
    target: Sequence[wire.Pipeline] | Unknown
    """Of the target branch: the newest ones, then those on `base`."""
    elsewhere: Sequence[wire.Pipeline] | Unknown
    """Failed ones of other merge requests and branches."""
    branch: str = ""
    """The target branch."""
    base: str = ""
    """The target branch's commit that the pipeline is built on."""
    recent: int = 0
    """How many of `target` are its newest ones."""
    older: Sequence[wire.Pipeline] = ()
    """What follows on these on the target branch."""
    with_change: Sequence[wire.Pipeline] = ()
    """Those of `target` that were found to have run with the change and taken out."""


def get_items(found: Sequence[T] | Unknown) -> Sequence[T]:
    """Return what was found; nothing if it is Unknown."""
    return () if isinstance(found, Unknown) else found


def read_or_unknown(read: Callable[[], Found]) -> Found | Unknown:
    """Return what `read` returns, or Unknown with the reason if it raises SourceError."""
    try:
        return read()
    except SourceError as error:
        return Unknown(str(error))


def find_pipelines(reader: Reader, pool: Executor) -> ComparedPipelines:
    """Find the pipelines to compare with the session's, in parallel. Raises nothing."""
    failed, query = f"{reader.target_project}/pipelines", {"status": "failed"}
    finding = pool.submit(
        read_or_unknown,
        lambda: (
            reader.client.page(
                failed, wire.Pipeline, "failed pipelines", 1, _MOST_LISTED, query
            ).items
        ),
    )
    if reader.subject.branch:
        return _find_branch_pipelines(reader, finding.result())
    mr = read_or_unknown(
        lambda: reader.client.one(reader.merge_request, wire.MergeRequest, "the merge request")
    )
    path, what = f"{reader.merge_request}/pipelines", "the merge request's pipelines"
    listing = pool.submit(
        read_or_unknown,
        lambda: reader.client.page(path, wire.Pipeline, what, 1, _MOST_LISTED).items,
    )
    target = (
        mr
        if isinstance(mr, Unknown)
        else read_or_unknown(lambda: _read_target_pipelines(mr, reader))
    )
    listed = listing.result()
    own = _find_own(listed, reader)
    return _choose_pipelines(own, mr, listed, target, finding.result())


def _find_branch_pipelines(
    reader: Reader, failed: Sequence[wire.Pipeline] | Unknown
) -> ComparedPipelines:
    """Find the pipelines to compare with that of a branch: what ran there before stands where the
    target branch does, and what landed since is the change."""
    where = (reader.target_project, reader.subject.branch, "the branch's pipelines", LISTED)
    listed = read_or_unknown(lambda: reader.client.list_branch_pipelines(*where).items)
    own, known = _find_own(listed, reader), get_items(listed)
    same = [each for each in known if each.sha == own.sha and each.id != own.id]
    alike = [each for each in same if _get_kind(each) == _get_kind(own)]
    before = [each for each in known if each.id < own.id and each.sha != own.sha]
    later = {each.sha for each in known if each.id > own.id}
    return ComparedPipelines(
        own=own,
        attempts=listed if isinstance(listed, Unknown) else [own, *alike[:AGAIN]],
        of_other_kinds=[each for each in same if each not in alike][:ASIDE],
        earlier=(),
        target=listed if isinstance(listed, Unknown) else before[:_ON_TARGET],
        elsewhere=failed
        if isinstance(failed, Unknown)
        else _choose_others(failed, own, Unknown("no merge request"), {own.sha, *later}),
        branch=reader.subject.branch,
        base=before[0].sha if before else "",
        recent=len(before[:_ON_TARGET]),
        older=before[_ON_TARGET:LISTED],
    )


def _find_own(listed: Sequence[wire.Pipeline] | Unknown, reader: Reader) -> wire.Pipeline:
    """Find the session's pipeline; if GitLab does not give it, make it of what is known."""
    subject = reader.subject
    for each in get_items(listed):
        if each.id == subject.pipeline_id:
            return each
    path = f"{reader.pipeline_project}/pipelines/{subject.pipeline_id}"
    found = read_or_unknown(lambda: reader.client.one(path, wire.Pipeline, "the pipeline"))
    if not isinstance(found, Unknown):
        return found
    return wire.Pipeline(
        id=subject.pipeline_id, project_id=subject.pipeline_project_id, sha=subject.sha
    )


def _read_target_pipelines(mr: wire.MergeRequest, reader: Reader) -> Sequence[wire.Pipeline]:
    """Return the newest pipelines of the target branch, then the merge base's if they are older."""
    where, read = (reader.target_project, mr.target_branch), reader.client.list_branch_pipelines
    found = [*read(*where, "the target branch's pipelines", LISTED).items]
    base = mr.diff_refs.base_sha if mr.diff_refs else None
    if base and base not in {each.sha for each in found}:
        what, query = "the merge base's pipelines", {"sha": base}
        found += read(*where, what, _MOST_LISTED, query).items
    return found


def _choose_pipelines(
    own: wire.Pipeline,
    mr: wire.MergeRequest | Unknown,
    listed: Sequence[wire.Pipeline] | Unknown,
    target: Sequence[wire.Pipeline] | Unknown,
    failed: Sequence[wire.Pipeline] | Unknown,
) -> ComparedPipelines:
    """Return the pipelines to look into, of those that GitLab lists; `own` is the session's."""
    known = get_items(listed)
    same = [each for each in known if each.sha == own.sha and each.id != own.id]
    alike = [each for each in same if _get_kind(each) == _get_kind(own)]
    shas = {own.sha, *(each.sha for each in known)} - {_get_merge_base(mr)}
    # The target branch may have the change's commits already.
    without = [each for each in get_items(target) if each.sha not in shas]
    base = _get_merge_base(mr)
    if own.is_merge_result:  # then it is built on the branch as it was then
        base = next((each.sha for each in without if each.id < own.id), "")
    recent, older = without[:_ON_TARGET], without[_ON_TARGET:LISTED]
    based = [each for each in without[_ON_TARGET:] if each.sha == base][:_BASED]
    earlier: dict[str, wire.Pipeline] = {}
    for each in sorted(known, key=lambda each: -each.id):
        if each.id < own.id and each.sha != own.sha:
            earlier.setdefault(each.sha, each)
    return ComparedPipelines(
        own=own,
        attempts=listed if isinstance(listed, Unknown) else [own, *alike[:AGAIN]],
        of_other_kinds=[each for each in same if each not in alike][:ASIDE],
        earlier=listed if isinstance(listed, Unknown) else [*earlier.values()][:BEFORE],
        target=target if isinstance(target, Unknown) else [*recent, *based],
        elsewhere=failed if isinstance(failed, Unknown) else _choose_others(failed, own, mr, shas),
        branch="" if isinstance(mr, Unknown) else mr.target_branch,
        base=base,
        recent=len(recent),
        older=older,
    )


_ON_TARGET = 6

_BASED = 3

ASIDE = 3

ELSEWHERE = 4
"""How many pipelines of each kind are looked into, with a request for each."""


def was_set_back(target: Sequence[wire.Pipeline], newest: str) -> bool:
    """Whether the branch may have been set back from the commit `newest` to an older one: one that
    has pipelines both before and after the first of `newest`."""
    first = min(each.id for each in target if each.sha == newest)
    before = {each.sha for each in target if each.id < first}
    return any(each.id > first and each.sha in before for each in target)


def _get_kind(pipeline: wire.Pipeline) -> tuple[int, str, str]:
    """Return what decides a pipeline's variables and rules: its project, ref and source."""
    return pipeline.project_id, pipeline.ref, pipeline.source


def _choose_others(
    failed: Sequence[wire.Pipeline],
    own: wire.Pipeline,
    mr: wire.MergeRequest | Unknown,
    shas: set[str],
) -> list[wire.Pipeline]:
    """Return the newest failed pipeline of each other merge request or branch."""
    ours = {own.ref, *(() if isinstance(mr, Unknown) else (mr.source_branch, mr.target_branch))}
    iid = None if isinstance(mr, Unknown) else str(mr.iid)
    newest: dict[str, wire.Pipeline] = {}
    for each in failed:
        of_mr = wire.OF_MR.match(each.ref)
        if each.ref not in ours and each.sha not in shas and (not of_mr or of_mr[1] != iid):
            newest.setdefault(f"!{of_mr[1]}" if of_mr else each.ref, each)
    return list(newest.values())[:ELSEWHERE]


def _get_merge_base(mr: wire.MergeRequest | Unknown) -> str:
    if isinstance(mr, Unknown) or mr.diff_refs is None:
        return ""
    return mr.diff_refs.base_sha or ""


def find_commits_with_change(newest: str, base: str, reader: Reader) -> frozenset[str]:
    """Find the target's commits from `newest` back to the oldest that is one of the change's.

    Such a commit has the same title, or says that it was picked from one of the change's. Only
    commits after `base` are looked at. Raises SourceError.
    """
    if reader.subject.branch:  # what ran before the change landed has none of it
        return frozenset()
    path, what = f"{reader.merge_request}/commits", "the commits"
    ours = reader.client.page(path, wire.Commit, what, 1, _COMMITS_LISTED).items
    path, query = f"{reader.target_project}/repository/commits", {"ref_name": newest}
    what = "the target branch's commits"
    theirs = reader.client.page(path, wire.Commit, what, 1, _COMMITS_LISTED, query).items
    shas = [each.id for each in theirs]
    since = theirs[: shas.index(base)] if base in shas else theirs
    oldest = -1
    for at, commit in enumerate(since):
        picked = _PICKED.search((commit.message or "")[-2000:])
        if any(
            (commit.title and commit.title == each.title)
            or (picked and each.id.startswith(picked[1]))
            for each in ours
        ):
            oldest = at
    return frozenset(shas[: oldest + 1])
