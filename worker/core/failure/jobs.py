"""What is known of a failed pipeline before the model is asked: its failing jobs by cause. Pure.

Jobs with the very same errors are one group: one of them stands for all, and only its log needs a
look.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from worker.core.failure import verdict
from worker.core.failure.verdict import Ruling
from worker.core.logs.signature import Signature, signature

EXCERPT = 1024
"""Bytes of one job's log that a survey keeps."""

TOLD = 16 * 1024
"""Bytes of one job's log that its signature is made of."""

MOST_GROUPS = 12
_MOST_NAMED = 24
_MOST_JOBS = 100
_MOST_PATHS = 1000
_LONG = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failing:
    """A job that failed the pipeline.

    `family` is the name that the jobs of one matrix share, `of` how many jobs of the pipeline have
    it. `reason` is GitLab's failure_reason. `external`: it is no job, but what another system has
    reported on the commit; `excerpt` is what that said, `url` its page. `read` says that its log
    was read; `began` that, by its log, its script had begun. `green` is the job whose log is saved
    beside this one's, as that of its last run that passed; 0 if there is none. While a survey is
    made, `end` holds its last lines with their numbers, for the rules, and `told` what its whole
    log says of the failure, for the signature.
    """

    job_id: int
    name: str
    stage: str = ""
    reason: str = ""
    url: str = ""
    family: str = ""
    of: int = 1
    excerpt: str = ""
    read: bool = False
    began: bool = True
    green: int = 0
    external: bool = False
    end: tuple[tuple[int, str], ...] = ()
    told: str = ""

    def without_log(self) -> "Failing":
        """It as it is kept."""
        return replace(self, end=(), told="")


@dataclass(frozen=True, slots=True)
class Ruled:
    """What a rule says. `verdict` is one of `finding.Verdict`; `line` of the log proves it.

    Only one that is `certain` may stand without a model's look.
    """

    rule: str
    verdict: str
    cause: str
    to_do: str
    line: int = 0
    text: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """The same error as it was found before: how often, where, and what came out.

    `others` are merge requests besides this one that have seen it. `same` says that this merge
    request has, on this very commit. `found` is when it was last looked into (epoch seconds), on
    merge request `mr_iid` in the note `url`; `agreed` counts the looks in a row with that verdict.
    `ended` says in words how it was mended the last time, where that is known.
    """

    count: int
    first: float
    last: float
    found: float
    verdict: str
    cause: str
    to_do: str
    url: str
    job_url: str = ""
    mr_iid: int = 0
    others: tuple[int, ...] = ()
    same: bool = False
    agreed: int = 1
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Failing jobs with one cause; the first stands for all.

    `key` is the error's signature, "" if nothing tells. `ruling` is what GitLab's record says of
    them. A broken configuration is a group without jobs.
    """

    key: str
    text: str
    jobs: tuple[Failing, ...]
    ruled: Ruled | None = None
    hit: Hit | None = None
    ruling: Ruling | None = None

    @property
    def facts(self) -> tuple[str, ...]:
        """What GitLab's record says, in lines for the model."""
        return self.ruling.told() if self.ruling else ()

    @property
    def hard(self) -> str:
        """The verdict that the record settles, or ""."""
        return str(self.ruling.hard or "") if self.ruling else ""

    @property
    def external(self) -> bool:
        """Whether another system has reported it: GitLab has no job, log or history of it."""
        return bool(self.jobs) and self.jobs[0].external

    @property
    def failed(self) -> str:
        """The jobs in a few words: `unit-tests (12 of 12 variants)`."""
        return ", ".join(_families(self.jobs)) or "the pipeline's configuration"


