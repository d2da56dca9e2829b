"""Finds the failing jobs of a pipeline, and says of the others what may explain them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.job_log import Log
from worker.gitlab.read.pipeline_jobs import DownstreamPipelines, find_retried_ids, read_all_jobs
from worker.gitlab.read.reports import STATUS_PAGES
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_runs import MAX_LOG, read_failure
from worker.gitlab.read.survey.fact_collection import Diff
from worker.gitlab.read.wire import parse_dimensions
from worker.incidents.errors import read_errors
from worker.logs.failure_lines import MOST_TOLD, read_command_lines
from worker.logs.preview import clip_bytes
from worker.safety.untrusted import one_line
from worker.verdict.facts import NO_RUNNER, NOT_ASKED, WAITED
from worker.verdict.jobs import EXCERPT, TOLD, FailingJob
from worker.verdict.rules.runner_log import find_runner_name, has_script_begun

_MOST_JOBS = 60

_MOST_NAMED = 30
"""Most failed jobs that are named in each line."""

_MOST_PASSED = 12

_NAME_SHOWN = 80

MOST_ASKED = 3
"""Sets of tags that are asked about."""

_RUNNERS_NAMED = 6


@dataclass(slots=True)
class Draft:
    """What was found so far, and what is missing."""

    jobs: list[FailingJob] = field(default_factory=list)
    errors: str = ""
    diff: Diff = NOT_ASKED
    gaps: list[str] = field(default_factory=list)
    whole: bool = True
    others: tuple[str, ...] = ()

    def add_missing(self, what: str) -> None:
        """Record that `what` could not be read; it may hide a failing job."""
        self.gaps.append(what)
        self.whole = False


def read_failing_jobs(reader: Reader, draft: Draft) -> None:
    """Find the failing jobs of the session's pipeline, of those it has started, and what other
    systems report as failed. Raises nothing."""
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
    reader.logs.expect_jobs(reader.subject.pipeline_project_id, failed)
    ran = next((job.pipeline for job in listed.items if job.pipeline), None)
    with suppress(SourceError):
        if ran and (explanation := reader.binding.describe_merge_result(ran)):
            draft.others += (
                f"Merged results: {explanation}. A retried job runs on the same merge again, a new "
                "pipeline on a new one.",
            )
    draft.others += describe_other_jobs(listed.items)
    variants = Counter(job.family for job in newest)
    failing = [_describe_failing(job, variants, reader) for job in failed]
    draft.jobs += _add_runners(sorted(failing, key=lambda job: job.job_id), reader)
    if not newest:
        try:
            pipeline = reader.client.one(path, wire.Pipeline, f"pipeline {number}")
            draft.errors = _clean_text(pipeline.yaml_errors or "", reader)
        except SourceError as error:
            draft.add_missing(str(error))
    triggers = set(_read_downstream(path, number, reader, draft))
    _read_other_systems(listed.items, triggers, reader, draft)
    if len(draft.jobs) > _MOST_JOBS:
        more = ", ".join(job.name for job in draft.jobs[_MOST_JOBS:])
        draft.add_missing(f"{len(draft.jobs) - _MOST_JOBS} more failing jobs: {more}")
        draft.jobs = draft.jobs[:_MOST_JOBS]


def _read_downstream(path: str, number: int, reader: Reader, draft: Draft) -> Iterator[str]:
    """Find the failing jobs of downstream pipelines; yields the names of the trigger jobs."""
    started, passed = DownstreamPipelines(reader), list[str]()
    for bridge in started.list_below(path, number):
        yield str(bridge.get("started_by", ""))
        if bridge.get("allow_failure"):
            continue
        if "not_read" in bridge and bridge.get("status") != "success":
            draft.add_missing(one_line(str(bridge["not_read"]), 300))
        if bridge.get("status") == "failed" and "pipeline" not in bridge:
            # It has started nothing, and has no log.
            name = _clean_text(str(bridge.get("started_by", "?")), reader)
            reason = _clean_text(str(bridge.get("failure_reason", "")), reader)
            draft.jobs.append(FailingJob(0, name, "", reason, family=name, read=True))
        allowed = []
        for job in bridge.get("failed_jobs", ()):
            if job.get("allow_failure"):
                allowed.append(_write_job(job["id"], str(job["name"])))
            else:
                child = _describe_child(job, reader)
                by = _clean_text(str(bridge.get("started_by", "")), reader)
                draft.jobs.append(replace(child, started_by=by))
        if allowed:
            names = _join_names(allowed, _MOST_NAMED)
            draft.others += (f"Failed below, but is allowed to: {names}",)
        passed += [_write_job(job["id"], str(job["name"])) for job in bridge.get("passed_jobs", ())]
    if passed:
        draft.others += (f"Passed below: {_join_names(passed, _MOST_PASSED)}",)
    for missing in started.missing_parts:
        draft.add_missing(missing)


def _read_other_systems(
    jobs: Sequence[wire.Job], triggers: Collection[str], reader: Reader, draft: Draft
) -> None:
    """Find what other systems report as failed."""
    ids = {job.id for job in jobs}
    names = {job.name for job in jobs} | set(triggers)
    subject = reader.subject
    path = f"{reader.pipeline_project}/repository/commits/{subject.sha}/statuses"
    what = "the commit's statuses"
    try:
        found = reader.client.many(path, wire.CommitStatus, what, pages=STATUS_PAGES)
    except NotFound:
        return
    except SourceError as error:
        draft.gaps.append(str(error))
        return
    if found.more:
        draft.gaps.append(f"commit statuses after the first {len(found.items)}")
    for each in found.items:
        if (
            each.status == "failed"
            and not each.allow_failure
            and each.pipeline_id in (None, subject.pipeline_id)
            # GitLab lists jobs of all the commit's pipelines too.
            and each.id not in ids
            and each.name not in names
            and "/-/jobs/" not in (each.target_url or "")
        ):
            name, page = _clean_text(each.name, reader), _clean_text(each.target_url or "", reader)
            job = FailingJob(
                job_id=0,
                name=name,
                url=page if page.startswith(("https://", "http://")) else "",
                family=name,
                excerpt=_clean_text(each.description or "", reader),
                read=True,
                external=True,
            )
            draft.jobs.append(job)


def _describe_failing(job: wire.Job, variants: Mapping[str, int], reader: Reader) -> FailingJob:
    return FailingJob(
        job_id=job.id,
        name=_clean_text(job.name, reader),
        stage=_clean_text(job.stage, reader),
        reason=_clean_text(job.failure_reason or "", reader),
        url=job.web_url,
        family=_clean_text(job.family, reader),
        family_size=variants[job.family],
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
        family=_clean_text(str(parse_dimensions(name).get("group", name)), reader),
        has_started="started_at" in job,
    )


def _clean_text(text: str, reader: Reader) -> str:
    return one_line(reader.redact.redact_text(text), 1000)


def _add_runners(jobs: Iterable[FailingJob], reader: Reader) -> Iterator[FailingJob]:
    """Yield the jobs; those that no runner took with what GitLab says of the runners that have
    their tags, if it does: it tells only maintainers of the project. Raises nothing."""
    found: dict[tuple[str, ...], str] = {}
    for job in jobs:
        if job.reason not in NO_RUNNER | WAITED or job.has_started:
            yield job
            continue
        if job.tags not in found and len(found) < MOST_ASKED:
            found[job.tags] = _describe_runners(job.tags, reader)
        yield replace(job, runners=found.get(job.tags, ""))


def _describe_runners(tags: Sequence[str], reader: Reader) -> str:
    path = f"{reader.pipeline_project}/runners"
    query = {"tag_list": ",".join(tags)} if tags else None
    with suppress(SourceError):
        runners = reader.client.many(path, wire.Runner, "the runners", query, pages=1).items
        if not runners:
            return "GitLab knows no such runner for the project."
        named = []
        for each in runners[:_RUNNERS_NAMED]:
            state = each.status.replace("_", " ") or "state not known"
            state = "paused" if each.active is False else state
            name = one_line(each.description or "", 60) or f"runner {each.id}"
            named.append(f"{name} ({state})")
        more = f" and {len(runners) - _RUNNERS_NAMED} more" if len(runners) > _RUNNERS_NAMED else ""
        return f"GitLab knows these for the project: {', '.join(named)}{more}."
    return ""


def describe_other_jobs(jobs: Sequence[wire.Job]) -> tuple[str, ...]:
    """Return a line each on the jobs that failed but may, failed and were retried, passed, and did
    not run; and one on the runner on which all failed jobs ran and no passed one did.

    Among the passed ones, siblings of a failing job come first: other variants of its matrix.
    """
    retried = find_retried_ids(jobs)
    newest = {job.name: job for job in jobs if job.id not in retried}
    by_status: dict[str, list[wire.Job]] = {}
    for job in newest.values():
        by_status.setdefault(job.status, []).append(job)
    failed = by_status.get("failed", [])
    families = {job.family for job in failed}
    passed = sorted(by_status.get("success", []), key=lambda job: job.family not in families)
    again = []
    for job in sorted(jobs, key=lambda job: job.id):
        if job.status == "failed" and job.id in retried:
            last = newest[job.name]
            reason = f", {job.failure_reason}" if job.failure_reason else ""
            ended = {"success": "passed", "failed": "failed again"}.get(last.status, last.status)
            again.append(f"{_write_job(job.id, job.name)}{reason}, then job {last.id} {ended}")
    allowed, passed_names, skipped = (
        [_write_job(job.id, job.name) for job in some]
        for some in (
            [job for job in failed if job.allow_failure],
            passed,
            by_status.get("skipped", []),
        )
    )
    groups = (
        ("Failed, but is allowed to", allowed, _MOST_NAMED),
        ("Failed and was retried", again, _MOST_NAMED),
        ("Passed", passed_names, _MOST_PASSED),
        ("Did not run", skipped, _MOST_PASSED),
    )
    lines = (f"{words}: {_join_names(names, most)}" for words, names, most in groups if names)
    return (*lines, *_describe_runner(list(newest.values())))


def _describe_runner(jobs: Sequence[wire.Job]) -> Iterator[str]:
    """Tell of a runner on which all jobs ran that failed, and none that passed."""
    failed, passed = (
        [job.runner for job in jobs if job.status == status] for status in ("failed", "success")
    )
    runner = failed[0] if failed else None
    if runner is None or len(failed) < 2 or len(passed) < 2:
        return
    alone = all(each and each.id == runner.id for each in failed)
    if alone and all(each and each.id != runner.id for each in passed):
        where = one_line(runner.description or "", _NAME_SHOWN) or f"runner {runner.id}"
        yield f"All {len(failed)} failed jobs ran on {where}, and no job that passed did"


def _write_job(number: int, name: str) -> str:
    return f"job {number} ({one_line(name, _NAME_SHOWN)})"


def _join_names(names: Sequence[str], most: int) -> str:
    more = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more


# ------------------------------------------------------------------------------------- their logs

_END = 80
"""Lines of a log's end that the rules see."""


