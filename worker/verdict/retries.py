"""Which failed jobs are run again because the record proves that they may pass as they are. Pure.

A retry that should not have been is worse than one that was left out: a doubt is a no.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from worker.stored_keys import from_stored, pick_known, to_stored
from worker.verdict.facts import BY_ITSELF, LOST, TIME_LIMITS
from worker.verdict.jobs import FailingJob, Group, Survey
from worker.verdict.verdict import Verdict

MOST_JOBS = 5
"""The most jobs of one pipeline that are run again: where more fail, it is not a flake."""

_GOES_AWAY = LOST | {
    "api_failure",
    "image_pull_failure",
    "runner_external_dependency_failure",
    "runner_interrupted",
    "runner_system_failure",
    "scheduler_failure",
}
"""GitLab's reasons of trouble around a job that may be over in the next run. A runner that is not
there, or a quota that is used up, is not."""

_STRICT = re.compile(
    r"(?<![a-z])(?:"
    r"(?:un|re|pre)?deploy\w*|release\w*|publish\w*|promot\w+|roll-?(?:out|back)\w*|prod|production"
    r"|staging|canary|pages|review-app\w*|stop-review|environment|destroy|provision\w*|terraform"
    r"|tofu|pulumi|ansible|helm|kubectl|argo(?:cd)?|apply|infra|push|upload|sign\w*|notari[sz]\w*"
    r"|tag|version-bump|changelog|notify|announce|mirror|sync|"
    r"migrat\w+|backfill|seed\w*|schema|database|db|data|dump|restore|backup|import|export|etl"
    r"|security|sast|dast|iast|secrets?|secret-detection|fuzz\w*|pentest|vuln\w*|licen[cs]es?|sbom"
    r"|compliance|audit|(?:container|dependency|image|code|iac)-scan\w*|scan\w*|trivy|snyk|codeql"
    r"|gitleaks|semgrep|grype|checkov|billing|payment\w*|load-?tests?|stress|chaos"
    r")(?![a-z])"
)
"""A name or a stage of a job whose second run may do more than the first, or whose failure is to be
read by a person: what deploys, releases, changes data, or guards security."""


def choose_retries(
    survey: Survey, verdict: str, allowed: Collection[Verdict]
) -> tuple[FailingJob, ...] | str:
    """Return the failed jobs to run again, or why none of them is.

    The record has to prove the note's `verdict`, one of those `allowed`, for every failing job:
    while one of them needs a commit, the others run again with it.
    """
    groups, jobs = survey.groups, survey.jobs
    if survey.is_explained or survey.branch_lines or survey.incidents:
        return "the target branch explains something of it"
    if survey.is_train:
        return "it ran in a merge train"
    if not groups or not jobs or not survey.whole:
        return "not everything that failed is known"
    if len(jobs) > MOST_JOBS:
        return f"{len(jobs)} jobs failed"
    for group in groups:
        if reason := _explain_no_proof(group, verdict, allowed):
            return f"{group.job_names}: {reason}"
    for job in jobs:
        if reason := _explain_no_retry(job):
            return f"{job.name}: {reason}"
    return jobs


def _explain_no_proof(group: Group, verdict: str, allowed: Collection[Verdict]) -> str:
    ruling = group.ruling
    if ruling is None or ruling.hard is None or group.external:
        return "the record proves nothing"
    if ruling.hard != verdict or ruling.hard not in allowed:
        return f'"{ruling.hard}" is not run again'
    if {job.job_id for job in group.jobs} - set(ruling.jobs):
        return "the record does not prove it of each job"
    if not ruling.is_apart:
        return "the change touches what failed, or that is not known"
    if ruling.hard is Verdict.INFRASTRUCTURE:
        lasting = sorted({job.reason for job in group.jobs} - _GOES_AWAY)
        return f"{lasting[0] or 'its own failure'} does not go away by itself" if lasting else ""
    reasons = {job.reason for job in group.jobs}
    return "" if reasons <= BY_ITSELF - TIME_LIMITS else "its script has not failed by itself"


def _explain_no_retry(job: FailingJob) -> str:
    if not job.job_id or job.started_by:
        return "it is not a job of the pipeline itself"
    if word := find_strict_word(job.name) or find_strict_word(job.stage):
        return f"{word!r} in its name or stage"
    return ""


def find_strict_word(name: str) -> str:
    """Return the word of a job's name or stage because of which it is not run again, "" if it has
    none."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name)
    found = _STRICT.search(re.sub(r"[\s_:/.]+", "-", plain).lower())
    return found[0] if found else ""


# --------------------------------------------------------------------------- what was run again

MOST_KEPT = 2000
"""The most jobs of one project that are remembered: the newest."""


