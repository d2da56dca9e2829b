"""Whose failure it is: what GitLab's record proves, and what remains for the model to say. Pure.

A rule looks at the facts of the failing jobs that have one error and gives the sentence that proves
its verdict, or None. The first of `PROOFS` that speaks decides; the model cannot overrule it. A
sentence of `CONTRADICTIONS` takes one verdict away: who says it all the same is not believed, and
the verdict is unknown. What neither decides is the model's to say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

from worker.core import remarks
from worker.core.facts import Change, Facts, Run, Target
from worker.core.remarks import Remark, apart, job, name, pipeline, plain, remark


class Verdict(StrEnum):
    """Whose failure it is. ABSTAIN says that the evidence to tell is not there."""

    CHANGE = "caused by this change"
    TARGET = "already failing on the target branch"
    FLAKY = "flaky"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"
    ABSTAIN = "not enough evidence"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the record says of the failing `jobs` (ids) with one error, the one for all first.

    `hard` is the verdict that `because` proves, or None. `against` are the verdicts that the record
    contradicts, each with the sentence. `record` is everything else that is known, or why it is
    not.
    """

    name: str
    jobs: tuple[int, ...]
    hard: Verdict | None
    because: Remark
    against: tuple[tuple[Verdict, Remark], ...]
    record: tuple[Remark, ...] = ()

    def settled(self, model: Verdict) -> Verdict:
        """The verdict on these jobs, when the model says `model`."""
        if self.hard:
            return self.hard
        return Verdict.UNKNOWN if model in dict(self.against) else model

    def cleaned(self, clean: Callable[[str], str]) -> "Ruling":
        """The ruling with every stranger's word cleaned."""
        return replace(
            self,
            name=clean(self.name),
            because=remarks.renamed(self.because, clean),
            against=tuple((verdict, remarks.renamed(why, clean)) for verdict, why in self.against),
            record=tuple(remarks.renamed(each, clean) for each in self.record),
        )

    def told(self) -> tuple[str, ...]:
        """All of it in plain sentences, for the model, what decides first."""
        lines = [f'settled as "{self.hard}": {plain(self.because)}'] if self.hard else []
        lines += [f'speaks against "{verdict}": {plain(why)}' for verdict, why in self.against]
        return (*lines, *map(plain, self.record))


