"""Reads what failed, once, before the model is asked: jobs, log excerpts and plain causes.

Bounded in jobs, bytes and seconds; what could not be read is named. Raises nothing.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.ci_config import DEFAULT_PATH
from worker.gitlab.read.job_log import Log
from worker.gitlab.read.merge_request import show_diff
from worker.gitlab.read.pipeline_jobs import DownstreamPipelines, find_retried_ids, read_all_jobs
from worker.gitlab.read.reports import find_failed_outside
from worker.gitlab.read.repository import read_from_project
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey import failing_jobs
from worker.gitlab.read.survey.compared_runs import read_failure
from worker.gitlab.read.survey.fact_collection import Diff
from worker.gitlab.read.survey.facts import add_facts, read_diff
from worker.gitlab.read.survey.failing_jobs import add_runners
from worker.gitlab.read.wire import get_family
from worker.logs.failure_lines import MOST_TOLD
from worker.safety.untrusted import one_line
from worker.verdict import rules
from worker.verdict.facts import NOT_ASKED, Unknown
from worker.verdict.grouping import group_jobs
from worker.verdict.jobs import EXCERPT, TOLD, FailingJob, Group, RuleMatch, Survey
from worker.verdict.rules.base import Scene
from worker.verdict.rules.runner_log import find_runner_name, has_script_begun

MOST_LOGS = 12
"""Most logs that are read: first one of each family of jobs, then more of the same families."""

MOST_JOBS = 60
SECONDS = 20.0
"""Seconds for a survey, but see `LEAST`."""

LEAST = 5.0
"""Seconds that the facts get in any case, even if fewer are left."""

END = 80
"""Lines of a log's end that the rules see."""

_THREADS = 6


@dataclass(slots=True)
class _Draft:
    """What was found so far, and what is missing."""

    jobs: list[FailingJob] = field(default_factory=list)
    errors: str = ""
    diff: Diff = NOT_ASKED
    missing: list[str] = field(default_factory=list)
    whole: bool = True
    others: tuple[str, ...] = ()

    def add_missing(self, what: str) -> None:
        """Record that `what` could not be read; it may hide a failing job."""
        self.missing.append(what)
        self.whole = False


def read_survey(reader: Reader, seconds: float = SECONDS, *, shown: int = 0) -> Survey:
    """Return the failing jobs of the session's pipeline, grouped by cause.

    `shown` is how many bytes of logs, and of the diff, the model will be shown at once; 0 for only
    the excerpts.
    """
    deadline = time.monotonic() + seconds
    timed = reader.with_deadline(deadline)
    draft = _Draft()
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="survey")
    try:
        diff = pool.submit(read_diff, timed)
        _read_pipeline(timed, draft)
        _read_logs(draft, reader, pool, deadline)
        draft.diff = _read_diff_in_time(diff, deadline)
    finally:
        # A hanging request is not waited for: it has its own time-out.
        pool.shutdown(wait=False, cancel_futures=True)
    survey = _make_survey(draft, reader, deadline)
    if shown:
        survey = _add_previews(survey, draft.diff, reader, shown)
    return reader.redact.redact_value(survey)


def _make_survey(draft: _Draft, reader: Reader, deadline: float) -> Survey:
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
    bare = tuple(map(_drop_doubtful_rule, add_facts(bare, reader, draft.diff, left)))
    whole = draft.whole and _is_fully_read(bare)
    return Survey(bare, tuple(draft.missing), changed, whole, draft.others)


def _add_previews(survey: Survey, diff: Diff, reader: Reader, shown: int) -> Survey:
    """Add longer previews of the log of each group's first job, and of the diff."""
    read = [group for group in survey.groups if group.jobs and group.jobs[0].excerpt]
    each = shown // max(len(read), 1)
    groups = tuple(_add_preview(group, reader, each) for group in survey.groups)
    preview, whole = ("", False) if isinstance(diff, Unknown) else show_diff(diff, reader, shown)
    groups = groups if each > EXCERPT else survey.groups
    return replace(survey, groups=groups, diff_preview=preview, is_diff_whole=whole)


def _add_preview(group: Group, reader: Reader, most: int) -> Group:
    if not group.jobs or not group.jobs[0].excerpt or group.external:
        return group
    first, *others = group.jobs
    try:
        preview = reader.logs.read_log(first.job_id).preview(most)
    except SourceError:
        return group
    return replace(group, jobs=(replace(first, preview=preview), *others))


def _drop_doubtful_rule(group: Group) -> Group:
    """Mark the group's rule match uncertain if GitLab's record contradicts its verdict."""
    if not group.rule_match or not group.ruling:
        return group
    against = any(verdict == group.rule_match.verdict for verdict, _ in group.ruling.contradictions)
    return replace(group, rule_match=replace(group.rule_match, certain=False)) if against else group


def _is_fully_read(groups: Sequence[Group]) -> bool:
    """Whether a log of each family was read, or a certain rule match makes that unnecessary."""
    read = {job.family for group in groups for job in group.jobs if job.read}
    return all(
        job.family in read or (group.rule_match is not None and group.rule_match.certain)
        for group in groups
        for job in group.jobs
    )


