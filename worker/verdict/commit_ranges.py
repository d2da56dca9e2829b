"""Between which commits a job broke, as far as its runs show. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from worker.verdict.facts import Facts, Run, sort_newest_first


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commit `old`, on which a job passed, and the first one after it on which it failed.

    `branch` is the target branch if both are there, "" if they are the merge request's.
    """

    old: str
    new: str
    branch: str = ""


_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def make_range(old: str, new: str, branch: str) -> CommitRange:
    """Make a range from stored values. Raises ValueError or TypeError if they are not valid."""
    if not _SHA.fullmatch(old) or not _SHA.fullmatch(new):
        raise ValueError(f"{old[:80]!r} and {new[:80]!r} are not both ids of commits")
    return CommitRange(old, new, str(branch))


def list_steady_failures(facts: Facts) -> list[Run]:
    """Return the newest runs on the target branch up to the first one that did not fail in the same
    way, the newest commit first; none if newer runs may be hidden."""
    return [*takewhile(facts.has_same_error, _list_target_runs(facts))]


def find_ranges(facts: Facts) -> tuple[CommitRange, ...]:
    """Find where the job broke on the target branch, else in the merge request itself."""
    return (*_find_on_target(facts), *_find_in_merge_request(facts))[:1]


def _list_target_runs(facts: Facts) -> list[Run]:
    target = facts.known_target
    by_commit = [] if target.may_hide_newer_runs else target.runs_by_commit
    return [run for runs in by_commit for run in runs]


def _find_on_target(facts: Facts) -> Iterator[CommitRange]:
    failed, runs = list_steady_failures(facts), _list_target_runs(facts)
    if failed and len(failed) < len(runs):
        yield from _make_range(runs[len(failed)], failed[-1], facts.known_target.branch)


def _find_in_merge_request(facts: Facts) -> Iterator[CommitRange]:
    earlier = facts.earlier if isinstance(facts.earlier, tuple) else ()
    for newest in sort_newest_first(earlier)[:1]:
        yield from _make_range(newest, facts.run, "")


def _make_range(passed: Run, failed: Run, branch: str) -> Iterator[CommitRange]:
    known = _SHA.fullmatch(passed.sha) and _SHA.fullmatch(failed.sha)
    if passed.has_passed and known and passed.sha != failed.sha:
        yield CommitRange(passed.sha, failed.sha, branch)