@dataclass(frozen=True, slots=True)
class Survey:
    """The groups, the most jobs first. `missing` says what could not be had, and why.

    `others` tells of the pipeline's other jobs: which failed and may, which failed and were
    retried, which passed. `changed` are the paths that the merge request touches, None if they are
    not known. `whole` says that every failing job is in a group and its log was read where it
    matters.
    """

    groups: tuple[Group, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    whole: bool = True
    others: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[Failing, ...]:
        """All failing jobs."""
        return tuple(job for group in self.groups for job in group.jobs)


_STEP = (b'Executing "step_script" stage', b'Executing "build_script" stage', b"\n$ ")
_RUNNER = "Running with gitlab-runner"


def began(lines: Sequence[str], holds: Callable[[bytes], bool]) -> bool:
    """Whether a job's script had begun, by its cleaned log; until then only the runner writes.

    `holds` says whether the log has these bytes. One that does not begin as a runner's may hold
    anything.
    """
    runners = any(_RUNNER in line for line in lines[:20])
    return not runners or any(map(holds, _STEP))


# ---------------------------------------------------------------------------------------- groups


@dataclass(slots=True)
class _Pile:
    signature: Signature
    ruled: Ruled | None
    jobs: list[Failing] = field(default_factory=list)


def grouped(
    jobs: Iterable[Failing], recognise: Callable[[Failing], Ruled | None]
) -> tuple[Group, ...]:
    """The jobs by cause, those whose logs were not read with their family if that has one cause."""
    piles: dict[str, _Pile] = {}
    unread: list[Failing] = []
    for job in jobs:
        if job.external:  # a few words of another system tell no two errors apart
            piles[f"external {job.name}"] = _Pile(Signature(text=job.excerpt), None, [job])
            continue
        ruled = recognise(job)
        if not job.read and not ruled:
            unread.append(job)
            continue
        found = signature((job.told or job.excerpt).split("\n"))
        name = _pile(job, found, ruled)
        piles.setdefault(name, _Pile(found, ruled)).jobs.append(job)
    for job in unread:
        _with_family(piles, job).jobs.append(job)
    made = [
        Group(pile.signature.key, pile.signature.text, tuple(pile.jobs), pile.ruled)
        for pile in piles.values()
    ]
    return tuple(
        sorted(made, key=lambda each: (-len(each.jobs), each.external, each.jobs[0].job_id))
    )


def _pile(job: Failing, found: Signature, ruled: Ruled | None) -> str:
    if ruled and ruled.certain:
        return f"rule {ruled.rule}"
    return found.key or f"{job.reason} {job.family or job.name}"


def _with_family(piles: dict[str, _Pile], job: Failing) -> _Pile:
    alike = [
        pile
        for pile in piles.values()
        if any(each.family == job.family and each.reason == job.reason for each in pile.jobs)
    ]
    if len(alike) == 1:
        return alike[0]
    return piles.setdefault(f"unread {job.reason}", _Pile(Signature(), None))


def _families(jobs: Sequence[Failing]) -> list[str]:
    counted: dict[str, list[Failing]] = {}
    for job in jobs:
        counted.setdefault(job.family or job.name, []).append(job)
    return [
        f"{name} ({len(some)} of {max(some[0].of, len(some))} variants)"
        if len(some) > 1
        else some[0].name
        for name, some in counted.items()
    ]


# -------------------------------------------------------------------------------------- as JSON


def out(survey: Survey) -> dict[str, Any]:
    """The survey as JSON values, for `context.json`; what only the rules need is left out."""
    return {
        "groups": [_group_out(group) for group in survey.groups],
        "missing": list(survey.missing),
        "changed": None if survey.changed is None else list(survey.changed),
        "whole": survey.whole,
        "others": list(survey.others),
    }


def _group_out(group: Group) -> dict[str, Any]:
    jobs = [_fields(job, "end", "told") for job in group.jobs]
    return _fields(group, "jobs", "ruled", "hit", "ruling") | {
        "jobs": jobs,
        "ruled": _fields(group.ruled) if group.ruled else None,
        "hit": _fields(group.hit) | {"others": list(group.hit.others)} if group.hit else None,
        "ruling": verdict.out(group.ruling) if group.ruling else None,
    }


def _fields(value: Any, *without: str) -> dict[str, Any]:
    names = value.__dataclass_fields__
    return {name: getattr(value, name) for name in names if name not in without}


def load(fields: Mapping[str, Any]) -> Survey:
    """The survey of `out`. Raises KeyError, TypeError or ValueError for anything else."""
    changed = fields["changed"]
    return Survey(
        groups=tuple(_group_in(group) for group in fields["groups"][: 4 * MOST_GROUPS]),
        missing=tuple(str(each)[:_LONG] for each in fields["missing"][:_MOST_NAMED]),
        changed=None if changed is None else tuple(map(str, changed[:_MOST_PATHS])),
        whole=bool(fields["whole"]),
        others=tuple(str(each)[: 3 * _LONG] for each in fields.get("others", ())[:_MOST_NAMED]),
    )


def _group_in(fields: Mapping[str, Any]) -> Group:
    ruled, hit = fields["ruled"], fields["hit"]
    return Group(
        key=str(fields["key"]),
        text=str(fields["text"])[:_LONG],
        jobs=tuple(_typed(Failing, job) for job in fields["jobs"][:_MOST_JOBS]),
        ruled=_typed(Ruled, ruled) if ruled else None,
        hit=_typed(Hit, {**hit, "others": tuple(map(int, hit["others"]))}) if hit else None,
        ruling=verdict.load(fields["ruling"]) if fields["ruling"] else None,
    )


_PLAIN: Mapping[str, type | tuple[type, ...]] = {
    "int": int,
    "str": str,
    "bool": bool,
    "float": (int, float),
}


def _typed(made: type[T], fields: Mapping[str, Any]) -> T:
    """A flat dataclass of stored fields, each of its declared type."""
    for name, about in made.__dataclass_fields__.items():  # type: ignore[attr-defined]
        wanted = _PLAIN.get(getattr(about.type, "__name__", str(about.type)))
        if wanted and name in fields and not isinstance(fields[name], wanted):
            raise TypeError(f"{name} of a {made.__name__} is {fields[name]!r}")
    return made(**fields)
