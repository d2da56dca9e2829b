"""What caused the failure: what GitLab's record proves, and what the model has to decide. Pure.

A rule reads the facts about the failing jobs that have one error and returns the sentence that
proves its verdict, or None. The first of `PROOFS` that returns one decides; the model cannot
overrule it. A rule of `CONTRADICTIONS` returns a sentence against one verdict. It rules that
verdict out only if it is one of `REFUTABLE`: a model that gives it anyway is not believed, and the
verdict becomes unknown. What the record neither proves nor rules out, the model decides.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from worker.core.failure.facts import (
    Change,
    Facts,
    Run,
    Target,
    find_pass_after,
    parse_time,
    select_same_source,
    sort_newest_first,
)
from worker.core.failure.file_kinds import NEVER_THE_CHANGE, UNLESS_CONFIGURED
from worker.core.text.remarks import Remark, describe_distance, job, name, pipeline, plain, remark


class Verdict(StrEnum):
    """What caused the failure. ABSTAIN says that there is not enough evidence to tell."""

    CHANGE = "caused by this change"
    TARGET = "already failing on the target branch"
    FLAKY = "flaky"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"
    ABSTAIN = "not enough evidence"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the record says of the failing `jobs` (ids) with one error, the representative first.

    `hard` is the verdict that `because` proves, or None. `contradictions` are the verdicts that the
    record contradicts, each with the sentence that says why. `record` is everything else that is
    known, or why it is not. `origin` names the newest run on the target branch with the same error,
    or with some of the same errors.
    """

    name: str
    jobs: tuple[int, ...]
    hard: Verdict | None
    because: Remark
    contradictions: tuple[tuple[Verdict, Remark], ...]
    record: tuple[Remark, ...] = ()
    origin: Remark = ()

    def decide_verdict(self, model: Verdict) -> Verdict:
        """Return the verdict on these jobs if the model's verdict is `model`."""
        if self.hard:
            return self.hard
        refuted = model in REFUTABLE and model in dict(self.contradictions)
        return Verdict.UNKNOWN if refuted else model

    def describe(self) -> tuple[str, ...]:
        """Return the ruling as plain sentences for the model; the proof comes first."""
        lines = [f'settled as "{self.hard}": {plain(self.because)}'] if self.hard else []
        lines += [
            f'speaks against "{verdict}": {plain(why)}' for verdict, why in self.contradictions
        ]
        return (*lines, *map(plain, self.record))


@dataclass(frozen=True, slots=True)
class FinalVerdict:
    """The verdict of a note and the model's own; `because` says why they differ, if they do.

    It is empty if the model claims nothing, or is right about one of several errors.
    """

    verdict: Verdict
    model: Verdict
    because: Remark = ()


ORDER = (
    Verdict.CHANGE,
    Verdict.UNKNOWN,
    Verdict.ABSTAIN,
    Verdict.TARGET,
    Verdict.INFRASTRUCTURE,
    Verdict.FLAKY,
)
"""Of several verdicts, the one that comes first is the headline: it asks most of the reader."""


def decide_headline(rulings: Sequence[Ruling], model: Verdict) -> FinalVerdict:
    """Decide the headline from what the record proves and what the model says.

    Without rulings it is the model's verdict.
    """
    if not rulings:
        return FinalVerdict(model, model)
    settled = [each.decide_verdict(model) for each in rulings]
    headline = min(settled, key=ORDER.index)
    if model in (Verdict.UNKNOWN, Verdict.ABSTAIN, *settled):
        return FinalVerdict(headline, model)
    decided = rulings[settled.index(headline)]
    return FinalVerdict(
        headline, model, decided.because or dict(decided.contradictions).get(model, ())
    )


def make_ruling(facts: Facts, record: Iterable[Remark] = ()) -> Ruling:
    """Make the ruling of what the facts prove and contradict.

    A verdict on several jobs is proven only if it is proven for each of them; a contradiction for
    one of them is enough.
    """
    hard, because = _find_proof(facts)
    if any(_find_proof(each)[0] is not hard for each in facts.rest):
        hard, because = None, ()
    objections = ((verdict, _find_objection(rule, facts)) for verdict, rule in CONTRADICTIONS)
    against = [(verdict, why) for verdict, why in objections if why]
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        contradictions=() if hard else tuple(against),
        record=tuple(record),
        origin=_find_origin(facts),
    )


def _find_proof(facts: Facts) -> tuple[Verdict | None, Remark]:
    proofs = ((verdict, rule(facts)) for verdict, rule in PROOFS)
    return next(((verdict, reasons) for verdict, reasons in proofs if reasons), (None, ()))


