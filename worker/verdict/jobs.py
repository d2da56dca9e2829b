"""What is known of a failed pipeline before the model is asked: its failing jobs by cause, grouped
by `grouping`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.stored_keys import KEY, from_stored, to_stored
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
    """A job that failed the pipeline.

    `family` is the name that the jobs of one matrix share, `family_size` how many jobs of the
    pipeline have it. `reason` is GitLab's failure_reason. `external`: it is not a job but a status
    that another system reported on the commit; `excerpt` is what that system said, `url` its page.
    `read` says that the log was read, `began` that it shows the script running. `green` is the id
    of the job's last run that passed, whose log is saved with this one's; 0 if there is none.
    `kept_bytes` is the size of the archive of its artifacts, 0 if there is none or its size is not
    known. Five fields are only set while a survey is made: `end` holds the log's last lines with
    their numbers, for the rules; `error_text` the lines about the failure that the command which
    ended the job has written, for the signature, `command` its name and `exit_code` its exit code,
    0 if it is not known; `has_started` says that a runner took the job. Not stored either are
    `preview`, which shows the model more of the log than `excerpt` does, `tags`, which select the
    job's runners, `runner`, the name of the one that took it, and `runners`, what GitLab says of
    those that might.
    """

    job_id: int
    name: str
    stage: str = ""
    reason: str = ""
    url: str = ""
    family: str = ""
    family_size: int = field(default=1, metadata={KEY: "of"})
    excerpt: str = ""
    read: bool = False
    began: bool = True
    green: int = 0
    external: bool = False
    kept_bytes: int = 0
    end: tuple[tuple[int, str], ...] = ()
    error_text: str = ""
    command: str = ""
    exit_code: int = 0
    preview: str = ""
    has_started: bool = True
    tags: tuple[str, ...] = field(default=(), compare=False)
    runner: str = field(default="", compare=False)
    runners: str = field(default="", compare=False)

    def without_log(self) -> "FailingJob":
        """Return the job without the fields that are not stored."""
        return replace(self, end=(), error_text="", command="", exit_code=0, has_started=True)


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What a rule says. `verdict` is one of `finding.Verdict`; `line` of the log proves it.

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
    """Earlier sightings of the same error: how many, where, and what was found.

    `others` are the other merge requests that have seen it. `same` says that this merge request
    has seen it, on this very commit. `found_at` is when it was last investigated (epoch seconds),
    on merge request `mr_iid` in the note `url`; `agreements` counts the investigations in a row
    with that verdict. `resolution` says in words how it was last resolved, if that is known.
    """

    count: int
    first: float
    last: float
    found_at: float = field(metadata={KEY: "found"})
    verdict: str
    cause: str
    to_do: str
    url: str
    job_url: str = ""
    mr_iid: int = 0
    others: tuple[int, ...] = ()
    same: bool = False
    agreements: int = field(default=1, metadata={KEY: "agreed"})
    resolution: str = field(default="", metadata={KEY: "ended"})


@dataclass(frozen=True, slots=True)
class Group:
    """Failing jobs with one cause; the first job represents the group.

    `key` is that of the failure, by which it is remembered: of the error, and of the command that
    ended each of the jobs; "" if no line shows an error. `text` is the error, `others` are
    what else failed. `ruling` is what GitLab's record says of the jobs. A broken configuration is a
    group without jobs.
    """

    key: str
    text: str
    jobs: tuple[FailingJob, ...]
    rule_match: RuleMatch | None = None
    hit: Hit | None = None
    ruling: Ruling | None = None
    others: tuple[str, ...] = ()

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
        """The jobs in a few words, such as `unit-tests (12 of 12 variants)`."""
        return ", ".join(_name_families(self.jobs)) or "the pipeline's configuration"


@dataclass(frozen=True, slots=True)
class Survey:
    """The groups, those with the most jobs first. `gaps` says what could not be found out, and why.

    `others` tells of the pipeline's other jobs: which failed but are allowed to, which failed and
    were retried, which passed. `changed_paths` are the paths that the merge request changes, None
    if they are not known. `whole` says that every failing job is in a group and its log was read
    where it matters. `diff_preview` shows the merge request's diff to the model, all of it if
    `is_diff_whole`; `leads` are known errors that resemble the unexplained ones. These three are
    not stored.
    """

    groups: tuple[Group, ...] = ()
    gaps: tuple[str, ...] = ()
    changed_paths: tuple[str, ...] | None = None
    whole: bool = True
    others: tuple[str, ...] = ()
    diff_preview: str = ""
    is_diff_whole: bool = False
    leads: tuple[Hit, ...] = ()

    @property
    def jobs(self) -> tuple[FailingJob, ...]:
        """All failing jobs."""
        return tuple(job for group in self.groups for job in group.jobs)


def _name_families(jobs: Sequence[FailingJob]) -> list[str]:
    counted: dict[str, list[FailingJob]] = {}
    for job in jobs:
        counted.setdefault(job.family or job.name, []).append(job)
    return [
        f"{name} ({len(some)} of {max(some[0].family_size, len(some))} variants)"
        if len(some) > 1
        else some[0].name
        for name, some in counted.items()
    ]


# -------------------------------------------------------------------------------------- as JSON


def dump_survey(survey: Survey) -> dict[str, Any]:
    """Return the survey as JSON values for `context.json`, without what only the rules need."""
    return {
        "groups": [_dump_group(group) for group in survey.groups],
        "missing": list(survey.gaps),
        "changed": None if survey.changed_paths is None else list(survey.changed_paths),
        "whole": survey.whole,
        "others": list(survey.others),
    }


_UNSTORED = (
    "end",
    "error_text",
    "command",
    "exit_code",
    "preview",
    "has_started",
    "tags",
    "runner",
    "runners",
)


def _dump_group(group: Group) -> dict[str, Any]:
    jobs = [to_stored(job, *_UNSTORED) for job in group.jobs]
    return to_stored(group, "jobs", "rule_match", "hit", "ruling", "others") | {
        "jobs": jobs,
        "others": list(group.others[:_MOST_NAMED]),
        "ruled": to_stored(group.rule_match) if group.rule_match else None,
        "hit": to_stored(group.hit) | {"others": list(group.hit.others)} if group.hit else None,
        "ruling": dump_ruling(group.ruling) if group.ruling else None,
    }


def load_survey(fields: Mapping[str, Any]) -> Survey:
    """Read what `dump_survey` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    changed = fields["changed"]
    return Survey(
        groups=tuple(_load_group(group) for group in fields["groups"][: 4 * MOST_GROUPS]),
        gaps=tuple(str(each)[:_LONG] for each in fields["missing"][:_MOST_NAMED]),
        changed_paths=None if changed is None else tuple(map(str, changed[:_MOST_PATHS])),
        whole=bool(fields["whole"]),
        others=tuple(str(each)[: 3 * _LONG] for each in fields.get("others", ())[:_MOST_NAMED]),
    )


def _load_group(fields: Mapping[str, Any]) -> Group:
    ruled, hit = fields["ruled"], fields["hit"]
    return Group(
        key=str(fields["key"]),
        text=str(fields["text"])[:_LONG],
        jobs=tuple(from_stored(FailingJob, job) for job in fields["jobs"][:_MOST_JOBS]),
        rule_match=from_stored(RuleMatch, ruled) if ruled else None,
        hit=from_stored(Hit, {**hit, "others": tuple(map(int, hit["others"]))}) if hit else None,
        ruling=load_ruling(fields["ruling"]) if fields["ruling"] else None,
        others=tuple(str(each)[:_LONG] for each in fields.get("others", ())[:_MOST_NAMED]),
    )