@dataclass(frozen=True, slots=True)
class Final:
    """The verdict of a note, and the model's; `because` says why it is not that one, if it is not.

    A model that claims nothing, or is right about one of several errors, is not contradicted.
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
"""Of several verdicts the one that comes first is the headline: it asks most of the reader."""


def final(rulings: Sequence[Ruling], model: Verdict) -> Final:
    """The headline, from what the record proves and what the model says.

    Without rulings the model's word stands.
    """
    if not rulings:
        return Final(model, model)
    settled = [each.settled(model) for each in rulings]
    headline = min(settled, key=ORDER.index)
    if model in (Verdict.UNKNOWN, Verdict.ABSTAIN, *settled):
        return Final(headline, model)
    decided = rulings[settled.index(headline)]
    return Final(headline, model, decided.because or dict(decided.against).get(model, ()))


def ruled(facts: Facts, record: Iterable[Remark] = ()) -> Ruling:
    """What the facts prove and contradict."""
    proofs = ((verdict, rule(facts)) for verdict, rule in PROOFS)
    hard, because = next(((verdict, told) for verdict, told in proofs if told), (None, ()))
    against = [(verdict, told) for verdict, rule in CONTRADICTIONS if (told := rule(facts))]
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        against=() if hard else tuple(against),
        record=tuple(record),
    )


# --------------------------------------------------------------------------------- infrastructure

NEVER_THE_CHANGE = frozenset(
    {
        "api_failure",
        "ci_quota_exceeded",
        "data_integrity_failure",
        "scheduler_failure",
        "stale_schedule",
    }
)
"""Failure reasons (wire-gitlab 3.7) that no commit can bring about."""

UNLESS_CONFIGURED = frozenset(
    {
        "image_pull_failure",
        "no_matching_runner",
        "runner_system_failure",
        "runner_unsupported",
        "stuck_or_timeout_failure",
        "unmet_prerequisites",
    }
)
"""Those that a commit brings about only by what it changes in the CI configuration: a tag that no
runner has, an image that is not there. A time limit or a log limit is not among them: code can
exceed both."""


def _outside(facts: Facts) -> Remark | None:
    reasons = {each.reason for each in facts.jobs}
    if not reasons or not reasons <= NEVER_THE_CHANGE | UNLESS_CONFIGURED:
        return None
    untouched = isinstance(facts.change, Change) and facts.change.whole and not facts.change.ci
    if not reasons <= NEVER_THE_CHANGE and (not untouched or _always_dies(facts)):
        return None
    return remark("GitLab's failure reason of ", job(facts.run), " is ", name(facts.run.reason))


def _always_dies(facts: Facts) -> bool:
    """A job that dies each time here and passes meanwhile elsewhere may be killed for what it does:
    a runner reports one that was out of memory as a system failure."""
    deaths = [each for each in _attempts(facts) if each.reason == facts.run.reason]
    newest = next(iter(_ended(_target(facts))), None)
    return len(deaths) >= 2 and newest is not None and newest.status == "success"


# ------------------------------------------------------------------------------------------ flaky


def _passed_afterwards(facts: Facts) -> Remark | None:
    later = [each for each in _passes(facts) if each.job_id > facts.run.job_id]
    return _passed(facts, later[0]) if later else None


def _passed_before(facts: Facts) -> Remark | None:
    """Unless it has failed in the same way more than once since: then something has changed."""
    if not (passes := _passes(facts)):
        return None
    newest = max(passes, key=lambda each: each.job_id)
    since = [each for each in _attempts(facts) if each.job_id > newest.job_id and facts.same(each)]
    return None if since else _passed(facts, newest)


def _passed(facts: Facts, run: Run) -> Remark:
    return remark(
        name(facts.name), " failed in ", job(facts.run), " and passed on the same commit in ",
        job(run),
    )  # fmt: skip


def _comes_and_goes(facts: Facts) -> Remark | None:
    """The same error on the target branch, with passes between or on the very commit it failed on.

    Not if it has failed here again and again: there it may come and go, here it stays.
    """
    target = _target(facts)
    if target is None or _failed_again(facts):
        return None
    passed = {each.sha for each in target.runs if each.status == "success"}
    failed = [each for each in target.runs if facts.same(each)]
    mixed = [each for each in failed if each.sha and each.sha in passed]
    if mixed:
        return remark(
            "on ", name(target.branch), " it failed in the same way and passed on one commit: ",
            job(mixed[0]),
        )  # fmt: skip
    outcomes = [facts.same(each) for each in _ended(target) if each in failed or _green(each)]
    spells = sum(same for same, _ in groupby(outcomes))
    if spells < 2:
        return None
    return remark(
        "on ", name(target.branch), " it failed in the same way and passed by turns: ",
        job(failed[0]), ", ", job(failed[-1]),
    )  # fmt: skip


# -------------------------------------------------------------------------- on the target branch


def _fails_there(facts: Facts) -> Remark | None:
    """The newest run there, or the one of the very commit the change is built on."""
    target = _target(facts)
    runs = _ended(target)
    if target is None or not runs:
        return None
    passed = {each.sha for each in runs if _green(each)}
    base = [each for each in runs if each.sha and each.sha == target.base]
    for run, fixed in ((runs[0], False), *((each, _green(runs[0])) for each in base[:1])):
        if facts.same(run) and run.sha not in passed:
            return remark(
                "same failure on ", name(target.branch), ": ", pipeline(run), ", ", job(run),
                *_when(run, facts.run), ", without this change",
                "; it passes there since: a rebase brings that" if fixed else "",
            )  # fmt: skip
    return None


def _when(run: Run, ours: Run) -> tuple[str, ...]:
    return (f", {ago} this failure",) if (ago := apart(run.at, ours.at)) else ()


# ---------------------------------------------------------------------------------- contradictions


def _failed_again(facts: Facts) -> Remark | None:
    """Against "flaky": twice the same way, and never a pass, on one commit."""
    again = [each for each in _attempts(facts) if facts.same(each)]
    if not again or _passes(facts):
        return None
    return remark(
        name(facts.name), f" failed {len(again) + 1} times in the same way on this commit and "
        "never passed: ", job(facts.run), ", ", job(again[0]),
    )  # fmt: skip


def _passes_there(facts: Facts) -> Remark | None:
    """Against "already failing": it passes there, and no failure of it there may be this one."""
    target = _target(facts)
    runs = _ended(target)
    if target is None or not runs or not _green(runs[0]):
        return None
    failed = [each for each in runs if not _green(each)]
    if any(facts.same(each) or not (each.error and facts.run.error) for each in failed):
        return None
    return remark(
        name(facts.name), " passes on ", name(target.branch), ": ", pipeline(runs[0]), ", ",
        job(runs[0]),
    )  # fmt: skip


def _once_passed(facts: Facts) -> Remark | None:
    """Against "caused by this change": the same commit has passed."""
    return _passed(facts, passes[0]) if (passes := _passes(facts)) else None


Rule = Callable[[Facts], Remark | None]

PROOFS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.INFRASTRUCTURE, _outside),
    (Verdict.FLAKY, _passed_afterwards),
    (Verdict.FLAKY, _comes_and_goes),
    # Before the pass that came first: if it fails on the target branch by now, something outside
    # has changed since that pass.
    (Verdict.TARGET, _fails_there),
    (Verdict.FLAKY, _passed_before),
)
CONTRADICTIONS: tuple[tuple[Verdict, Rule], ...] = (
    (Verdict.CHANGE, _once_passed),
    (Verdict.FLAKY, _failed_again),
    (Verdict.TARGET, _passes_there),
)


# ------------------------------------------------------------------------------------------- runs


def _attempts(facts: Facts) -> tuple[Run, ...]:
    return facts.attempts if isinstance(facts.attempts, tuple) else ()


def _passes(facts: Facts) -> list[Run]:
    return [each for each in _attempts(facts) if _green(each)]


def _target(facts: Facts) -> Target | None:
    return facts.target if isinstance(facts.target, Target) else None


def _ended(target: Target | None) -> list[Run]:
    """The runs that passed or failed, newest first."""
    return [each for each in target.runs if each.status in ("success", "failed")] if target else []


def _green(run: Run) -> bool:
    return run.status == "success"


# ---------------------------------------------------------------------------------------- as JSON

_MOST = 40
"""Sentences, and jobs, of a ruling that was stored."""


def out(ruling: Ruling) -> dict[str, Any]:
    """The ruling as JSON values, for `context.json`."""
    return {
        "name": ruling.name,
        "jobs": list(ruling.jobs),
        "hard": ruling.hard,
        "because": remarks.out(ruling.because),
        "against": [[verdict, remarks.out(why)] for verdict, why in ruling.against],
        "record": [remarks.out(each) for each in ruling.record],
    }


def load(fields: Mapping[str, Any]) -> Ruling:
    """The ruling of `out`. Raises KeyError, TypeError or ValueError for anything else."""
    return Ruling(
        name=str(fields["name"])[: remarks.MAX_NAME],
        jobs=tuple(map(int, fields["jobs"][:_MOST])),
        hard=Verdict(fields["hard"]) if fields["hard"] else None,
        because=remarks.load(fields["because"]),
        against=tuple(
            (Verdict(verdict), remarks.load(why)) for verdict, why in fields["against"][:_MOST]
        ),
        record=tuple(map(remarks.load, fields["record"][:_MOST])),
    )
