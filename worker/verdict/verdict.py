"""The verdict on a failure: what GitLab's record proves, and what the model has to decide. Pure.

A rule (`proofs`) reads the facts about the failing jobs that have one error and returns the
sentence that proves its verdict, or None. The first of `_PROOFS` that returns one decides, and no
model overrules it. A rule of `_REFUTATIONS` returns a sentence that rules one verdict out: a model
that gives it anyway is not believed, and the verdict becomes unknown. One of `_CONTRADICTIONS` only
speaks against a verdict. What the record neither proves nor rules out, the model decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from worker.verdict.facts import (
    MOST_INSTALLED,
    CommitRange,
    Facts,
    Installed,
    sort_newest_first,
)
from worker.verdict.proofs import (
    contradict_flaky,
    contradict_infrastructure,
    find_pass_on_target,
    prove_flaky_here,
    prove_flaky_there,
    prove_infrastructure,
    prove_preexisting,
    refute_change,
    refute_flaky,
    refute_infrastructure,
)
from worker.verdict.remarks import (
    MAX_NAME,
    Link,
    Name,
    Remark,
    job,
    name,
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


CLAIMS = frozenset({Verdict.CHANGE, Verdict.TARGET, Verdict.FLAKY, Verdict.INFRASTRUCTURE})
"""The verdicts that say something, and so need evidence."""

ORDER = (
    Verdict.CHANGE,
    Verdict.UNKNOWN,
    Verdict.ABSTAIN,
    Verdict.TARGET,
    Verdict.INFRASTRUCTURE,
    Verdict.FLAKY,
)
"""Of several verdicts, the one that comes first is the headline: it asks most of the reader."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the record says of failing jobs with one error."""

    name: str
    jobs: tuple[int, ...]
    """The ids of the jobs, the representative's first."""
    hard: Verdict | None
    """The verdict that the record proves, if any."""
    because: Remark
    """What proves it."""
    contradictions: tuple[tuple[Verdict, Remark], ...]
    """The verdicts that the record contradicts, with the reasons; a refutation comes first."""
    record: tuple[Remark, ...] = ()
    """Everything else that is known, or why it is not."""
    origin: Remark = ()
    """The newest run on the target branch with some of the same errors."""
    recovery: Remark = ()
    """Runs that show that the failure comes and goes."""
    ranges: tuple[CommitRange, ...] = ()
    """Between which commits the first of the jobs broke."""
    target_job: int = 0
    """The newest job on the target branch that failed in the same way, 0 if there is none."""
    refuted_verdicts: frozenset[Verdict] = frozenset()
    """Those of the contradicted verdicts that the record rules out."""
    same_as_passed: tuple[Installed, ...] = ()
    """What was installed as in the last pass; nothing if the log may tell of network or host."""
    last_pass: Remark = ()
    """The job's last pass."""
    differs: bool = False
    """Whether something else is installed than there."""

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


# ----------------------------------------------------------------------------------- from the facts

_Rule = Callable[[Facts], Remark | None]

