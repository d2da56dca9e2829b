"""What is known of a failed pipeline before the model is asked: its failing jobs by cause, grouped
by `grouping`. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.stored_keys import KEY, UNSTORED, from_stored, to_stored
from worker.verdict.verdict import Ruling, dump_ruling, load_ruling

EXCERPT = 1024
"""The most bytes of one job's log that a survey keeps."""

TOLD = 16 * 1024
"""The most bytes of one job's log from which its signature is made."""

MOST_GROUPS = 12
_MOST_NAMED = 24
_MOST_JOBS = 100
_MOST_PATHS = 1000
_LONG = 1000


@dataclass(frozen=True, slots=True)
class FailingJob:
    """A job that failed the pipeline."""

    job_id: int
    name: str
    stage: str = ""
    reason: str = ""
    """GitLab's failure_reason."""
    url: str = ""
    family: str = ""
    """The name that the jobs of one matrix share."""
    family_size: int = field(default=1, metadata={KEY: "of"})
    """How many jobs of the pipeline have it."""
    excerpt: str = ""
    read: bool = False
    """Whether the log was read."""
    began: bool = True
    """Whether the log shows the script running."""
    green: int = 0
    """The job's last run that passed, whose log is saved with this one's; 0 if there is none."""
    external: bool = False
    """It is no job but a status that another system reported on the commit: `excerpt` is what that
    system said, `url` its page."""
    kept_bytes: int = 0
    """The size of the archive of its artifacts, 0 without one or if that is not known."""

    # Of use while a survey is made.
    end: tuple[tuple[int, str], ...] = field(default=(), metadata={UNSTORED: True})
    """The log's last lines with their numbers, for the rules."""
    error_text: str = field(default="", metadata={UNSTORED: True})
    """For the signature: what the command that ended the job wrote about the failure."""
    command: str = field(default="", metadata={UNSTORED: True})
    """That command's name."""
    exit_code: int = field(default=0, metadata={UNSTORED: True})
    """Its exit code, 0 if it is not known."""
    errors: tuple[tuple[str, str], ...] = field(default=(), metadata={UNSTORED: True})
    """Every decisive error of its log, by key (`JobEnd.errors`)."""
    started_by: str = field(default="", metadata={UNSTORED: True})
    """The trigger jobs that have started its pipeline, "" for a job of the pipeline itself."""
    preview: str = field(default="", metadata={UNSTORED: True})
    """Shows the model more of the log than `excerpt` does."""
    has_started: bool = field(default=True, metadata={UNSTORED: True})
    """Whether a runner took the job."""
    tags: tuple[str, ...] = field(default=(), compare=False, metadata={UNSTORED: True})
    """They select the job's runners."""
    runner: str = field(default="", compare=False, metadata={UNSTORED: True})
    """The name of the runner that took it."""
    runners: str = field(default="", compare=False, metadata={UNSTORED: True})
    """What GitLab says of those that might."""

    @property
    def full_name(self) -> str:
        """Its name after that of the trigger jobs, as GitLab's `JobEnd`s have it."""
        return f"{self.started_by} > {self.name}" if self.started_by else self.name

    def without_log(self) -> "FailingJob":
        """Return the job without what only the rules and the signature need of its log."""
        return replace(
            self, end=(), error_text="", command="", exit_code=0, errors=(), has_started=True
        )


def split_families(jobs: Iterable[FailingJob]) -> list[list[FailingJob]]:
    """Return the jobs of each matrix together, in the order of their first ones."""
    families: dict[str, list[FailingJob]] = {}
    for job in jobs:
        families.setdefault(job.family or job.name, []).append(job)
    return list(families.values())


def describe_family(family: Sequence[FailingJob]) -> tuple[str, str]:
    """Return the name of a matrix and how many of its jobs failed, such as `12 of 12 variants`; of
    one job its own name and ""."""
    first, failed = family[0], len(family)
    if failed == 1:
        return first.name, ""
    return first.family or first.name, f"{failed} of {max(first.family_size, failed)} variants"


def name_jobs(jobs: Iterable[FailingJob]) -> str:
    """Return the jobs in a few words, such as `unit-tests (12 of 12 variants)`; without any, what
    else has failed."""
    names = [
        f"{name} ({count})" if count else name
        for name, count in map(describe_family, split_families(jobs))
    ]
    return ", ".join(names) or "the pipeline's configuration"


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What a rule says. `verdict` is the value of a Verdict; `line` of the log proves it.

    Only a `certain` match may be used without asking the model.
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
    """Earlier sightings of the same error: how many, where, and what was found."""

    count: int
    first: float
    last: float
    found_at: float = field(metadata={KEY: "found"})
    """When it was last investigated (epoch seconds)."""
    verdict: str
    cause: str
    to_do: str
    url: str
    """The note of that investigation."""
    job_url: str = ""
    mr_iid: int = 0
    """The merge request of that note."""
    others: tuple[int, ...] = ()
    """The other merge requests that have seen it."""
    same: bool = False
    """Whether this merge request has seen it, on this very commit."""
    agreements: int = field(default=1, metadata={KEY: "agreed"})
    """How many investigations in a row gave this verdict."""
    resolution: str = field(default="", metadata={KEY: "ended"})
    """How it was last resolved, in words, if that is known."""


