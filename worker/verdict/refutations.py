"""What GitLab's record and the log rule out of what a model may claim. Pure.

Each rule reads the facts about a failing job and returns the sentence that refutes its verdict, or
None. What is not known refutes nothing.
"""

from worker.verdict.facts import Change, Facts, Run, find_pass_after, sort_newest_first
from worker.verdict.remarks import Remark, describe_distance, job, name, pipeline, remark


def refute_flaky(facts: Facts) -> Remark | None:
    """Against "flaky": the error names a line that the change adds or a name that it removes, the
    job passes without it, and nothing has passed on this commit or has come and gone with this
    error."""
    edit, green = _tell_edit(facts), _find_pass_without(facts)
    if not edit or green is None or _may_come_and_go(facts):
        return None
    return remark(*edit, *_tell_pass(facts, green), "; it has not passed on this commit")


def refute_infrastructure(facts: Facts) -> Remark | None:
    """Against "infrastructure": as against "flaky", and the failed command says nothing of the
    network or the host, nor is anything known to be installed differently."""
    edit, green = _tell_edit(facts), _find_pass_without(facts)
    if not edit or green is None or _may_come_and_go(facts):
        return None
    differs = facts.last_pass is not None and facts.last_pass.package_changes
    if facts.may_blame_host is not False or facts.run.reason not in _BY_ITSELF or differs:
        return None
    return remark(
        *edit, *_tell_pass(facts, green),
        "; its output says nothing of network or host",
    )  # fmt: skip


def refute_change(facts: Facts) -> Remark | None:
    """Against "caused by this change": the job passed on this commit, in this kind of pipeline.
    Whether a flake, drift or an outage has ended that, the change is the same."""
    passed = [each for each in facts.known_attempts if each.has_passed]
    if not facts.run.sha or not passed:
        return None
    green = sort_newest_first(passed)[0]
    ago = describe_distance(green.started_at, facts.run.started_at)
    return remark(
        name(facts.name), " passed on this same commit: ", job(green),
        f", {ago} this failure" if ago else "", _tell_short_pass(green, facts.run),
    )  # fmt: skip


def find_pass_on_target(facts: Facts) -> Remark | None:
    """Against "already failing": the job's newest run on the target branch's newest commit passed,
    and none of its failures there may be this one."""
    target = facts.known_target
    newest = next(iter(target.runs_at_newest_commit), None)
    if newest is None or not newest.has_passed or _may_fail_there(facts):
        return None
    ago = describe_distance(newest.started_at, facts.run.started_at)
    built_on = ", on the commit this pipeline is built on" if newest.sha == target.base else ""
    return remark(
        name(facts.name), " passed when it last ran on ", name(target.branch), f"{built_on}: ",
        pipeline(newest), ", ", job(newest), f", {ago}" if ago else "",
        _tell_short_pass(newest, facts.run),
    )  # fmt: skip


_BY_ITSELF = frozenset({"", "script_failure"})
"""GitLab's failure reasons of a job whose own script has failed."""

_SHORTER, _LEAST_SECONDS = 5.0, 60.0
"""A pass is short beside a failed run that took so many times as long, and at least so long."""


def _tell_short_pass(passed: Run, failed: Run) -> str:
    """Say how long both runs took if the pass was short: it may have run nothing, or a cache had
    its results."""
    if failed.seconds < _LEAST_SECONDS or not 0 < passed.seconds * _SHORTER <= failed.seconds:
        return ""
    return f" (in {passed.seconds:,.0f} s, where this run took {failed.seconds:,.0f} s)"


def _may_fail_there(facts: Facts) -> bool:
    """Whether one of the job's failures on the target branch may be this one."""
    errors = facts.run.errors
    failed = [each for each in facts.known_target.finished_runs if not each.has_passed]
    return any(errors & each.errors or not (each.errors and errors) for each in failed)


def _tell_edit(facts: Facts) -> Remark:
    """Tell what the error names of the change: a line that it adds, or a name that it removes; ()
    if it names neither, or lines of other files too."""
    change = facts.change
    if not isinstance(change, Change):
        return ()
    if touch := next((each for each in change.touches if each.line), None):
        return remark(
            f"the error names line {touch.line} of ", name(touch.path), ", which this change adds"
        )  # fmt: skip
    for removed, path in change.removed_names[:1]:
        return remark(
            "the error names ", name(removed), ", which this change removes from ", name(path)
        )  # fmt: skip
    return ()


def _find_pass_without(facts: Facts) -> Run | None:
    """Return the newest run without the change, on the commit it is built on or the target's newest
    one, if it passed and no run there may have failed so."""
    target = facts.known_target
    based = [each for each in target.finished_runs if each.sha and each.sha == target.base]
    newest = [*sort_newest_first(based)[:1], *target.runs_at_newest_commit[:1]]
    if _may_fail_there(facts) or any(facts.find_same_errors(each) for each in target.all_runs):
        return None
    return next((each for each in newest if each.has_passed), None)


def _may_come_and_go(facts: Facts) -> bool:
    """Whether something passed on this commit, in whatever pipeline, or the error was seen where
    this change is not, or went away by itself; also if the other runs are not known."""
    if not isinstance(facts.attempts, tuple):
        return True
    earlier = facts.earlier if isinstance(facts.earlier, tuple) else ()
    went = (each for each in earlier if facts.find_same_errors(each))
    return (
        any(each.has_passed for each in (*facts.attempts, *facts.runs_of_other_sources))
        or bool(facts.elsewhere if isinstance(facts.elsewhere, tuple) else ())
        or bool(facts.recoveries)
        or any(find_pass_after(each, earlier) for each in went)
    )


def _tell_pass(facts: Facts, green: Run) -> Remark:
    return remark(
        "; without it ", name(facts.name), " passed on ", name(facts.known_target.branch), ": ",
        job(green), _tell_short_pass(green, facts.run),
    )  # fmt: skip