@dataclass(frozen=True, slots=True)
class RetriedJob:
    """A job that the bot has run again, or is about to."""

    sha: str
    job: str
    """Its name."""
    job_id: int
    mr_iid: int
    session_id: str
    verdict: str
    claimed_at: float
    """Epoch seconds."""
    new_job: int = 0
    """The job that came of it, 0 if it is not known that GitLab has made one."""
    has_passed: bool | None = None
    """Whether the pipeline passed then; None while it is not known, or if it failed otherwise."""


@dataclass(frozen=True, slots=True)
class ProjectRetries:
    """The jobs of a project that the bot has run again, the oldest first."""

    project_id: int
    project: str
    """Its path, for people to read."""
    jobs: tuple[RetriedJob, ...] = ()

    def claim(self, wanted: RetriedJob, since: float, most: int) -> "ProjectRetries | str":
        """Return the record with a job that is about to run again, or why it must not: it was run
        again at its commit before, or `most` jobs were `since` a time. 0 stands for no limit."""
        if any((each.sha, each.job) == (wanted.sha, wanted.job) for each in self.jobs):
            return "it was run again at this commit before"
        if most and sum(each.claimed_at >= since for each in self.jobs) >= most:
            return f"{most} jobs of the project were run again today (limits.retries_per_day)"
        return replace(self, jobs=(*self.jobs, wanted)[-MOST_KEPT:])

    def start(self, job_id: int, new_job: int) -> "ProjectRetries":
        """Return the record in which GitLab has made a new job of a claimed one."""
        return self._replace(
            replace(each, new_job=new_job) if each.job_id == job_id else each for each in self.jobs
        )

    def drop(self, job_id: int) -> "ProjectRetries":
        """Return the record without a claimed job that has surely not run again."""
        return self._replace(each for each in self.jobs if each.job_id != job_id)

    def list_open(self, session_id: str, sha: str) -> tuple[RetriedJob, ...]:
        """Return the jobs that were run again for a session's commit and have not ended yet."""
        return tuple(
            each
            for each in self.jobs
            if (each.session_id, each.sha) == (session_id, sha)
            and each.new_job
            and each.has_passed is None
        )

    def end(self, session_id: str, sha: str, *, passed: bool) -> "ProjectRetries":
        """Return the record in which these have ended."""
        ended = self.list_open(session_id, sha)
        return self._replace(
            replace(each, has_passed=passed) if each in ended else each for each in self.jobs
        )

    def keep_since(self, before: float) -> "ProjectRetries":
        """Return the record without the jobs that were claimed before then."""
        return self._replace(each for each in self.jobs if each.claimed_at >= before)

    def forget(self, mr_iid: int) -> "ProjectRetries":
        """Return the record without the jobs of a merge request."""
        return self._replace(each for each in self.jobs if each.mr_iid != mr_iid)

    def _replace(self, jobs: Iterable[RetriedJob]) -> "ProjectRetries":
        return replace(self, jobs=tuple(jobs))


def dump_retries(record: ProjectRetries) -> bytes:
    """Return the record as JSON."""
    fields = to_stored(record, "jobs") | {"jobs": [to_stored(each) for each in record.jobs]}
    return json.dumps(fields).encode()


def load_retries(data: bytes) -> ProjectRetries:
    """Read the bytes of `dump_retries`, ignoring fields of later versions. Raises ValueError."""
    try:
        fields = pick_known(ProjectRetries, json.loads(data))
        found = (pick_known(RetriedJob, each) for each in fields.pop("jobs"))
        jobs = tuple(from_stored(RetriedJob, each) for each in found)
        return replace(from_stored(ProjectRetries, fields), jobs=jobs)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not a record of what was run again: {error!r}") from error


@dataclass(frozen=True, slots=True)
class RetrySum:
    """How many jobs were run again, and what came of them."""

    count: int = 0
    passed_count: int = 0
    failed_count: int = 0
    """Those that failed again in the same way."""


def sum_retries(projects: Iterable[ProjectRetries], since: float) -> RetrySum:
    """Count the jobs that were run again `since` a time (epoch seconds)."""
    came = [
        each.has_passed
        for project in projects
        for each in project.jobs
        if each.new_job and each.claimed_at >= since
    ]
    return RetrySum(len(came), passed_count=came.count(True), failed_count=came.count(False))


def describe_retries(retries: RetrySum) -> str:
    """Return the counts as a sentence; "" if nothing was run again."""
    if not retries.count:
        return ""
    jobs = "1 job" if retries.count == 1 else f"{retries.count} jobs"
    came = f"{retries.passed_count} passed, {retries.failed_count} failed again in the same way"
    return f"{jobs}; {came}"