def _find_objection(rule: "Rule", facts: Facts) -> Remark:
    return next(filter(None, map(rule, (facts, *facts.rest))), ())


# --------------------------------------------------------------------------------- infrastructure


def _prove_outside(facts: Facts) -> Remark | None:
    reasons = {each.reason for each in facts.jobs}
    if not reasons or not reasons <= NEVER_THE_CHANGE | UNLESS_CONFIGURED:
        return None
    if not reasons <= NEVER_THE_CHANGE and (_is_configured(facts) or _always_dies(facts)):
        return None
    if _waited_in_vain(facts) is False or _find_unexplained(facts):
        return None
    return remark("GitLab's failure reason of ", job(facts.run), " is ", name(facts.run.reason))


def _is_configured(facts: Facts) -> bool:
    """Whether the change may have made the job impossible to run: it changes, or may change, how
    jobs run, and the job has not passed on this commit."""
    change = facts.change
    if any(map(_is_green, _get_attempts(facts))):
        return False
    if not isinstance(change, Change) or not change.whole:
        return True
    return change.may_configure


def _always_dies(facts: Facts) -> bool:
    """Whether the job has repeatedly failed here for this reason but passes on the target branch.

    Then its script may be the cause: a runner reports running out of memory as a system failure.
    """
    deaths = [each for each in _get_attempts(facts) if each.reason == facts.run.reason]
    newest = next(iter(_list_newest_runs(facts)), None)
    return len(deaths) >= 2 and newest is not None and _is_green(newest)


def _waited_in_vain(facts: Facts) -> bool | None:
    """Whether no runner took the jobs with `stuck_or_timeout_failure`; None if no job has it."""
    stuck = [each for each in facts.jobs if each.reason == "stuck_or_timeout_failure"]
    return not any(each.has_started for each in stuck) if stuck else None


def _find_unexplained(facts: Facts) -> Run | None:
    """Return a run on this commit that failed for a reason of its own and was never followed by a
    pass, None if there is none: what the runner did later does not explain such a run."""
    attempts = _get_attempts(facts)
    outside = NEVER_THE_CHANGE | UNLESS_CONFIGURED
    failed = [each for each in attempts if each.status == "failed" and each.reason not in outside]
    return next((each for each in failed if not find_pass_after(each, attempts)), None)


# ------------------------------------------------------------------------------------------ flaky

RECENT = 14 * 24 * 3600.0
"""Seconds for which a flake on the target branch counts as evidence about the present code."""


def _passed_afterwards(facts: Facts) -> Remark | None:
    """Proof of "flaky": a pass after the same error, on one commit in one kind of pipeline."""
    attempts = _get_attempts(facts)
    failed = [facts.run, *(each for each in attempts if facts.has_same_error(each))]
    pairs = ((each, find_pass_after(each, attempts)) for each in failed)
    return next((_tell_pass(facts, each, green) for each, green in pairs if green), None)


def _tell_pass(facts: Facts, failed: Run, green: Run) -> Remark:
    return remark(
        name(facts.name), " failed in ", job(failed), " and passed on the same commit in ",
        job(green),
    )  # fmt: skip


def _comes_and_goes(facts: Facts) -> Remark | None:
    """Proof of "flaky": a recent run on the target branch with the same error, then a pass on the
    same commit in a pipeline of the same source.

    It proves nothing if the job has failed here repeatedly: it may be flaky there and permanent
    here. Nor if a newer commit of the branch fails with it: `_fails_there` covers that.
    """
    target = _get_target(facts)
    if target is None or _failed_again(facts) or _fails_at_a_newer_commit(facts, target):
        return None
    for failed in (
        each for each in target.runs if facts.has_same_error(each) and _is_recent(each, facts)
    ):
        if green := find_pass_after(failed, select_same_source(target.runs, failed)):
            return remark(
                "on ", name(target.branch), " it failed in the same way and then passed on one "
                "commit: ", job(failed), ", ", job(green),
            )  # fmt: skip
    return None


def _fails_at_a_newer_commit(facts: Facts, target: Target) -> bool:
    """Whether all runs of the newest commit fail with this error, and an older commit has runs."""
    return len(target.runs_by_commit) > 1 and all(
        map(facts.has_same_error, target.runs_by_commit[0])
    )


def _is_recent(run: Run, facts: Facts) -> bool:
    then, now = parse_time(run.started_at), parse_time(facts.run.started_at)
    return then is None or now is None or now - then <= RECENT


# -------------------------------------------------------------------------- on the target branch


