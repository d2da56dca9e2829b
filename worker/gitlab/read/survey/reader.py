"""Reads what failed, once, before the model is asked: jobs, log excerpts and plain causes.

Bounded in jobs, bytes and seconds; what could not be read is named. Raises nothing.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace

from worker.errors import UNFORESEEN, SourceError
from worker.gitlab.read.ci_config import DEFAULT_PATH
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.job_log import Log
from worker.gitlab.read.merge_request import read_changed_files, show_diff
from worker.gitlab.read.repository import read_from_project
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_pipelines import read_or_unknown
from worker.gitlab.read.survey.fact_collection import Diff, FactCollector
from worker.gitlab.read.survey.failing_jobs import (
    Draft,
    describe_log,
    describe_log_alone,
    read_failing_jobs,
)
from worker.gitlab.read.survey.job_tests import (
    NO_TESTS,
    add_job_tests,
    begin_recall,
    find_job_tests,
)
from worker.incidents.record import PipelineKind, RequestRecord
from worker.safety.untrusted import one_line
from worker.verdict import rules
from worker.verdict.fact_sentences import describe_facts
from worker.verdict.facts import Facts, JobRun, Unknown
from worker.verdict.grouping import group_jobs
from worker.verdict.jobs import EXCERPT, FailingJob, Group, RuleMatch, Survey
from worker.verdict.proofs import make_ruling
from worker.verdict.recalled_tests import JobTests, Recall
from worker.verdict.rules import Scene

MOST_LOGS = 12
"""Most logs that are read: first one of each family of jobs, then more of the same families."""

SECONDS = 20.0
"""Seconds for a survey, but see `LEAST`."""

LEAST = 5.0
"""Seconds that the facts get in any case, even if fewer are left."""

_FACT_SECONDS = 20.0
"""Seconds after which no request is begun."""

GRACE = 5.0
"""Further seconds in which requests that are under way may end."""

DIFF_PAGES = 25
"""Pages of twenty changed files that are read."""

WORKERS = 6

_THREADS = 6

_log = logging.getLogger(__name__)


_NO_RETRY = (
    "This is the pipeline of a merge train, and GitLab retries none of its jobs: who wants it to "
    "run again adds the merge request to the merge train again."
)


Explain = Callable[[str, Callable[[GitLabReader, bool], RequestRecord]], frozenset[tuple[str, str]]]
"""Returns which errors of a merge request's jobs (full name, key) incidents of its target branch
explain. It is given the branch, and what reads all that incidents have to know of the failure, with
True also which jobs may be run again."""


def read_survey(
    reader: Reader,
    seconds: float = SECONDS,
    *,
    shown: int = 0,
    explain: Explain | None = None,
    recall: Recall | None = None,
) -> Survey:
    """Return the failing jobs of the session's pipeline, grouped by cause.

    `shown` is how many bytes of logs, and of the diff, the model will be shown at once; 0 for only
    the excerpts. If `explain` explains all that failed, nothing else is read. `recall` says what is
    known of single tests.
    """
    deadline = time.monotonic() + seconds
    timed = reader.with_deadline(deadline)
    draft = Draft()
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="survey")
    try:
        if explain is None:
            diff, recalled = pool.submit(read_diff, timed), begin_recall(recall, pool)
            read_failing_jobs(timed, draft)
        else:
            read_failing_jobs(timed, draft)
            unread = {(job.job_id, job.name): job for job in draft.jobs}
            _read_logs(draft, reader, pool, deadline, describe_log_alone)
            explained = _explain(draft, reader, explain)
            if _is_explained(draft, explained):
                return reader.redact.redact_value(_make_explained(draft))
            _leave_out(draft, explained)
            # What is left is described as if it had not been read: compared with other runs.
            draft.jobs = [
                replace(unread[job.job_id, job.name], errors=job.errors) for job in draft.jobs
            ]
            diff, recalled = pool.submit(read_diff, timed), begin_recall(recall, pool)
        _read_logs(draft, reader, pool, deadline)
        try:
            draft.diff = diff.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            draft.diff = Unknown("the diff: it took too long")
        tests = find_job_tests(draft.jobs, recalled, deadline, draft.diff)
    finally:
        # A hanging request is not waited for: it has its own time-out.
        pool.shutdown(wait=False, cancel_futures=True)
    survey = _make_survey(draft, reader, deadline, tests)
    if shown:
        survey = _add_previews(survey, draft.diff, reader, shown)
    return reader.redact.redact_value(survey)


def _explain(draft: Draft, reader: Reader, explain: Explain) -> frozenset[tuple[str, str]]:
    def read_request(gitlab: GitLabReader, runs_again: bool) -> RequestRecord:
        found = gitlab.read_request(reader.subject, draft.jobs, reader.logs, runs_again=runs_again)
        if found.kind is PipelineKind.MERGE_TRAIN:
            draft.others = (*draft.others, _NO_RETRY)
        return found

    try:
        branch = reader.binding.target_branch()
    except SourceError as error:
        draft.gaps.append(str(error))
        return frozenset()
    return explain(branch, read_request)


def _is_explained(draft: Draft, explained: frozenset[tuple[str, str]]) -> bool:
    """Whether every error of every job that failed is among the explained ones, and each job has
    shown its errors."""
    return (
        draft.whole
        and not draft.errors
        and bool(draft.jobs)
        and all(
            job.errors and all((job.full_name, key) in explained for key, _ in job.errors)
            for job in draft.jobs
        )
    )


def _leave_out(draft: Draft, explained: frozenset[tuple[str, str]]) -> None:
    """Leave out what incidents of the target branch explain, and say so."""
    left, told = [], []
    for job in draft.jobs:
        known = [line for key, line in job.errors if (job.full_name, key) in explained]
        if not known or len(known) < len(job.errors):
            left.append(job)
        if known:
            told.append(f"{job.name} ({one_line('; '.join(known), 300)})")
    draft.jobs = left
    if told:
        said = "; ".join(told[:MOST_LOGS])
        draft.others = (
            "Left out, because the target branch fails so too, or another car of the merge train, "
            f"and the note says that: these errors of jobs need no explanation: {said}",
            *draft.others,
        )


def _make_explained(draft: Draft) -> Survey:
    """Return the survey of a failure that is explained: its jobs, and nothing else."""
    groups = tuple(
        replace(group, jobs=tuple(job.without_log() for job in group.jobs))
        for group in group_jobs(draft.jobs, lambda job: None)
    )
    return Survey(groups, tuple(draft.gaps), others=draft.others, is_explained=True)


def _make_survey(
    draft: Draft, reader: Reader, deadline: float, tests: Mapping[int, JobTests]
) -> Survey:
    subject = reader.subject
    changed = _list_paths(draft)
    scene = Scene(subject.project, subject.sha, changed, _list_added_lines(draft))
    groups = group_jobs(draft.jobs, lambda job: rules.recognise(job, scene))
    inside = any(not job.external for job in draft.jobs)
    broken = None if inside else _match_configuration_rule(draft, scene, reader)
    if broken:
        groups = (Group("", one_line(draft.errors, 300), (), broken), *groups)
    bare = tuple(
        replace(group, jobs=tuple(job.without_log() for job in group.jobs)) for group in groups
    )
    left = max(LEAST, deadline - time.monotonic())
    found = list(add_facts(bare, reader, draft.diff, left, tests))
    for number, group in enumerate(found):
        match, against = group.rule_match, group.ruling.contradictions if group.ruling else ()
        if match and any(verdict == match.verdict for verdict, _ in against):
            found[number] = replace(group, rule_match=replace(match, certain=False))
    # A log of each family, unless a certain rule match makes that unnecessary.
    read = {job.family for group in found for job in group.jobs if job.read}
    fully = all(
        job.family in read or (group.rule_match is not None and group.rule_match.certain)
        for group in found
        for job in group.jobs
    )
    return Survey(tuple(found), tuple(draft.gaps), changed, draft.whole and fully, draft.others)


def _add_previews(survey: Survey, diff: Diff, reader: Reader, shown: int) -> Survey:
    """Add longer previews of the log of each group's first job, and of the diff."""
    groups = list(survey.groups)
    each = shown // max(sum(bool(group.jobs and group.jobs[0].excerpt) for group in groups), 1)
    for number, group in enumerate(groups):
        if each > EXCERPT and _is_recorded(group) and group.jobs[0].excerpt:
            first, *others = group.jobs
            with suppress(SourceError):
                preview = reader.logs.read_log(first.job_id).preview(each)
                jobs = (replace(first, preview=preview), *others)
                groups[number] = replace(group, jobs=jobs)
    text, whole = ("", False) if isinstance(diff, Unknown) else show_diff(diff, reader, shown)
    return replace(survey, groups=tuple(groups), diff_preview=text, is_diff_whole=whole)


