"""What GitLab's record proves of a failure, what it rules out, and what it speaks against. Pure.

A rule reads the facts about the failing jobs that have one error and returns the sentence that
proves its verdict, or None. The first of `_PROOFS` that returns one decides, and no model overrules
it. One of `_REFUTATIONS` rules a verdict out: a model that gives it anyway is not believed, and the
verdict becomes unknown. One of `_CONTRADICTIONS` only speaks against a verdict. What is not known
proves and refutes nothing; what the record neither proves nor rules out, the model decides.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from worker.verdict.facts import (
    NEVER_THE_CHANGE,
    UNLESS_CONFIGURED,
    WAITED,
    WITHOUT_RUNNER,
    Change,
    Facts,
    JobRun,
    Target,
    parse_time,
    sort_newest_first,
)
from worker.verdict.flaky_tests import is_apart, prove_flaky_by_tests
from worker.verdict.remarks import (
    Remark,
    describe_distance,
    job,
    join_parts,
    name,
    pipeline,
    remark,
    tell_short_pass,
)
from worker.verdict.verdict import Ruling, Verdict


def _prove_infrastructure(facts: Facts) -> Remark | None:
    """Proof of "infrastructure": GitLab's reasons are none that the change can have caused, and the
    runner says nothing that leaves the cause open."""
    reasons = {each.reason for each in facts.jobs}
    if not reasons or not reasons <= NEVER_THE_CHANGE | UNLESS_CONFIGURED:
        return None
    if not reasons <= NEVER_THE_CHANGE:
        # The log names a cause that may be the job's own: its container died, or what it asked for
        # was refused. If a rule only doubts that it is outside, a pass on this commit settles it.
        passed = any(each.has_passed for each in facts.known_attempts)
        is_left_open = facts.lead and not (facts.lead == Verdict.INFRASTRUCTURE and passed)
        # It dies here again and again, and passes on the target branch: its script may be the
        # cause, as a runner reports running out of memory as a system failure.
        deaths = [each for each in facts.known_attempts if each.reason == facts.run.reason]
        newest = facts.known_target.runs_at_newest_commit[:1]
        always_dies = len(deaths) >= 2 and any(each.has_passed for each in newest)
        # The change may have made it impossible to run, as it may change how jobs run. A changed
        # image does not matter to a job that no runner took.
        is_configured = not passed
        if isinstance(change := facts.change, Change) and change.whole and not passed:
            taken = not reasons <= WITHOUT_RUNNER
            is_configured = change.may_configure if taken else change.may_choose_runner
        if is_left_open or always_dies or is_configured:
            return None
    # A runner took one of the jobs that should have waited for one in vain.
    ran_though_stuck = any(each.reason in WAITED and each.has_started for each in facts.jobs)
    if ran_though_stuck or _find_unexplained_run(facts):
        return None
    return remark("GitLab's failure reason of ", job(facts.run), " is ", name(facts.run.reason))


def _find_unexplained_run(facts: Facts) -> JobRun | None:
    """Return a run on this commit that failed by itself, if the record does not explain how. What
    the runner did later is no explanation."""
    before = (each for each in facts.runs_of_other_sources if facts.run.is_after(each))
    runs = (*facts.known_attempts, *before)
    for run in runs:
        if run.status == "failed" and run.reason not in NEVER_THE_CHANGE | UNLESS_CONFIGURED:
            kind = (run.source, run.place)
            same = (each for each in runs if each != run and (each.source, each.place) == kind)
            behind = replace(facts, run=run, others=(), attempts=tuple(same))
            proofs = (_prove_flaky_here, _prove_flaky_there, _prove_preexisting)
            if not any(rule(behind) for rule in proofs):
                return run
    return None


_RECENT = 14 * 24 * 3600.0
"""Seconds for which a flake on the target branch counts as evidence about the present code."""


def _prove_flaky_here(facts: Facts) -> Remark | None:
    """Proof of "flaky": a pass after each of the errors, on one commit in one kind of pipeline."""
    attempts = facts.known_attempts
    green = facts.run.find_later_pass(attempts)
    if not (passes := [(facts.run, green)] if green else _find_passes(facts, attempts, attempts)):
        return None
    parts = [part for failed, green in passes for part in (
        ", ", "failed in ", job(failed), " and passed on the same commit in ", job(green),
    )]  # fmt: skip
    return remark(name(facts.name), " ", *parts[1:])


def _find_passes(
    facts: Facts, failed: Iterable[JobRun], runs: Sequence[JobRun]
) -> list[tuple[JobRun, JobRun]]:
    """Return, for each of the failing job's errors, a pair: one of the `failed` runs with it, and a
    later one of `runs` that passed on the same commit in a pipeline of the same source. Return
    nothing if an error has no such pair."""
    left, found = set(facts.run.errors), list[tuple[JobRun, JobRun]]()
    for each in sorted(failed, key=lambda run: -len(facts.find_same_errors(run))):
        green = _find_alike_pass(each, runs)
        if green and left & facts.find_same_errors(each):
            found.append((each, green))
            left -= each.errors
    return [] if left else found


def _prove_flaky_there(facts: Facts) -> Remark | None:
    """Proof of "flaky": recent runs on the target branch with each of the errors, then a pass on
    the same commit in a pipeline of the same source, whether or not it contains the change.

    That proves nothing if the job has failed here repeatedly: it may be flaky there and permanent
    here. Nor if the branch's newest commit fails steadily: `_prove_preexisting` covers that.
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
    recent = [each for each, at in times if at is None or now is None or now - at <= _RECENT]
    if not (passes := _find_passes(facts, recent, target.all_runs)):
        return None
    return remark(
        "on ", name(target.branch), " it failed in the same way and then passed on one commit: ",
        *join_parts(part for pair in passes for part in map(job, pair)),
    )  # fmt: skip