@dataclass(frozen=True, slots=True)
class Group:
    """Failing jobs with one cause. A broken configuration is a group without jobs."""

    key: str
    """By which the failure is remembered: of the error, and of the command that ended each of the
    jobs; "" if no line shows an error."""
    text: str
    """The error."""
    jobs: tuple[FailingJob, ...]
    """The first one represents the group."""
    rule_match: RuleMatch | None = None
    hit: Hit | None = None
    ruling: Ruling | None = None
    """What GitLab's record says of the jobs."""
    others: tuple[str, ...] = ()
    """What else failed."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What GitLab's record says, as lines for the model."""
        return self.ruling.describe() if self.ruling else ()

    @property
    def hard_verdict(self) -> str:
        """The verdict that the record proves, or ""."""
        return str(self.ruling.hard or "") if self.ruling else ""

    def contradicts(self, verdict: str) -> bool:
        """Whether GitLab's record proves another verdict than this one, or speaks against it."""
        ruling = self.ruling
        return ruling is not None and (
            ruling.hard not in (None, verdict) or verdict in dict(ruling.contradictions)
        )

    @property
    def external(self) -> bool:
        """Whether another system reported the failure: GitLab has no job, log or history of it."""
        return bool(self.jobs) and self.jobs[0].external

    @property
    def job_names(self) -> str:
        """The jobs in a few words: see `name_jobs`."""
        return name_jobs(self.jobs)


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a failed pipeline before the model is asked."""

    groups: tuple[Group, ...] = ()
    """Those with the most jobs first."""
    gaps: tuple[str, ...] = ()
    """What could not be found out, and why."""
    changed_paths: tuple[str, ...] | None = None
    """The paths that the merge request changes, None if they are not known."""
    whole: bool = True
    """Whether every failing job is in a group and its log was read where it matters."""
    others: tuple[str, ...] = ()
    """The pipeline's other jobs: which failed but may, which were retried, which passed."""
    diff_preview: str = ""
    """The merge request's diff as the model is shown it. Not stored, like what follows."""
    is_diff_whole: bool = False
    """Whether the preview is all of it."""
    leads: tuple[Hit, ...] = ()
    """Known errors that resemble the unexplained ones."""
    branch: str = ""
    """The target branch, if it is watched."""
    is_explained: bool = False
    """Whether incidents of the target branch explain all that failed: nothing else was read."""
    branch_lines: str = ""
    """What the note says of these incidents, as Markdown; "" if none explains anything."""
    incidents: tuple[str, ...] = ()
    """Their ids."""
    is_train: bool = False
    """Whether it is the pipeline of a merge train, of which GitLab retries nothing."""

    @property
    def jobs(self) -> tuple[FailingJob, ...]:
        """All failing jobs."""
        return tuple(job for group in self.groups for job in group.jobs)


# -------------------------------------------------------------------------------------- as JSON


def dump_survey(survey: Survey) -> dict[str, Any]:
    """Return the survey as JSON values for `context.json`, without what only the rules need."""
    return {
        "groups": [
            to_stored(group, "jobs", "rule_match", "hit", "ruling", "others")
            | {
                "jobs": [to_stored(job) for job in group.jobs],
                "others": list(group.others[:_MOST_NAMED]),
                "ruled": to_stored(group.rule_match) if group.rule_match else None,
                "hit": to_stored(group.hit) if group.hit else None,
                "ruling": dump_ruling(group.ruling) if group.ruling else None,
            }
            for group in survey.groups
        ],
        "missing": list(survey.gaps),
        "changed": None if survey.changed_paths is None else list(survey.changed_paths),
        "whole": survey.whole,
        "others": list(survey.others),
        "branch": survey.branch,
        "is_explained": survey.is_explained,
        "branch_lines": survey.branch_lines,
        "incidents": list(survey.incidents),
        "is_train": survey.is_train,
    }


def load_survey(fields: Mapping[str, Any]) -> Survey:
    """Read what `dump_survey` wrote. Raises AttributeError, KeyError, TypeError or ValueError for
    anything else."""
    changed = fields["changed"]
    return Survey(
        groups=tuple(_load_group(group) for group in fields["groups"][: 4 * MOST_GROUPS]),
        gaps=tuple(str(each)[:_LONG] for each in fields["missing"][:_MOST_NAMED]),
        changed_paths=None if changed is None else tuple(map(str, changed[:_MOST_PATHS])),
        whole=bool(fields["whole"]),
        others=tuple(str(each)[: 3 * _LONG] for each in fields.get("others", ())[:_MOST_NAMED]),
        branch=str(fields.get("branch", ""))[:_LONG],
        is_explained=bool(fields.get("is_explained", False)),
        branch_lines=str(fields.get("branch_lines", ""))[: 4 * _LONG],
        incidents=tuple(map(str, fields.get("incidents", ())[:_MOST_NAMED])),
        is_train=bool(fields.get("is_train", False)),
    )


def _load_group(fields: Mapping[str, Any]) -> Group:
    ruled, hit = fields["ruled"], fields["hit"]
    return Group(
        key=str(fields["key"]),
        text=str(fields["text"])[:_LONG],
        jobs=tuple(from_stored(FailingJob, job) for job in fields["jobs"][:_MOST_JOBS]),
        rule_match=from_stored(RuleMatch, ruled) if ruled else None,
        hit=from_stored(Hit, hit) if hit else None,
        ruling=load_ruling(fields["ruling"]) if fields["ruling"] else None,
        others=tuple(str(each)[:_LONG] for each in fields.get("others", ())[:_MOST_NAMED]),
    )
