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

from worker.core.failure.commit_ranges import CommitRange, find_ranges, list_steady_failures
from worker.core.failure.facts import Facts, Run, find_pass_after, sort_newest_first
from worker.core.failure.proofs import (
    find_unexplained_run,
    prove_flaky_here,
    prove_flaky_there,
    prove_infrastructure,
    prove_preexisting,
)
from worker.core.text.remarks import (
    Remark,
    describe_distance,
    job,
    name,
    pipeline,
    plain,
    remark,
)


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
    or with some of the same errors, `recovery` runs that show that the failure comes and goes.
    `ranges` says between which commits the first of the jobs broke; `target_job` is the newest job
    on the target branch that failed in the same way, or 0.
    """

    name: str
    jobs: tuple[int, ...]
    hard: Verdict | None
    because: Remark
    contradictions: tuple[tuple[Verdict, Remark], ...]
    record: tuple[Remark, ...] = ()
    origin: Remark = ()
    recovery: Remark = ()
    ranges: tuple[CommitRange, ...] = ()
    target_job: int = 0

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
    """The verdict of a note and the model's own; `because` says why they differ.

    `because` is empty if they agree, if the model claims nothing, or if it is right about one of
    several errors.
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
    against = tuple((verdict, why) for verdict, why in objections if why)
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        contradictions=() if hard else against,
        record=tuple(record),
        origin=_find_origin(facts),
        recovery=_find_recovery(facts) or (because if hard is Verdict.FLAKY else ()),
        ranges=() if hard is Verdict.FLAKY else find_ranges(facts),
        target_job=next((each.job_id for each in list_steady_failures(facts)), 0),
    )


def _find_proof(facts: Facts) -> tuple[Verdict | None, Remark]:
    proofs = ((verdict, rule(facts)) for verdict, rule in PROOFS)
    return next(((verdict, reasons) for verdict, reasons in proofs if reasons), (None, ()))


def _find_objection(rule: "Rule", facts: Facts) -> Remark:
    return next(filter(None, map(rule, (facts, *facts.rest))), ())


def _find_origin(facts: Facts) -> Remark:
    target = facts.known_target
    failed = [each for each in target.finished_runs if facts.find_same_errors(each)]
    if not failed:
        return ()
    return remark("on ", name(target.branch), ": ", job(sort_newest_first(failed)[0]))


def _find_recovery(facts: Facts) -> Remark:
    """Return where the failure came and went, which need not prove that it is flaky."""
    passed = [each for each in facts.known_attempts if each.has_passed]
    if green := find_pass_after(facts.run, passed) or next(iter(passed), None):
        return remark("passed on the same commit in ", job(green))
    for failed, retried in facts.recoveries[:1]:
        return remark("same error in ", job(failed), ", which passed on a retry: ", job(retried))
    target = facts.known_target
    for failed in sort_newest_first(filter(facts.has_same_error, target.finished_runs)):
        if green := find_pass_after(failed, target.finished_runs):
            return remark(
                "on ", name(target.branch), ", one commit: " if green.sha == failed.sha else ": ",
                job(failed), " failed alike, ", job(green), " passed",
            )  # fmt: skip
    return ()


# ---------------------------------------------------------------------------------- contradictions


def _never_passed(facts: Facts) -> Remark | None:
    """Against "flaky": the job failed at least twice in the same way on one commit, and never
    passed on it. One that passed there before it failed may well be flaky."""
    again = [each for each in facts.known_attempts if facts.has_same_error(each)]
    if not again or any(each.has_passed for each in facts.known_attempts):
        return None
    return remark(
        name(facts.name), f" failed {len(again) + 1} times in the same way on this commit and has "
        "not passed since: ", job(facts.run), ", ", job(again[0]),
    )  # fmt: skip


def _failed_before(facts: Facts) -> Remark | None:
    """Against "infrastructure": the runner or GitLab failed the job in the end, but before that it
    failed by itself on this commit and has not passed since."""
    if facts.run.reason in ("", "script_failure") or not (before := find_unexplained_run(facts)):
        return None
    return remark(
        name(facts.name), " failed by itself on this commit before, and has not passed since: ",
        job(before),
    )  # fmt: skip


def find_pass_on_target(facts: Facts) -> Remark | None:
    """Against "already failing": the job's newest run on the target branch's newest commit passed,
    and none of its failures there may be this one."""
    target, errors = facts.known_target, facts.run.errors
    newest = next(iter(target.runs_at_newest_commit), None)
    if newest is None or not newest.has_passed:
        return None
    failed = [each for each in target.finished_runs if not each.has_passed]
    if any(errors & each.errors or not (each.errors and errors) for each in failed):
        return None
    ago = describe_distance(newest.started_at, facts.run.started_at)
    built_on = ", on the commit this pipeline is built on" if newest.sha == target.base else ""
    return remark(
        name(facts.name), " passed when it last ran on ", name(target.branch), f"{built_on}: ",
        pipeline(newest), ", ", job(newest), f", {ago}" if ago else "",
        _tell_short_pass(newest, facts.run),
    )  # fmt: skip


_SHORTER, _LEAST_SECONDS = 5.0, 60.0
"""A pass is short beside a failed run that took so many times as long, and at least so long."""


def _tell_short_pass(passed: Run, failed: Run) -> str:
    """Say how long both runs took if the pass was short: it may have run nothing, or a cache had
    its results."""
    if failed.seconds < _LEAST_SECONDS or not 0 < passed.seconds * _SHORTER <= failed.seconds:
        return ""
    return f" (in {passed.seconds:,.0f} s, where this run took {failed.seconds:,.0f} s)"


Rule = Callable[[Facts], Remark | None]

PROOFS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.INFRASTRUCTURE, prove_infrastructure),
    (Verdict.FLAKY, prove_flaky_here),
    (Verdict.FLAKY, prove_flaky_there),
    (Verdict.TARGET, prove_preexisting),
)
CONTRADICTIONS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.FLAKY, _never_passed),
    (Verdict.TARGET, find_pass_on_target),
    (Verdict.INFRASTRUCTURE, _failed_before),
)
"""A pass *before* the failure counts in neither table: drift, an outage, a time bomb and a flake
look alike there."""

REFUTABLE = frozenset({Verdict.TARGET})
"""Verdicts that the record can refute, because they claim something that it shows. A flake may fail
twice in a row, and an outage may fail a script before it fails the runner."""