# ------------------------------------------------------------------------------------------- jobs


def _read_pipeline(reader: Reader, draft: _Draft) -> None:
    number = reader.subject.pipeline_id
    path = f"{reader.pipeline_project}/pipelines/{number}"
    try:
        listed = read_all_jobs(path, number, reader)
    except SourceError as error:
        draft.add_missing(str(error))
        return
    if listed.more:
        draft.add_missing(f"jobs older than the newest {len(listed.items)}")
    retried = find_retried_ids(listed.items)
    newest = [job for job in listed.items if job.id not in retried]
    failed = [job for job in newest if job.status == "failed" and not job.allow_failure]
    draft.others = tuple(_describe_merge_result(listed.items, reader))
    draft.others += failing_jobs.describe_other_jobs(listed.items)
    variants = Counter(get_family(job.name) for job in newest)
    failing = [_describe_failing(job, variants, reader) for job in failed]
    draft.jobs += add_runners(sorted(failing, key=lambda job: job.job_id), reader)
    if not newest:
        draft.errors = _read_errors(path, number, reader, draft)
    triggers = set(_read_downstream(path, number, reader, draft))
    _read_other_systems(listed.items, triggers, reader, draft)
    if len(draft.jobs) > MOST_JOBS:
        more = ", ".join(job.name for job in draft.jobs[MOST_JOBS:])
        draft.add_missing(f"{len(draft.jobs) - MOST_JOBS} more failing jobs: {more}")
        draft.jobs = draft.jobs[:MOST_JOBS]


def _describe_merge_result(jobs: Sequence[wire.Job], reader: Reader) -> Iterator[str]:
    ref = next((job.pipeline.ref for job in jobs if job.pipeline), "")
    with suppress(SourceError):
        if explanation := reader.binding.describe_merge_result(ref):
            yield (
                f"Merged results: {explanation}. A retried job runs on the same merge again, a new "
                "pipeline on a new one."
            )


def _read_errors(path: str, number: int, reader: Reader, draft: _Draft) -> str:
    try:
        pipeline = reader.client.one(path, wire.Pipeline, f"pipeline {number}")
    except SourceError as error:
        draft.add_missing(str(error))
        return ""
    return _clean_text(pipeline.yaml_errors or "", reader)


def _read_downstream(path: str, number: int, reader: Reader, draft: _Draft) -> Iterator[str]:
    """Find the failing jobs of downstream pipelines; yields the names of the trigger jobs."""
    started, passed = DownstreamPipelines(reader), list[dict[str, Any]]()
    for bridge in started.list_below(path, number):
        yield str(bridge.get("started_by", ""))
        if bridge.get("allow_failure"):
            continue
        if "not_read" in bridge and bridge.get("status") != "success":
            draft.add_missing(one_line(str(bridge["not_read"]), 300))
        if bridge.get("status") == "failed" and "pipeline" not in bridge:
            draft.jobs.append(_describe_bridge(bridge, reader))
        draft.jobs += [
            _describe_child(job, reader)
            for job in bridge.get("failed_jobs", ())
            if not job.get("allow_failure")
        ]
        draft.others += failing_jobs.describe_allowed(bridge.get("failed_jobs", ()))
        passed += bridge.get("passed_jobs", ())
    draft.others += failing_jobs.describe_passed_below(passed)
    for missing in started.missing_parts:
        draft.add_missing(missing)


def _read_other_systems(
    jobs: Sequence[wire.Job], triggers: Collection[str], reader: Reader, draft: _Draft
) -> None:
    """Find what other systems report as failed."""
    names = {job.name for job in jobs} | set(triggers)
    try:
        failed, missing = find_failed_outside(reader, {job.id for job in jobs}, names)
    except NotFound:
        return
    except SourceError as error:
        draft.missing.append(str(error))
        return
    draft.missing += [missing] if missing else []
    draft.jobs += [_describe_external(status, reader) for status in failed]


def _describe_external(status: wire.Status, reader: Reader) -> FailingJob:
    name, page = _clean_text(status.name, reader), _clean_text(status.target_url or "", reader)
    return FailingJob(
        job_id=0,
        name=name,
        url=page if page.startswith(("https://", "http://")) else "",
        family=name,
        excerpt=_clean_text(status.description or "", reader),
        read=True,
        external=True,
    )


def _describe_failing(job: wire.Job, variants: Mapping[str, int], reader: Reader) -> FailingJob:
    return FailingJob(
        job_id=job.id,
        name=_clean_text(job.name, reader),
        stage=_clean_text(job.stage, reader),
        reason=_clean_text(job.failure_reason or "", reader),
        url=job.web_url,
        family=_clean_text(get_family(job.name), reader),
        family_size=variants[get_family(job.name)],
        kept_bytes=sum(each.size or 0 for each in job.artifacts if each.file_type == "archive"),
        has_started=job.started_at is not None,
        tags=tuple(_clean_text(tag, reader) for tag in job.tag_list),
        runner=_clean_text((job.runner and job.runner.description) or "", reader),
    )


