"""What GitLab's record proves of a failure, what it rules out, and what it speaks against. Pure.

Each rule reads the facts about a failing job and returns the sentence that proves its verdict, or
refutes it, or None. What is not known proves and refutes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from worker.verdict.facts import (
    NEVER_THE_CHANGE,
    UNLESS_CONFIGURED,
    WAITED,
    WITHOUT_RUNNER,
    Change,
    Facts,
    Run,
    Target,
    parse_time,
    sort_newest_first,
)
from worker.verdict.remarks import (
    Remark,
    describe_distance,
    job,
    join_parts,
    name,
    pipeline,
    remark,
)

# --------------------------------------------------------------------------------- infrastructure

INFRASTRUCTURE = "infrastructure"
"""The verdict, as a rule's match gives it."""


def prove_infrastructure(facts: Facts) -> Remark | None:
    """Proof of "infrastructure": GitLab's reasons are none that the change can have caused, and the
    runner says nothing that leaves the cause open."""
    reasons = {each.reason for each in facts.jobs}
    if not reasons or not reasons <= NEVER_THE_CHANGE | UNLESS_CONFIGURED:
        return None
    if not reasons <= NEVER_THE_CHANGE:
        # The log names a cause that may be the job's own: its container died, or what it asked for
        # was refused. If a rule only doubts that it is outside, a pass on this commit settles it.
        passed = any(each.has_passed for each in facts.known_attempts)
        is_left_open = facts.lead and not (facts.lead == INFRASTRUCTURE and passed)
        # It dies here again and again, and passes on the target branch: its script may be the
        # cause, as a runner reports running out of memory as a system failure.
        deaths = [each for each in facts.known_attempts if each.reason == facts.run.reason]
        newest = facts.known_target.runs_at_newest_commit[:1]
        always_dies = len(deaths) >= 2 and any(each.has_passed for each in newest)
        if is_left_open or always_dies or (not passed and _is_configured(facts)):
            return None
    # A runner took one of the jobs that should have waited for one in vain.
    ran_though_stuck = any(each.reason in WAITED and each.has_started for each in facts.jobs)
    if ran_though_stuck or _find_unexplained_run(facts):
        return None
    return remark("GitLab's failure reason of ", job(facts.run), " is ", name(facts.run.reason))


def _is_configured(facts: Facts) -> bool:
    """Whether the change may have made the job impossible to run, as it may change how jobs run. A
    changed image does not matter to a job that no runner took."""
    change = facts.change
    if not isinstance(change, Change) or not change.whole:
        return True
    taken = not {each.reason for each in facts.jobs} <= WITHOUT_RUNNER
    return change.may_configure if taken else change.may_choose_runner


def _find_unexplained_run(facts: Facts) -> Run | None:
    """Return a run on this commit that failed by itself and whose failure the record does not
    explain; None if there is none. What the runner did later is no explanation."""
    before = (each for each in facts.runs_of_other_sources if facts.run.is_after(each))
    runs = (*facts.known_attempts, *before)
    outside = NEVER_THE_CHANGE | UNLESS_CONFIGURED
    for run in runs:
        if run.status == "failed" and run.reason not in outside:
            kind = (run.source, run.place)
            alike = tuple(
                each for each in runs if each != run and (each.source, each.place) == kind
            )
            behind = replace(facts, run=run, others=(), attempts=alike)
            proofs = (prove_flaky_here, prove_flaky_there, prove_preexisting)
            if not any(rule(behind) for rule in proofs):
                return run
    return None


# ------------------------------------------------------------------------------------------ flaky

RECENT = 14 * 24 * 3600.0
"""Seconds for which a flake on the target branch counts as evidence about the present code."""


def prove_flaky_here(facts: Facts) -> Remark | None:
    """Proof of "flaky": a pass after each of the errors, on one commit in one kind of pipeline."""
    attempts = facts.known_attempts
    green = facts.run.find_later_pass(attempts)
    passes = [(facts.run, green)] if green else _find_passes(facts, attempts, attempts)
    if not passes:
        return None
    parts = [part for failed, green in passes for part in (
        ", ", "failed in ", job(failed), " and passed on the same commit in ", job(green),
    )]  # fmt: skip
    return remark(name(facts.name), " ", *parts[1:])