def _match_configuration_rule(draft: Draft, scene: Scene, reader: Reader) -> RuleMatch | None:
    """Match GitLab's errors of an invalid CI configuration with a rule; None without errors."""
    if not draft.errors:
        return None
    try:
        blob = read_from_project(reader.pipeline_project, reader, DEFAULT_PATH, reader.subject.sha)
    except SourceError:
        return rules.explain_configuration_error(draft.errors, scene)
    text = blob.head.decode("utf-8", "replace")
    return rules.explain_configuration_error(draft.errors, scene, DEFAULT_PATH, text)


def _list_paths(draft: Draft) -> tuple[str, ...] | None:
    """Return the paths that the merge request touches; None unless all of them are known."""
    if isinstance(draft.diff, Unknown):
        draft.gaps.append(draft.diff.why)
        return None
    if draft.diff.more:
        draft.gaps.append(f"changed files after the first {len(draft.diff.items)}")
        return None
    both = (path for file in draft.diff.items for path in (file.old_path, file.new_path))
    return tuple(dict.fromkeys(path for path in both if path))


def _list_added_lines(draft: Draft) -> str | None:
    """Return the lines that the merge request adds; None unless all of them are known."""
    if isinstance(draft.diff, Unknown) or draft.diff.more:
        return None
    files = draft.diff.items
    if any(file.too_large or file.collapsed for file in files):
        return None
    lines = (line for file in files for line in file.diff.split("\n"))
    return "\n".join(line[1:] for line in lines if line.startswith("+"))