def _describe_child(job: dict[str, Any], reader: Reader) -> FailingJob:
    name = str(job["name"])
    return FailingJob(
        job_id=int(job["id"]),
        name=_clean_text(name, reader),
        stage=_clean_text(str(job.get("stage", "")), reader),
        reason=_clean_text(str(job.get("failure_reason", "")), reader),
        url=str(job.get("web_url", "")),
        family=_clean_text(get_family(name), reader),
        has_started="started_at" in job,
    )


def _describe_bridge(bridge: dict[str, Any], reader: Reader) -> FailingJob:
    """Return a trigger job that started nothing; it has no log."""
    name = _clean_text(str(bridge.get("started_by", "?")), reader)
    reason = _clean_text(str(bridge.get("failure_reason", "")), reader)
    return FailingJob(0, name, "", reason, family=name, read=True)


def _clean_text(text: str, reader: Reader) -> str:
    return one_line(reader.redact.redact_text(text), 1000)


def _match_configuration_rule(draft: _Draft, scene: Scene, reader: Reader) -> RuleMatch | None:
    """Match GitLab's errors of an invalid CI configuration with a rule; None without errors."""
    if not draft.errors:
        return None
    try:
        blob = read_from_project(reader.pipeline_project, reader, DEFAULT_PATH, reader.subject.sha)
    except SourceError:
        return rules.explain_configuration_error(draft.errors, scene)
    text = blob.head.decode("utf-8", "replace")
    return rules.explain_configuration_error(draft.errors, scene, DEFAULT_PATH, text)


def _read_diff_in_time(diff: Future[Diff], deadline: float) -> Diff:
    try:
        return diff.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return Unknown("the diff: it took too long")


def _list_paths(draft: _Draft) -> tuple[str, ...] | None:
    """Return the paths that the merge request touches; None unless all of them are known."""
    if isinstance(draft.diff, Unknown):
        draft.missing.append(draft.diff.why)
        return None
    if draft.diff.more:
        draft.missing.append(f"changed files after the first {len(draft.diff.items)}")
        return None
    both = (path for file in draft.diff.items for path in (file.old_path, file.new_path))
    return tuple(dict.fromkeys(path for path in both if path))


def _list_added_lines(draft: _Draft) -> str | None:
    """Return the lines that the merge request adds; None unless all of them are known."""
    if isinstance(draft.diff, Unknown) or draft.diff.more:
        return None
    files = draft.diff.items
    if any(file.too_large or file.collapsed for file in files):
        return None
    lines = (line for file in files for line in file.diff.split("\n"))
    return "\n".join(line[1:] for line in lines if line.startswith("+"))


# ------------------------------------------------------------------------------------------- logs


def _read_logs(draft: _Draft, reader: Reader, pool: ThreadPoolExecutor, deadline: float) -> None:
    """Read the logs of some of the jobs, in parallel, until the deadline."""
    chosen = _choose_jobs([job for job in draft.jobs if job.job_id])
    reading = {job.job_id: pool.submit(_add_log, job, reader) for job in chosen}
    wait(reading.values(), max(0.0, deadline - time.monotonic()))
    done = {number: each.result() for number, each in reading.items() if each.done()}
    for number in reading.keys() - done.keys():
        draft.missing.append(f"the log of job {number}: it took too long")
    draft.missing += [each for each in done.values() if isinstance(each, str)][:8]
    read = {number: job for number, job in done.items() if isinstance(job, FailingJob)}
    draft.jobs = [read.get(job.job_id, job) for job in draft.jobs]
    if len(chosen) < sum(job.job_id > 0 for job in draft.jobs):
        draft.missing.append(f"only {len(chosen)} logs were read")


def _choose_jobs(jobs: Sequence[FailingJob]) -> list[FailingJob]:
    """Return the first job of each family, then the second of each, and so on."""
    nth: dict[str, int] = {}
    ranked = []
    for job in jobs:
        nth[job.family] = nth.get(job.family, 0) + 1
        ranked.append((nth[job.family], job.job_id, job))
    return [job for _, _, job in sorted(ranked, key=lambda each: each[:2])[:MOST_LOGS]]


def _add_log(job: FailingJob, reader: Reader) -> FailingJob | str:
    """Return the job with what its log shows, or why the log cannot be read."""
    try:
        log = reader.logs.read_log(job.job_id)
    except SourceError as error:
        return str(error)
    return describe_log(job, log)


def describe_log(job: FailingJob, log: Log) -> FailingJob:
    """Return the job with what its log shows."""
    lines = log.lines
    if not lines:
        return replace(job, read=True, began=False)
    first, failure = max(0, len(lines) - END), read_failure(log, TOLD, MOST_TOLD)
    return replace(
        job,
        excerpt=log.preview(EXCERPT),
        error_text=failure.write_text(),
        command=failure.command.name if failure.command else "",
        exit_code=failure.exit_code,
        green=log.find_passed_job_id(),
        read=True,
        began=has_script_begun(lines, log.spool.holds),
        runner=find_runner_name(lines) or job.runner,
        end=tuple(enumerate(lines[first:], first + 1)),
    )
