"""The verdict on a failure: what verdicts are called, the advice where the record proves one
(`proofs`), and what is left for the model to decide. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from worker.verdict.facts import (
    MOST_INSTALLED,
    CommitRange,
    Installed,
)
from worker.verdict.remarks import (
    MAX_NAME,
    Link,
    Name,
    Remark,
    name,
    plain,
)


class Verdict(StrEnum):
    """What caused the failure. ABSTAIN says that there is not enough evidence to tell."""

    CHANGE = "caused by this change"
    TARGET = "already failing on the target branch"
    FLAKY = "flaky"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"
    ABSTAIN = "not enough evidence"


HEADLINES = {
    Verdict.CHANGE: "Caused by this change",
    Verdict.TARGET: "Already failing on the target branch",
    Verdict.FLAKY: "Flaky: not caused by this change",
    Verdict.INFRASTRUCTURE: "Infrastructure: not caused by this change",
    Verdict.UNKNOWN: "Not clear whether this change is the cause",
    Verdict.ABSTAIN: "Not enough evidence to say",
}
"""How a note says it, in its headline."""

NAMES = {
    Verdict.CHANGE: "Caused by this change",
    Verdict.TARGET: "Already failing on the target branch",
    Verdict.FLAKY: "Flaky",
    Verdict.INFRASTRUCTURE: "Infrastructure",
    Verdict.UNKNOWN: "Not clear",
    Verdict.ABSTAIN: "Not enough evidence",
}
"""The same in short, on pages."""

BRANCH_HEADLINES = HEADLINES | {
    Verdict.CHANGE: "Caused by what landed",
    Verdict.TARGET: "Red before that landed",
    Verdict.FLAKY: "Flaky: not caused by what landed",
    Verdict.INFRASTRUCTURE: "Infrastructure: not caused by what landed",
    Verdict.UNKNOWN: "Not clear whether what landed is the cause",
}
BRANCH_NAMES = NAMES | {
    Verdict.CHANGE: "Caused by what landed",
    Verdict.TARGET: "Red before that landed",
}
"""The two for the pipeline of a branch: there, what landed after its last pass is the change."""

ADVICE = {
    Verdict.FLAKY: "Retry the job.",
    Verdict.INFRASTRUCTURE: "Retry the job; if it goes on, tell whoever keeps the runners.",
    Verdict.TARGET: "Have it mended on the target branch, then rebase.",
}
"""The advice where GitLab's record proves another verdict than the model's, whose own advice may be
the opposite."""

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
    is_apart: bool = False
    """Whether the whole change is known, and touches nothing that the error names, nor how jobs
    run."""

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
        "is_apart": ruling.is_apart,
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
        is_apart=bool(fields.get("is_apart", False)),
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