def _read_logs(
    draft: Draft,
    reader: Reader,
    pool: ThreadPoolExecutor,
    deadline: float,
    describe: Callable[[FailingJob, Log], FailingJob] | None = None,
) -> None:
    """Read the logs of some of the jobs, in parallel, until the deadline: the first job's of each
    family, then the second's of each, and so on."""
    nth: Counter[str] = Counter()
    ranked = []
    for job in draft.jobs:
        if job.job_id:
            nth[job.family] += 1
            ranked.append((nth[job.family], job.job_id, job))
    chosen = [job for _, _, job in sorted(ranked, key=lambda each: each[:2])[:MOST_LOGS]]

    def read(job: FailingJob) -> FailingJob | str:
        try:
            return (describe or describe_log)(job, reader.logs.read_log(job.job_id))
        except SourceError as error:
            return str(error)

    reading = {job.job_id: pool.submit(read, job) for job in chosen}
    wait(reading.values(), max(0.0, deadline - time.monotonic()))
    done = {number: each.result() for number, each in reading.items() if each.done()}
    for number in reading.keys() - done.keys() if describe is None else ():
        draft.gaps.append(f"the log of job {number}: it took too long")
    if describe is None:  # what is missing is told once
        draft.gaps += [each for each in done.values() if isinstance(each, str)][:8]
    found = {number: job for number, job in done.items() if isinstance(job, FailingJob)}
    draft.jobs = [found.get(job.job_id, job) for job in draft.jobs]
    if describe is None and len(chosen) < sum(job.job_id > 0 for job in draft.jobs):
        draft.gaps.append(f"only {len(chosen)} logs were read")


def read_diff(reader: Reader) -> Diff:
    """Read which files the merge request changes, or why that is unknown. Raises nothing."""
    return read_or_unknown(lambda: read_changed_files(reader, DIFF_PAGES))


def add_facts(
    groups: Sequence[Group],
    reader: Reader,
    diff: Diff,
    seconds: float = _FACT_SECONDS,
    tests: Mapping[int, JobTests] = NO_TESTS,
) -> tuple[Group, ...]:
    """Return the groups, each with a ruling based on GitLab's record, and on the `tests` that
    failed in the jobs, by id. Raises nothing."""
    found, ruled = iter(collect_facts(groups, reader, diff, seconds)), list(groups)
    for number, group in enumerate(groups):
        if _is_recorded(group) and (facts := next(found, None)):
            facts = add_job_tests(facts, tests)
            ruling = make_ruling(facts)
            record = tuple(describe_facts(facts, ruling.hard))
            ruled[number] = replace(group, ruling=replace(ruling, record=record))
    return tuple(ruled)


def collect_facts(
    groups: Sequence[Group],
    reader: Reader,
    diff: Diff,
    seconds: float = _FACT_SECONDS,
    grace: float = GRACE,
) -> list[Facts]:
    """Return what is known of each group of GitLab's jobs. Raises nothing."""
    failing = [group for group in groups if _is_recorded(group)]
    if not failing:
        return []
    bounded = reader.with_deadline(time.monotonic() + seconds)
    pool = ThreadPoolExecutor(WORKERS + 1, thread_name_prefix="facts")
    try:
        future = pool.submit(FactCollector(bounded, pool, failing, diff).collect_facts)
        return future.result(max(0.0, seconds) + grace)
    except TimeoutError:
        return [_make_unread(group, "GitLab took too long") for group in failing]
    except SourceError as error:
        return [_make_unread(group, str(error)) for group in failing]
    except UNFORESEEN as error:
        _log.exception("the facts of a survey were lost")
        return [_make_unread(group, f"{type(error).__name__} in the survey") for group in failing]
    finally:
        # A hanging request is not waited for: it has its own time-out.
        pool.shutdown(wait=False, cancel_futures=True)


def _is_recorded(group: Group) -> bool:
    """Whether GitLab has jobs for the group, not just another system's failed status."""
    return bool(group.jobs) and not group.external


def _make_unread(group: Group, reason: str) -> Facts:
    why = Unknown(reason)
    job = group.jobs[0]
    run = JobRun(job.job_id, 0, "failed", reason=job.reason, url=job.url)
    return Facts(job.name, run, (), why, (), why, why, why, why)