def _find_alike_pass(run: JobRun, runs: Iterable[JobRun]) -> JobRun | None:
    """Find the first later pass on the same commit in a pipeline of the same source."""
    if not run.sha:
        return None
    alike = [each for each in runs if (each.sha, each.source) == (run.sha, run.source)]
    return run.find_later_pass(alike)


def _prove_preexisting(facts: Facts) -> Remark | None:
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


def _tell_same_failure(
    facts: Facts, target: Target, run: JobRun, *, mended: bool = False
) -> Remark:
    ago = describe_distance(run.started_at, facts.run.started_at)
    return remark(
        "same failure on ", name(target.branch), ": ", pipeline(run), ", ", job(run),
        f", {ago} this failure" if ago else "", ", without this change",
        "; it passes there since: a rebase brings that" if mended else "",
    )  # fmt: skip


def _refute_flaky(facts: Facts) -> Remark | None:
    """Against "flaky": it is the change's own failure."""
    own = _tell_own_failure(facts)
    return remark(*own, "; it has not passed on this commit") if own else None


def _refute_infrastructure(facts: Facts) -> Remark | None:
    """Against "infrastructure": as against "flaky", and the failed command says nothing of the
    network or the host, nor is anything known to be installed differently."""
    differs = facts.last_pass is not None and facts.last_pass.package_changes
    if facts.may_blame_host is not False or facts.run.reason not in _OF_THE_SCRIPT or differs:
        return None
    own = _tell_own_failure(facts)
    return remark(*own, "; its output says nothing of network or host") if own else None


