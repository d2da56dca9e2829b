"""Compares a failure with the one that was looked at before on the same commit. Pure."""

from collections.abc import Iterator
from enum import Enum, auto

from worker.verdict.gitlab_reasons import BY_ITSELF
from worker.verdict.jobs import FailingJob, Group, Survey


class Difference(Enum):
    """What a failure is beside the one that was looked at before."""

    NONE = auto()
    """The very same runs of the same jobs: nothing was run again."""

    SAME_WAY = auto()
    """The same jobs, run again, with the same errors."""

    OTHER = auto()
    """Other jobs, or other errors; also if that cannot be told."""


def compare_failures(before: Survey | None, now: Survey, *, same_pipeline: bool) -> Difference:
    """Return how the failure `now` differs from the one `before`."""
    if before is None or not before.groups or not now.groups:
        return Difference.OTHER
    if same_pipeline and _list_runs(before) == _list_runs(now):
        return Difference.NONE
    ours, theirs = (sorted(_list_errors(survey)) for survey in (before, now))
    known = all(error for *_, error in ours)
    return Difference.SAME_WAY if known and ours == theirs else Difference.OTHER


def _list_runs(survey: Survey) -> set[tuple[int, str]]:
    return {(job.job_id, "" if job.job_id else job.name) for job in survey.jobs}


def _list_errors(survey: Survey) -> Iterator[tuple[str, str, str]]:
    """Yield each failing job with GitLab's reason and its decisive error, "" if none is known."""
    for group in survey.groups:
        for job in group.jobs:
            yield job.name, job.reason, _name_error(group, job)
        if not group.jobs:  # the pipeline's configuration
            yield "", "", group.text


def _name_error(group: Group, job: FailingJob) -> str:
    """Return what tells the error of a job from others; "" if only its end is known.

    That a job failed outside its script is an error by itself where GitLab says how, and so are a
    rule's name and the words of another system.
    """
    if job.external:
        return job.excerpt
    if group.key:
        return group.key
    rule = group.rule_match.rule if group.rule_match else ""
    return rule or (job.reason if job.reason not in BY_ITSELF else "")
