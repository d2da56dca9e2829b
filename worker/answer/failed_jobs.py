"""Lists what failed: the jobs as GitLab has them, and in each what the model says failed. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from worker.safety.untrusted import visible
from worker.verdict.finding import FailedJobs
from worker.verdict.jobs import FailingJob, Survey

MOST_TESTS = 60
"""The most tests or steps that are read of an answer."""

_ID = r"[(\[]{1,2}(?:job )?#?(\d{1,19})(?=[,)\]])"
_TOKEN = (
    rf"`([^`\n]{{1,300}})`(?: {_ID})?|{_ID}|\b[Jj]obs? #?(\d{{1,19}})\b"
    r"|[\"“]([^\"“”\n]{3,200})[\"”]"
    r"|(?<![\w./:-])([\w./\[\]-]{0,100}(?:_|::)[\w./:\[\]-]{1,100}|Test[A-Z]\w{1,80}|\w{1,80}Test)"
)
"""What a text names: code with an id or without, ids, quotations, and bare names of tests."""

_STEP = re.compile(r"^\d{1,9}: \$ (\S.{0,300})$", re.MULTILINE)
"""A command of the job in an excerpt of its log."""

_OPTION = re.compile(r"\s(?:-|[<>|&;]).*")


def list_failed(survey: Survey | None, text: str) -> tuple[FailedJobs, ...]:
    """Return the jobs of the survey that failed, in its order, each with the tests and steps that
    the section `text` of an answer names after it; () without a survey."""
    families = [[*family] for family in _list_families(survey)] if survey else []
    if not families:
        return ()
    named = _assign_names(visible(text), families)
    return tuple(
        replace(_make_entry(jobs), tests=tuple(dict.fromkeys(names)))
        for jobs, names in zip(families, named, strict=True)
    )


def _list_families(survey: Survey) -> Iterable[Sequence[FailingJob]]:
    for group in survey.groups:
        families: dict[str, list[FailingJob]] = {}
        for job in group.jobs:
            families.setdefault(job.family or job.name, []).append(job)
        yield from families.values()


def _make_entry(jobs: Sequence[FailingJob]) -> FailedJobs:
    first = jobs[0]
    several = len(jobs) > 1
    count = f"{len(jobs)} of {max(first.family_size, len(jobs))} variants" if several else ""
    name = first.family or first.name if several else first.name
    return FailedJobs(name, first.job_id, first.url, count, _find_step(first))


def _find_step(job: FailingJob) -> str:
    """Return the command that an excerpt shows, without its options; "" if it shows several."""
    commands = _STEP.findall(job.excerpt)
    return _OPTION.sub("", commands[0]).strip() if len(commands) == 1 else ""


def _assign_names(text: str, families: Sequence[Sequence[FailingJob]]) -> list[list[str]]:
    """Return the names of tests and steps in a text, for each of the jobs after whose name or id
    they stand. What stands after another job, which is allowed to fail, belongs to none."""
    by_id = {job.job_id: at for at, jobs in enumerate(families) for job in jobs if job.job_id}
    by_name = {
        name: at
        for at, jobs in reversed([*enumerate(families)])
        for job in jobs
        for name in (job.name, job.family or job.name)
    }
    found: list[list[str]] = [[] for _ in families]
    current: int | None = 0
    names = "|".join(map(re.escape, sorted(by_name, key=len, reverse=True)))
    token = re.compile(rf"(?<![\w./:-])({names})(?=[:,;]| \()|{_TOKEN}")
    for name, job_id in _list_tokens(text, token):
        if job_id:
            current = by_id.get(job_id)
        elif name in by_name:
            current = by_name[name]
        elif current is not None and len(found[current]) < MOST_TESTS:
            found[current].append(name)
    return found


def _list_tokens(text: str, token: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """Yield the names in a text, each with the id of a job that it has, or 0."""
    for found in token.finditer(text):
        job, code, code_id, listed_id, job_id, quoted, bare = found.groups()
        number = code_id or listed_id or job_id
        yield job or code or quoted or bare or "", int(number) if number else 0