def _tell_own_failure(facts: Facts) -> Remark:
    """Tell that the error names a line that the change adds, or a name that it removes, and that
    the job passes without it.

    Return () if that is not known, or if the error may come and go: something has passed on this
    commit, in whatever pipeline, or the error was seen where this change is not, or went away.
    """
    change, target = facts.change, facts.known_target
    if not isinstance(change, Change) or not isinstance(facts.attempts, tuple):
        return ()
    if touch := next((each for each in change.touches if each.line), None):
        which = ", which this change adds"
        edit = remark(f"the error names line {touch.line} of ", name(touch.path), which)
    elif change.removed_names:
        removed, path = change.removed_names[0]
        which = ", which this change removes from "
        edit = remark("the error names ", name(removed), which, name(path))
    else:
        return ()
    # On the commit that the change is built on, or the target branch's newest one.
    based = [each for each in target.finished_runs if each.sha and each.sha == target.base]
    newest = [*sort_newest_first(based)[:1], *target.runs_at_newest_commit[:1]]
    green = next((each for each in newest if each.has_passed), None)
    if green is None or _may_fail_there(facts) or any(map(facts.find_same_errors, target.all_runs)):
        return ()
    earlier = facts.known_earlier
    went = (each for each in earlier if facts.find_same_errors(each))
    if (
        any(each.has_passed for each in (*facts.attempts, *facts.runs_of_other_sources))
        or (isinstance(facts.elsewhere, tuple) and facts.elsewhere)
        or facts.recoveries
        or any(each.find_later_pass(earlier) for each in went)
    ):
        return ()
    return remark(
        *edit, "; without it ", name(facts.name), " passed on ", name(target.branch), ": ",
        job(green), tell_short_pass(green, facts.run),
    )  # fmt: skip


def _refute_change(facts: Facts) -> Remark | None:
    """Against "caused by this change": the job passed on this commit, in this kind of pipeline.
    Whether a flake, drift or an outage has ended that, the change is the same."""
    passed = [each for each in facts.known_attempts if each.has_passed]
    if not facts.run.sha or not passed:
        return None
    green = sort_newest_first(passed)[0]
    ago = describe_distance(green.started_at, facts.run.started_at)
    return remark(
        name(facts.name), " passed on this same commit: ", job(green),
        f", {ago} this failure" if ago else "", tell_short_pass(green, facts.run),
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
        tell_short_pass(newest, facts.run),
    )  # fmt: skip


_OF_THE_SCRIPT = frozenset({"", "script_failure"})
"""GitLab's failure reasons of a job whose own script has failed."""


def _may_fail_there(facts: Facts) -> bool:
    """Whether one of the job's failures on the target branch may be this one."""
    errors = facts.run.errors
    failed = [each for each in facts.known_target.finished_runs if not each.has_passed]
    return any(errors & each.errors or not (each.errors and errors) for each in failed)


def _contradict_flaky(facts: Facts) -> Remark | None:
    """Against "flaky": the job failed at least twice in the same way on one commit, and never
    passed on it. One that passed there before it failed may well be flaky."""
    again = [each for each in facts.known_attempts if facts.has_same_error(each)]
    if not again or any(each.has_passed for each in facts.known_attempts):
        return None
    return remark(
        name(facts.name), f" failed {len(again) + 1} times in the same way on this commit and has "
        "not passed since: ", job(facts.run), ", ", job(again[0]),
    )  # fmt: skip


def _contradict_infrastructure(facts: Facts) -> Remark | None:
    """Against "infrastructure": the runner or GitLab failed the job in the end, but before that it
    failed by itself on this commit and has not passed since."""
    if facts.run.reason in _OF_THE_SCRIPT or not (before := _find_unexplained_run(facts)):
        return None
    return remark(
        name(facts.name), " failed by itself on this commit before, and has not passed since: ",
        job(before),
    )  # fmt: skip


_Rule = Callable[[Facts], Remark | None]