def describe_log_alone(job: FailingJob, log: Log) -> FailingJob:
    """Return the job with the errors of its log, which is compared with no other one."""
    cleaned = b"".join(log.spool.chunks()) if log.spool.size <= MAX_LOG else b""
    failure = read_command_lines(cleaned, TOLD, MOST_TOLD)
    text, command = failure.write_text(), failure.command.name if failure.command else ""
    return replace(
        job,
        excerpt=clip_bytes(text, EXCERPT, "\n…"),
        error_text=text,
        command=command,
        exit_code=failure.exit_code,
        errors=read_errors(cleaned, job.reason) if cleaned else (),
        read=True,
    )


def describe_log(job: FailingJob, log: Log) -> FailingJob:
    """Return the job with what its log shows."""
    lines = log.lines
    if not lines:
        return replace(job, read=True, began=False)
    first, failure = max(0, len(lines) - _END), read_failure(log, TOLD, MOST_TOLD)
    cleaned = b"".join(log.spool.chunks()) if log.spool.size <= MAX_LOG else b""
    text, command = failure.write_text(), failure.command.name if failure.command else ""
    return replace(
        job,
        excerpt=log.preview(EXCERPT),
        error_text=text,
        command=command,
        exit_code=failure.exit_code,
        errors=job.errors or (read_errors(cleaned, job.reason) if cleaned else ()),
        green=log.find_passed_job_id(),
        read=True,
        began=has_script_begun(lines, log.spool.holds),
        runner=find_runner_name(lines) or job.runner,
        end=tuple(enumerate(lines[first:], first + 1)),
    )