_PROOFS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.INFRASTRUCTURE, prove_infrastructure),
    (Verdict.FLAKY, prove_flaky_here),
    (Verdict.FLAKY, prove_flaky_there),
    (Verdict.TARGET, prove_preexisting),
)
_REFUTATIONS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.FLAKY, refute_flaky),
    (Verdict.TARGET, find_pass_on_target),
    (Verdict.INFRASTRUCTURE, refute_infrastructure),
    (Verdict.CHANGE, refute_change),
)
_CONTRADICTIONS: tuple[tuple[Verdict, _Rule], ...] = (
    (Verdict.FLAKY, contradict_flaky),
    (Verdict.INFRASTRUCTURE, contradict_infrastructure),
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
    refuted: dict[Verdict, Remark] = {}
    for verdict, rule in () if hard else _REFUTATIONS:
        from_outside = verdict in (Verdict.FLAKY, Verdict.INFRASTRUCTURE)
        if (why := _find_objection(rule, facts)) and (
            not from_outside or all(map(rule, facts.rest))
        ):
            refuted[verdict] = why
    objections = [(verdict, _find_objection(rule, facts)) for verdict, rule in _CONTRADICTIONS]
    against = [*refuted.items(), *((verdict, why) for verdict, why in objections if why)]
    order = [verdict for verdict, _ in _REFUTATIONS]
    target = facts.known_target
    failed = sort_newest_first(filter(facts.find_same_errors, target.finished_runs))
    broken = facts.find_range()
    may_be_outside = facts.may_blame_host is not False
    return Ruling(
        name=facts.name,
        jobs=tuple(each.job_id for each in facts.jobs),
        hard=hard,
        because=because,
        contradictions=()
        if hard
        else tuple(sorted(against, key=lambda each: order.index(each[0]))),
        record=tuple(record),
        origin=remark("on ", name(target.branch), ": ", job(failed[0])) if failed else (),
        recovery=_find_recovery(facts) or (because if hard is Verdict.FLAKY else ()),
        ranges=(broken,) if hard is not Verdict.FLAKY and broken else (),
        target_job=next((each.job_id for each in facts.list_steady_failures()), 0),
        refuted_verdicts=frozenset(refuted),
        same_as_passed=() if may_be_outside or not facts.last_pass else facts.last_pass.same,
        last_pass=remark(job(facts.last_pass.run)) if facts.last_pass else (),
        differs=bool(facts.last_pass and facts.last_pass.package_changes),
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


# ---------------------------------------------------------------------------------------- as stored

_MOST_SENTENCES = 40
"""The most sentences, and the most jobs, that are read of a stored ruling."""

_MAX_PARTS, _MAX_URL = 60, 1000
"""The most parts, and the most characters of a URL, that are read of a stored sentence."""


def dump_ruling(ruling: Ruling) -> dict[str, Any]:
    """Return the ruling as JSON values for `context.json`."""
    return {
        "name": ruling.name,
        "jobs": list(ruling.jobs),
        "hard": ruling.hard,
        "because": _dump_remark(ruling.because),
        "against": [[verdict, _dump_remark(why)] for verdict, why in ruling.contradictions],
        "record": [_dump_remark(each) for each in ruling.record],
        "origin": _dump_remark(ruling.origin),
        "recovery": _dump_remark(ruling.recovery),
        "ranges": [[each.old, each.new, each.branch] for each in ruling.ranges],
        "target_job": ruling.target_job,
        "refuted": sorted(ruling.refuted_verdicts),
        "same": [[each.kind, each.name, each.version] for each in ruling.same_as_passed],
        "last_pass": _dump_remark(ruling.last_pass),
        "differs": ruling.differs,
    }


def load_ruling(fields: Mapping[str, Any]) -> Ruling:
    """Read what `dump_ruling` wrote. Raises KeyError, TypeError or ValueError for anything else.

    A ruling of an earlier version refutes nothing but "already failing".
    """
    against = {str(verdict) for verdict, _ in fields["against"][:_MOST_SENTENCES]}
    return Ruling(
        name=str(fields["name"])[:MAX_NAME],
        jobs=tuple(map(int, fields["jobs"][:_MOST_SENTENCES])),
        hard=Verdict(fields["hard"]) if fields["hard"] else None,
        because=_load_remark(fields["because"]),
        contradictions=tuple(
            (Verdict(verdict), _load_remark(why))
            for verdict, why in fields["against"][:_MOST_SENTENCES]
        ),
        record=tuple(map(_load_remark, fields["record"][:_MOST_SENTENCES])),
        origin=_load_remark(fields.get("origin", ())),
        recovery=_load_remark(fields.get("recovery", ())),
        ranges=tuple(
            CommitRange.load(*each) for each in fields.get("ranges", ())[:_MOST_SENTENCES]
        ),
        target_job=max(0, int(fields.get("target_job", 0))),
        refuted_verdicts=frozenset(
            map(Verdict, fields.get("refuted", against & {str(Verdict.TARGET)}))
        ),
        same_as_passed=tuple(
            Installed(*(str(part)[:MAX_NAME] for part in each))
            for each in fields.get("same", ())[:MOST_INSTALLED]
        ),
        last_pass=_load_remark(fields.get("last_pass", ())),
        differs=bool(fields.get("differs", False)),
    )


def _dump_remark(sentence: Remark) -> list[Any]:
    return [
        {"name": part.text}
        if isinstance(part, Name)
        else {"link": part.text, "url": part.url}
        if isinstance(part, Link)
        else part
        for part in sentence
    ]


def _load_remark(parts: Sequence[Any]) -> Remark:
    """Read what `_dump_remark` wrote. Raises KeyError or TypeError for anything else."""
    found: list[str | Name | Link] = []
    for part in parts[:_MAX_PARTS]:
        if isinstance(part, str):
            found.append(part[:MAX_NAME])
        elif "name" in part:
            found.append(name(str(part["name"])))
        else:
            found.append(Link(str(part["link"])[:MAX_NAME], str(part["url"])[:_MAX_URL]))
    return tuple(found)
