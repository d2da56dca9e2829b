"""What jobs have reported of their tests, and what they and outside systems report on a commit."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from worker.gitlab.read import wire
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.pipeline_jobs import OfPipeline
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line, visible
from worker.tools.arguments import Arguments

MAX_CASES = 200
"""Failed tests that are shown."""

MAX_TEXT = 6000
"""Characters of one test's output."""

MAX_DEPTH = 20
"""Nesting levels that are read of an output that was XML."""


def _read_test_report(args: OfPipeline, reader: Reader) -> RawDocument:
    """Return the counts of each suite, then the tests that failed or ended in an error, as JSON.

    Of another pipeline, only the jobs whose names the merge request's own pipelines have too.
    """
    number = args.pipeline_id or reader.subject.pipeline_id
    what = f"the test report of pipeline {number}"
    path, own = f"{reader.pipeline_project}/pipelines/{number}", True
    if number != reader.subject.pipeline_id:
        path, _, own = reader.find_pipeline(number, what)
    report = reader.client.one(f"{path}/test_report", wire.TestReport, what)
    suites = [each for each in report.test_suites if own or reader.binding.has_suite(each.name)]
    bad = [
        (suite.name, case)
        for wanted in ("failed", "error")
        for suite in suites
        for case in suite.test_cases
        if case.status == wanted
    ]
    missing = []
    if withheld := len(report.test_suites) - len(suites):
        missing.append(f"the tests of {withheld} jobs that the merge request does not have")
    elif not suites:
        missing.append("no job of this pipeline has uploaded a test report that is still kept")
    if len(bad) > MAX_CASES:
        missing.append(f"{len(bad) - MAX_CASES} more failed tests")
    content = {
        "total": present(**report.counts, seconds=report.total_time),
        "suites": [
            present(job=suite.name, **suite.counts, unreadable=suite.suite_error)
            for suite in suites
        ],
        "failed": [
            present(
                job=job,
                name=case.name,
                classname=case.classname,
                file=case.file,
                status=case.status,
                seconds=case.execution_time,
                output=_clip_text(_get_text(case.system_output)),
                stack_trace=_clip_text(case.stack_trace or ""),
            )
            for job, case in bad[:MAX_CASES]
        ],
    }
    return RawDocument(content, "; ".join(missing))


def _get_text(output: Any, depth: int = 0) -> str:
    """Return the output as text; of nested values, which were XML, their texts line by line."""
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list):
        return "\n".join(_get_text(item, depth + 1) for item in output) if depth < MAX_DEPTH else ""
    return "" if output is None else str(output)


def _clip_text(text: str) -> str:
    """Return `text` without invisible characters; of a long text, the start and the end."""
    text = visible(text)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters cut]\n{text[-half:]}"


TEST_REPORT = SourceDef(
    name="gitlab_get_test_report",
    description=(
        "A pipeline's test report: counts for each job; each failed test with message and stack "
        "trace."
    ),
    args=OfPipeline,
    fetch=_read_test_report,
)


STATUS_PAGES = 5


class _OfCommit(Arguments):
    sha: str = Field(
        default="",
        pattern=r"^([0-9a-f]{7,64})?$",
        description="Default: the pipeline's.",
    )


def _list_statuses(args: _OfCommit, reader: Reader) -> RawDocument:
    """Return the statuses as JSON, failed ones first."""
    sha = args.sha or reader.subject.sha
    path = f"{reader.find_projects(sha)[0]}/repository/commits/{sha}/statuses"
    what = f"the statuses of commit {sha}"
    found = reader.client.many(path, wire.CommitStatus, what, pages=STATUS_PAGES)
    statuses = [
        present(
            name=each.name,
            status=each.status,
            description=one_line(each.description or "", 500),
            target_url=each.target_url,
            allow_failure=each.allow_failure,
            pipeline=each.pipeline_id,
            at=each.created_at,
        )
        for each in sorted(found.items, key=lambda each: each.status != "failed")
    ]
    missing = f"statuses after the first {len(found.items)}" if found.more else ""
    return RawDocument({"sha": sha, "statuses": statuses}, missing)


STATUSES = SourceDef(
    name="gitlab_list_commit_statuses",
    description=(
        "What jobs and outside systems (Konflux, Testing Farm, scanners) reported on a commit, "
        "failed ones first, with description and link."
    ),
    args=_OfCommit,
    fetch=_list_statuses,
)
