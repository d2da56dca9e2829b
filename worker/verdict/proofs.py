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
    find_pass_after,
    group_by_commit,
    parse_time,
    select_same_source,
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
    if not reasons <= NEVER_THE_CHANGE and (
        _is_left_open(facts) or _is_configured(facts) or _always_dies(facts)
    ):
        return None
    # A runner took one of the jobs that should have waited for one in vain.
    ran_though_stuck = any(each.reason in WAITED and each.has_started for each in facts.jobs)
    if ran_though_stuck or _find_unexplained_run(facts):
        return None
    return remark("GitLab's failure reason of ", job(facts.run), " is ", name(facts.run.reason))


def _is_left_open(facts: Facts) -> bool:
    """Whether the log names a cause that may be the job's own: its container died, or what it asked
    for was refused. If a rule only doubts that the cause is outside, a pass on this commit settles
    it."""
    passed = any(each.has_passed for each in facts.known_attempts)
    return bool(facts.lead) and not (facts.lead == INFRASTRUCTURE and passed)


def _is_configured(facts: Facts) -> bool:
    """Whether the change may have made the job impossible to run: it may change how jobs run, and
    the job has not passed on this commit. A changed image does not matter to a job that no runner
    took."""
    change = facts.change
    if any(each.has_passed for each in facts.known_attempts):
        return False
    if not isinstance(change, Change) or not change.whole:
        return True
    taken = not {each.reason for each in facts.jobs} <= WITHOUT_RUNNER
    return change.may_configure if taken else change.may_choose_runner


def _always_dies(facts: Facts) -> bool:
    """Whether the job has repeatedly failed here for this reason but passes on the target branch.

    Then its script may be the cause: a runner reports running out of memory as a system failure.
    """
    deaths = [each for each in facts.known_attempts if each.reason == facts.run.reason]
    newest = facts.known_target.runs_at_newest_commit[:1]
    return len(deaths) >= 2 and any(each.has_passed for each in newest)


def _find_unexplained_run(facts: Facts) -> Run | None:
    """Return a run on this commit that failed by itself and whose failure the record does not
    explain; None if there is none. What the runner did later is no explanation."""
    before = (each for each in facts.runs_of_other_sources if facts.run.is_after(each))
    runs = (*facts.known_attempts, *before)
    outside = NEVER_THE_CHANGE | UNLESS_CONFIGURED
    failed = [each for each in runs if each.status == "failed" and each.reason not in outside]
    return next((each for each in failed if not _is_explained(each, facts, runs)), None)


def _is_explained(run: Run, facts: Facts, runs: Iterable[Run]) -> bool:
    """Whether the record proves that a run on this commit was flaky or failed as the target branch
    does; `runs` are all on this commit."""
    kind = (run.source, run.place)
    others = tuple(each for each in runs if each != run and (each.source, each.place) == kind)
    behind = replace(facts, run=run, others=(), attempts=others)
    return any(rule(behind) for rule in (prove_flaky_here, prove_flaky_there, prove_preexisting))


# ------------------------------------------------------------------------------------------ flaky

RECENT = 14 * 24 * 3600.0
"""Seconds for which a flake on the target branch counts as evidence about the present code."""


def prove_flaky_here(facts: Facts) -> Remark | None:
    """Proof of "flaky": a pass after each of the errors, on one commit in one kind of pipeline."""
    attempts = facts.known_attempts
    green = find_pass_after(facts.run, attempts)
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
        green = find_pass_after(each, select_same_source(runs, each))
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
    if _stays_red_here(facts) or _stays_red_there(facts, target):
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


def _stays_red_here(facts: Facts) -> bool:
    """Whether an earlier run in this merge request failed with one of the errors, and none has
    passed since."""
    earlier = facts.earlier if isinstance(facts.earlier, tuple) else ()
    runs = (*facts.known_attempts, *earlier)
    again = [each for each in runs if facts.find_same_errors(each)]
    return bool(again) and not any(find_pass_after(each, runs) for each in (facts.run, *again))


def _stays_red_there(facts: Facts, target: Target) -> bool:
    """Whether the newest run of the branch's newest commit failed with one of the errors, and no
    run that did so on that commit was followed by a pass."""
    runs = next(iter(group_by_commit(target.all_runs)), [])
    return bool(runs and facts.find_same_errors(runs[0])) and not any(
        facts.find_same_errors(each) and find_pass_after(each, select_same_source(runs, each))
        for each in runs
    )


# -------------------------------------------------------------------------- on the target branch


def prove_preexisting(facts: Facts) -> Remark | None:
    """Proof of "already failing": the same failure in the newest run at the newest commit, or in
    every run of the commit that the change is built on."""
    target = facts.known_target
    if newest := _fails_at_the_newest_commit(facts, target):
        return _tell_same_failure(facts, target, newest)
    base = [each for each in target.finished_runs if each.sha and each.sha == target.base]
    if base and not target.may_hide_base_runs and all(map(facts.has_same_error, base)):
        mended = any(each.has_passed for each in target.runs_at_newest_commit[:1])
        return _tell_same_failure(facts, target, sort_newest_first(base)[0], mended=mended)
    return None


def _fails_at_the_newest_commit(facts: Facts, target: Target) -> Run | None:
    """Return the newest commit's newest run if it failed with this error, else None.

    A commit whose runs are all later than this failure may contain this very change: then the
    newest run of the commit before it must have failed with the error too, and is returned.
    """
    for runs in () if target.may_hide_newer_runs else target.runs_by_commit:
        if not facts.has_same_error(runs[0]):
            return None
        if runs[0].sha == target.base or not all(each.is_after(facts.run) for each in runs):
            return runs[0]
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
