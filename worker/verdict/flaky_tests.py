"""What single tests prove of a job that failed: that it is flaky. Pure."""

from collections.abc import Sequence

from worker.ledger.history import Seen
from worker.ledger.record import RanOn
from worker.verdict.facts import BY_ITSELF, Change, Facts, JobRun, Target, Unknown
from worker.verdict.recalled_tests import WINDOW, FailedHere, JobTests
from worker.verdict.remarks import Remark, join_parts, name, pipeline, remark

_MOST_TOLD = 3


def prove_flaky_by_tests(facts: Facts) -> Remark | None:
    """Proof of "flaky": each test that failed in the job has failed in the same way and then passed
    on one commit, in the same job of a pipeline of the same source; nothing else failed in it.

    On this commit that proves nothing if the change touches what failed. On the target branch it
    has to be recent, and proves nothing if the change may be about what failed, if the test has
    failed in this merge request before and did not pass, or if it failed there last.
    """
    tests = facts.tests
    if tests is None or not tests.is_whole or facts.run.reason not in BY_ITSELF:
        return None
    if not (facts.run.errors and tests.errors) or not all(
        map(tests.owns, (*facts.run.errors, *tests.errors))
    ):
        return None
    found: list[tuple[FailedHere, Seen]] = []
    for each in tests.failures:
        seen = _find_flake_here(facts, tests, each) or _find_flake_there(facts, tests, each)
        if seen is None:
            return None
        found.append((each, seen))
    return _tell_flakes(facts, tests, found) if found else None


def _tell_flakes(facts: Facts, tests: JobTests, found: Sequence[tuple[FailedHere, Seen]]) -> Remark:
    names = join_parts(name(each.life.test.name) for each, _ in found[:_MOST_TOLD])
    more = f" and {left} more" if (left := len(found) - _MOST_TOLD) > 0 else ""
    seen = found[0][1]
    places = {each.sha == tests.sha for _, each in found}
    where = remark("on this commit")
    if False in places:
        where = remark("on ", name(seen.ref), ", ") if True not in places else ()
        where = remark(*where, "on one commit")
    both = (
        pipeline(JobRun(0, number, "", url=facts.run.url))
        for number in (seen.pipeline_id, seen.passed_in)
    )
    return remark(
        *names, more, " failed in the same way and then passed ", *where,
        ", the first one in " if len(found) > 1 else ": ", *join_parts(both),
    )  # fmt: skip


def _find_flake_here(facts: Facts, tests: JobTests, each: FailedHere) -> Seen | None:
    """Return when the test has failed as here and then passed, on this very commit."""
    change = facts.change
    if isinstance(change, Change) and _touches(change):
        return None
    return next(
        (
            seen
            for seen in tests.find_flakes(each)
            if tests.sha and (seen.sha, seen.source) == (tests.sha, tests.source)
        ),
        None,
    )


def _find_flake_there(facts: Facts, tests: JobTests, each: FailedHere) -> Seen | None:
    """Return when the test has failed as here and then passed, on a commit of the target branch."""
    target, attempts, earlier = facts.target, facts.attempts, facts.earlier
    if isinstance(attempts, Unknown) or isinstance(earlier, Unknown):
        return None
    if any(map(facts.find_same_errors, (*attempts, *earlier))):
        return None
    if not isinstance(target, Target) or not is_apart(facts):
        return None
    there = target.all_runs_at_newest_commit
    if target.may_hide_newer_runs or (there and facts.find_same_errors(there[0])):
        return None
    if any(tests.mr_iid and seen.mr_iid == tests.mr_iid for seen in tests.find_unproven(each)):
        return None
    on_target = [
        seen
        for seen in each.life.failures
        if seen.ran_on is not RanOn.REQUEST and seen.ref == target.branch
    ]
    if not on_target or not on_target[-1].passed_again:
        return None
    return next(
        (
            seen
            for seen in tests.find_flakes(each)
            if seen in on_target and tests.asked_at - seen.made_at <= WINDOW
        ),
        None,
    )


def is_apart(facts: Facts) -> bool:
    """Whether the whole change is known, and touches nothing that the error names, nor how jobs
    run."""
    change = facts.change
    if not isinstance(change, Change) or not change.whole or change.ci or change.may_configure:
        return False
    return not _touches(change)


def _touches(change: Change) -> bool:
    return bool(change.touches or change.tests_of_touched or change.removed_names)