_PROOFS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.INFRASTRUCTURE, _prove_infrastructure),
    (Verdict.FLAKY, _prove_flaky_here),
    (Verdict.FLAKY, _prove_flaky_there),
    (Verdict.TARGET, _prove_preexisting),
    (Verdict.FLAKY, prove_flaky_by_tests),
)
_REFUTATIONS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.FLAKY, _refute_flaky),
    (Verdict.TARGET, find_pass_on_target),
    (Verdict.INFRASTRUCTURE, _refute_infrastructure),
    (Verdict.CHANGE, _refute_change),
)
_CONTRADICTIONS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.FLAKY, _contradict_flaky),
    (Verdict.INFRASTRUCTURE, _contradict_infrastructure),
)
"""These rule nothing out: a flake may fail twice in a row, and an outage may fail a script before
it fails the runner.
A pass *before* the failure proves nothing, as drift, an outage, a time bomb and a flake look alike
there; it only refutes that the change by itself is the cause."""


def make_ruling(facts: Facts, record: Iterable[Remark] = ()) -> Ruling:
    """Make the ruling of what the facts prove and contradict.

    A verdict on several jobs is proven only if it is proven for each of them, and so is what rules
    out that it comes from outside; another contradiction for one of them is enough.
    """
    hard, because = _find_proof(facts)
    if any(_find_proof(each)[0] is not hard for each in facts.rest):
        hard, because = None, ()
    against: list[tuple[Verdict, Remark]] = []
    for verdict, rule in () if hard else _REFUTATIONS:
        holds = verdict in (Verdict.TARGET, Verdict.CHANGE) or all(map(rule, facts.rest))
        if holds and (why := _find_objection(rule, facts)):
            against.append((verdict, why))
    refuted = frozenset(verdict for verdict, _ in against)
    for verdict, rule in () if hard else _CONTRADICTIONS:
        if why := _find_objection(rule, facts):
            against.append((verdict, why))
    order = [verdict for verdict, _ in _REFUTATIONS]
    target = facts.known_target
    failed = sort_newest_first(filter(facts.find_same_errors, target.finished_runs))
    broken = facts.find_range()
    not_outside = facts.may_blame_host is False
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        contradictions=tuple(sorted(against, key=lambda each: order.index(each[0]))),
        record=tuple(record),
        origin=remark("on ", name(target.branch), ": ", job(failed[0])) if failed else (),
        recovery=_find_recovery(facts) or (because if hard is Verdict.FLAKY else ()),
        ranges=(broken,) if hard is not Verdict.FLAKY and broken else (),
        target_job=next((each.job_id for each in facts.list_steady_failures()), 0),
        refuted_verdicts=refuted,
        same_as_passed=facts.last_pass.same if not_outside and facts.last_pass else (),
        last_pass=remark(job(facts.last_pass.run)) if facts.last_pass else (),
        differs=bool(facts.last_pass and facts.last_pass.package_changes),
        is_apart=all(map(is_apart, (facts, *facts.rest))),
    )


def _find_proof(facts: Facts) -> tuple[Verdict | None, Remark]:
    proofs = ((verdict, rule(facts)) for verdict, rule in _PROOFS)
    return next(((verdict, reasons) for verdict, reasons in proofs if reasons), (None, ()))


def _find_objection(rule: _Rule, facts: Facts) -> Remark:
    return next(filter(None, map(rule, (facts, *facts.rest))), ())


def _find_recovery(facts: Facts) -> Remark:
    """Return where the failure came and went, which need not prove that it is flaky."""
    passed = [each for each in facts.known_attempts if each.has_passed]
    if green := facts.run.find_later_pass(passed) or next(iter(passed), None):
        return remark("passed on the same commit in ", job(green))
    for failed, retried in facts.recoveries[:1]:
        return remark("same error in ", job(failed), ", which passed on a retry: ", job(retried))
    target = facts.known_target
    for failed in sort_newest_first(filter(facts.has_same_error, target.finished_runs)):
        if green := failed.find_later_pass(target.finished_runs):
            return remark(
                "on ", name(target.branch), ", one commit: " if green.sha == failed.sha else ": ",
                job(failed), " failed alike, ", job(green), " passed",
            )  # fmt: skip
    return ()