def _find_passes(facts: Facts, failed: Iterable[Run], runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return, for each of the failing job's errors, a pair: one of the `failed` runs with it, and a
    later one of `runs` that passed on the same commit in a pipeline of the same source. Return
    nothing if an error has no such pair.
    """
    left, found = set(facts.run.errors), list[tuple[Run, Run]]()
    for each in sorted(failed, key=lambda run: -len(facts.find_same_errors(run))):
        green = _find_alike_pass(each, runs)
        if green and left & facts.find_same_errors(each):
            found.append((each, green))
            left -= each.errors
    return [] if left else found


def prove_flaky_there(facts: Facts) -> Remark | None:
    """Proof of "flaky": recent runs on the target branch with each of the errors, then a pass on
    the same commit in a pipeline of the same source, whether or not it contains the change.

    That proves nothing if the job has failed here repeatedly: it may be flaky there and permanent
    here. Nor if the branch's newest commit fails steadily: `prove_preexisting` covers that.
    """
    target = facts.known_target
    ours = (*facts.known_attempts, *facts.known_earlier)
    here = [each for each in ours if facts.find_same_errors(each)]
    if here and not any(each.find_later_pass(ours) for each in (facts.run, *here)):
        return None
    there = target.all_runs_at_newest_commit
    if there and facts.find_same_errors(there[0]):
        again = filter(facts.find_same_errors, there)
        if not any(_find_alike_pass(each, there) for each in again):
            return None
    now = parse_time(facts.run.started_at)
    times = ((each, parse_time(each.started_at)) for each in target.all_runs)
    recent = [each for each, at in times if at is None or now is None or now - at <= RECENT]
    if not (passes := _find_passes(facts, recent, target.all_runs)):
        return None
    return remark(
        "on ", name(target.branch), " it failed in the same way and then passed on one commit: ",
        *join_parts(part for pair in passes for part in map(job, pair)),
    )  # fmt: skip


def _find_alike_pass(run: Run, runs: Iterable[Run]) -> Run | None:
    """Find the first later pass on the same commit in a pipeline of the same source."""
    if not run.sha:
        return None
    alike = [each for each in runs if (each.sha, each.source) == (run.sha, run.source)]
    return run.find_later_pass(alike)


# -------------------------------------------------------------------------- on the target branch


def prove_preexisting(facts: Facts) -> Remark | None:
    """Proof of "already failing": the same failure in the newest run at the newest commit, or in
    every run of the commit that the change is built on."""
    target = facts.known_target
    for runs in target.known_runs_by_commit:
        newest = runs[0]
        if not facts.has_same_error(newest):
            break
        # A commit whose runs are all later than this failure may contain this very change: then the
        # newest run of the commit before it must have failed with the error too.
        if newest.sha == target.base or not all(each.is_after(facts.run) for each in runs):
            return _tell_same_failure(facts, target, newest)
    base = [each for each in target.finished_runs if each.sha and each.sha == target.base]
    if base and not target.may_hide_base_runs and all(map(facts.has_same_error, base)):
        mended = any(each.has_passed for each in target.runs_at_newest_commit[:1])
        return _tell_same_failure(facts, target, sort_newest_first(base)[0], mended=mended)
    return None


def _tell_same_failure(facts: Facts, target: Target, run: Run, *, mended: bool = False) -> Remark:
    ago = describe_distance(run.started_at, facts.run.started_at)
    return remark(
        "same failure on ", name(target.branch), ": ", pipeline(run), ", ", job(run),
        f", {ago} this failure" if ago else "", ", without this change",
        "; it passes there since: a rebase brings that" if mended else "",
    )  # fmt: skip


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
    earlier = facts.known_earlier
    went = (each for each in earlier if facts.find_same_errors(each))
    return (
        any(each.has_passed for each in (*facts.attempts, *facts.runs_of_other_sources))
        or bool(facts.elsewhere if isinstance(facts.elsewhere, tuple) else ())
        or bool(facts.recoveries)
        or any(each.find_later_pass(earlier) for each in went)
    )


def _tell_pass(facts: Facts, green: Run) -> Remark:
    return remark(
        "; without it ", name(facts.name), " passed on ", name(facts.known_target.branch), ": ",
        job(green), _tell_short_pass(green, facts.run),
    )  # fmt: skip


# ----------------------------------------------------------------------------------- contradictions


def contradict_flaky(facts: Facts) -> Remark | None:
    """Against "flaky": the job failed at least twice in the same way on one commit, and never
    passed on it. One that passed there before it failed may well be flaky."""
    again = [each for each in facts.known_attempts if facts.has_same_error(each)]
    if not again or any(each.has_passed for each in facts.known_attempts):
        return None
    return remark(
        name(facts.name), f" failed {len(again) + 1} times in the same way on this commit and has "
        "not passed since: ", job(facts.run), ", ", job(again[0]),
    )  # fmt: skip


def contradict_infrastructure(facts: Facts) -> Remark | None:
    """Against "infrastructure": the runner or GitLab failed the job in the end, but before that it
    failed by itself on this commit and has not passed since."""
    if facts.run.reason in ("", "script_failure") or not (before := _find_unexplained_run(facts)):
        return None
    return remark(
        name(facts.name), " failed by itself on this commit before, and has not passed since: ",
        job(before),
    )  # fmt: skip
