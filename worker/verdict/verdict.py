"""What caused the failure: what GitLab's record proves, and what the model has to decide. Pure.

A rule reads the facts about the failing jobs that have one error and returns the sentence that
proves its verdict, or None. The first of `PROOFS` that returns one decides; the model cannot
overrule it. A rule of `REFUTATIONS` returns a sentence that rules one verdict out: a model that
gives it anyway is not believed, and the verdict becomes unknown. One of `CONTRADICTIONS` only
speaks against a verdict. What the record neither proves nor rules out, the model decides.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from worker.verdict.commit_ranges import CommitRange, find_ranges, list_steady_failures
from worker.verdict.facts import Facts, Installed, find_pass_after, sort_newest_first
from worker.verdict.proofs import (
    find_unexplained_run,
    prove_flaky_here,
    prove_flaky_there,
    prove_infrastructure,
    prove_preexisting,
)
from worker.verdict.refutations import (
    find_pass_on_target,
    refute_change,
    refute_flaky,
    refute_infrastructure,
)
from worker.verdict.remarks import Remark, job, name, plain, remark


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
    record contradicts, each with a sentence that says why; `refuted_verdicts` are those that it
    rules out: the first sentence about each is the refutation. `same_as_passed` is what was
    installed as in the job's last pass, which `last_pass` names; nothing if the log may tell of the
    network or the host. `differs`: something else is installed than there. `record` is everything
    else that is known, or why it is not. `origin` names the newest run on the target branch with
    the same error, or with some of the same errors, `recovery` runs that show that the failure
    comes and goes. `ranges` says between which commits the first of the jobs broke; `target_job` is
    the newest job on the target branch that failed in the same way, or 0.
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
    refuted_verdicts: frozenset[Verdict] = frozenset()
    same_as_passed: tuple[Installed, ...] = ()
    last_pass: Remark = ()
    differs: bool = False

    def decide_verdict(self, model: Verdict) -> Verdict:
        """Return the verdict on these jobs if the model's verdict is `model`."""
        if self.hard:
            return self.hard
        return Verdict.UNKNOWN if model in self.refuted_verdicts else model

    def explain_refutation(self, model: Verdict) -> Remark:
        """Return why the model's verdict `model` does not stand; () if it is not refuted."""
        if self.hard or model not in self.refuted_verdicts:
            return ()
        return next((why for verdict, why in self.contradictions if verdict is model), ())

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
    several errors and refuted for none.
    """

    verdict: Verdict
    model: Verdict
    because: Remark = ()

    @property
    def is_refuted(self) -> bool:
        """Whether the record rules the model's verdict out, without proving another one."""
        return self.verdict is Verdict.UNKNOWN and bool(self.because)


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
    refutations = filter(None, (each.explain_refutation(model) for each in rulings))
    if headline is Verdict.UNKNOWN:
        return FinalVerdict(headline, model, next(refutations, ()))
    if model in (Verdict.UNKNOWN, Verdict.ABSTAIN, *settled):
        return FinalVerdict(headline, model)
    return FinalVerdict(headline, model, rulings[settled.index(headline)].because)


def make_ruling(facts: Facts, record: Iterable[Remark] = ()) -> Ruling:
    """Make the ruling of what the facts prove and contradict.

    A verdict on several jobs is proven only if it is proven for each of them, and so is what rules
    out that it comes from outside; another contradiction for one of them is enough.
    """
    hard, because = _find_proof(facts)
    if any(_find_proof(each)[0] is not hard for each in facts.rest):
        hard, because = None, ()
    refuted = {} if hard else _find_refutations(facts)
    objections = ((verdict, _find_objection(rule, facts)) for verdict, rule in CONTRADICTIONS)
    against = sorted(
        (*refuted.items(), *((verdict, why) for verdict, why in objections if why)),
        key=lambda each: _JUDGED.index(each[0]),
    )
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        contradictions=() if hard else tuple(against),
        record=tuple(record),
        origin=_find_origin(facts),
        recovery=_find_recovery(facts) or (because if hard is Verdict.FLAKY else ()),
        ranges=() if hard is Verdict.FLAKY else find_ranges(facts),
        target_job=next((each.job_id for each in list_steady_failures(facts)), 0),
        refuted_verdicts=frozenset(refuted),
        same_as_passed=facts.last_pass.same
        if facts.last_pass and facts.may_blame_host is False
        else (),
        last_pass=remark(job(facts.last_pass.run)) if facts.last_pass else (),
        differs=bool(facts.last_pass and facts.last_pass.package_changes),
    )


def _find_proof(facts: Facts) -> tuple[Verdict | None, Remark]:
    proofs = ((verdict, rule(facts)) for verdict, rule in PROOFS)
    return next(((verdict, reasons) for verdict, reasons in proofs if reasons), (None, ()))


def _find_refutations(facts: Facts) -> dict[Verdict, Remark]:
    """Find the verdicts that are ruled out, each with the reason."""
    found = {verdict: _find_objection(rule, facts) for verdict, rule in REFUTATIONS}
    for verdict in (Verdict.FLAKY, Verdict.INFRASTRUCTURE):
        if not all(map(dict(REFUTATIONS)[verdict], facts.rest)):
            found[verdict] = ()
    return {verdict: why for verdict, why in found.items() if why}


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


Rule = Callable[[Facts], Remark | None]

PROOFS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.INFRASTRUCTURE, prove_infrastructure),
    (Verdict.FLAKY, prove_flaky_here),
    (Verdict.FLAKY, prove_flaky_there),
    (Verdict.TARGET, prove_preexisting),
)
REFUTATIONS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.FLAKY, refute_flaky),
    (Verdict.TARGET, find_pass_on_target),
    (Verdict.INFRASTRUCTURE, refute_infrastructure),
    (Verdict.CHANGE, refute_change),
)
_JUDGED = tuple(verdict for verdict, _ in REFUTATIONS)
CONTRADICTIONS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.FLAKY, _never_passed),
    (Verdict.INFRASTRUCTURE, _failed_before),
)
"""These rule nothing out: a flake may fail twice in a row, and an outage may fail a script before
it fails the runner.

A pass *before* the failure proves nothing, as drift, an outage, a time bomb and a flake look alike
there; it only refutes that the change by itself is the cause."""