def _fails_there(facts: Facts) -> Remark | None:
    """The newest run at the newest commit, or every run of the commit the change is built on."""
    target = _get_target(facts)
    if target is None:
        return None
    if newest := _fails_at_the_newest_commit(facts, target):
        return _tell_same_failure(facts, target, newest)
    base = [each for each in target.finished_runs if each.sha and each.sha == target.base]
    if base and all(facts.has_same_error(each) for each in base):
        mended = any(map(_is_green, target.runs_at_newest_commit[:1]))
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


def _find_origin(facts: Facts) -> Remark:
    target = _get_target(facts)
    runs = target.finished_runs if target else []
    failed = [each for each in runs if facts.has_same_error(each) or each.shared_errors]
    if target is None or not failed:
        return ()
    return remark("on ", name(target.branch), ": ", job(sort_newest_first(failed)[0]))


def _tell_same_failure(facts: Facts, target: Target, run: Run, *, mended: bool = False) -> Remark:
    return remark(
        "same failure on ", name(target.branch), ": ", pipeline(run), ", ", job(run),
        *_tell_distance(run, facts.run), ", without this change",
        "; it passes there since: a rebase brings that" if mended else "",
    )  # fmt: skip


def _tell_distance(run: Run, ours: Run) -> tuple[str, ...]:
    ago = describe_distance(run.started_at, ours.started_at)
    return (f", {ago} this failure",) if ago else ()


# ---------------------------------------------------------------------------------- contradictions


def _failed_again(facts: Facts) -> Remark | None:
    """The job failed at least twice in the same way on one commit, and has not passed since."""
    again = [each for each in _get_attempts(facts) if facts.has_same_error(each)]
    failed = [facts.run, *again]
    if not again or any(find_pass_after(each, _get_attempts(facts)) for each in failed):
        return None
    return remark(
        name(facts.name), f" failed {len(failed)} times in the same way on this commit and has "
        "not passed since: ", job(facts.run), ", ", job(again[0]),
    )  # fmt: skip


def _never_passed(facts: Facts) -> Remark | None:
    """Against "flaky": as `_failed_again`, and no pass before the first failure either. A job that
    passed before on the same commit may well be flaky."""
    return None if any(map(_is_green, _get_attempts(facts))) else _failed_again(facts)


def _failed_before(facts: Facts) -> Remark | None:
    """Against "infrastructure": the runner or GitLab failed the job in the end, but before that it
    failed by itself on this commit and has not passed since."""
    if facts.run.reason in ("", "script_failure") or not (before := _find_unexplained(facts)):
        return None
    return remark(
        name(facts.name), " failed by itself on this commit before, and has not passed since: ",
        job(before),
    )  # fmt: skip


def find_pass_on_target(facts: Facts) -> Remark | None:
    """Against "already failing": the job's newest run on the target branch's newest commit passed,
    and none of its failures there may be this one."""
    target, newest = _get_target(facts), _list_newest_runs(facts)
    if target is None or not newest or not _is_green(newest[0]):
        return None
    failed = [each for each in target.finished_runs if not _is_green(each)]
    if any(
        facts.has_same_error(each) or each.shared_errors or not (each.error and facts.run.error)
        for each in failed
    ):
        return None
    built_on = ", on the commit this change is built on" if newest[0].sha == target.base else ""
    return remark(
        name(facts.name), " passes on ", name(target.branch), f"{built_on}: ", pipeline(newest[0]),
        ", ", job(newest[0]),
    )  # fmt: skip


Rule = Callable[[Facts], Remark | None]

PROOFS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.INFRASTRUCTURE, _prove_outside),
    (Verdict.FLAKY, _passed_afterwards),
    (Verdict.FLAKY, _comes_and_goes),
    (Verdict.TARGET, _fails_there),
)
CONTRADICTIONS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.FLAKY, _never_passed),
    (Verdict.TARGET, find_pass_on_target),
    (Verdict.INFRASTRUCTURE, _failed_before),
)
"""A pass *before* the failure is in neither table: drift, an outage, a time bomb and a flake all
look the same there."""

REFUTABLE = frozenset({Verdict.TARGET})
"""Verdicts that the record can refute, because they claim something that it shows. A flake may fail
twice in a row, and an outage may fail a script before it fails the runner."""


# ------------------------------------------------------------------------------------------- runs


def _get_attempts(facts: Facts) -> tuple[Run, ...]:
    return facts.attempts if isinstance(facts.attempts, tuple) else ()


def _get_target(facts: Facts) -> Target | None:
    return facts.target if isinstance(facts.target, Target) else None


def _list_newest_runs(facts: Facts) -> list[Run]:
    target = _get_target(facts)
    return target.runs_at_newest_commit if target else []


def _is_green(run: Run) -> bool:
    return run.status == "success"
