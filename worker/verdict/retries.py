"""Which failed jobs are run again because the record proves that they may pass as they are. Pure.

A retry that should not have been is worse than one that was left out: a doubt is a no.
"""

import re
from collections.abc import Collection

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
