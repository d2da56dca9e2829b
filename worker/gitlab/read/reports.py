"""What jobs have reported of their tests, and what they and outside systems report on a commit."""

from collections.abc import Collection, Iterator, Mapping
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


def read_test_report(args: OfPipeline, reader: Reader) -> RawDocument:
    """Return the counts of each suite, then the tests that failed or ended in an error, as JSON."""
    number = args.pipeline_id or reader.subject.pipeline_id
    what = f"the test report of pipeline {number}"
    path, own = f"{reader.pipeline_project}/pipelines/{number}", True
    if number != reader.subject.pipeline_id:
        path, _, own = reader.find_pipeline(number, what)
    found = reader.client.one(f"{path}/test_report", wire.TestReport, what)
    report = found if own else _keep_own_jobs(found, reader)
    bad = list(_find_failed_cases(report))
    content = {
        "total": present(**_get_counts(report), seconds=report.total_time),
        "suites": [_describe_suite(suite) for suite in report.test_suites],
        "failed": [_describe_case(suite, case) for suite, case in bad[:MAX_CASES]],
    }
    withheld = len(found.test_suites) - len(report.test_suites)
    return RawDocument(content, "; ".join(_list_untold(report, len(bad), withheld)))


def _keep_own_jobs(report: wire.TestReport, reader: Reader) -> wire.TestReport:
    """Keep only the jobs whose names the merge request's own pipelines have too."""
    kept = tuple(each for each in report.test_suites if reader.binding.has_suite(each.name))
    return report.model_copy(update={"test_suites": kept})


def _find_failed_cases(report: wire.TestReport) -> Iterator[tuple[wire.TestSuite, wire.TestCase]]:
    for wanted in ("failed", "error"):
        for suite in report.test_suites:
            yield from ((suite, case) for case in suite.test_cases if case.status == wanted)


def _get_counts(counted: wire.TestCounts) -> dict[str, int]:
    return {
        "tests": counted.total_count,
        "passed": counted.success_count,
        "failed": counted.failed_count,
        "errors": counted.error_count,
        "skipped": counted.skipped_count,
    }


def _describe_suite(suite: wire.TestSuite) -> dict[str, Any]:
    return present(job=suite.name, **_get_counts(suite), unreadable=suite.suite_error)


def _describe_case(suite: wire.TestSuite, case: wire.TestCase) -> dict[str, Any]:
    return present(
        job=suite.name,
        name=case.name,
        classname=case.classname,
        file=case.file,
        status=case.status,
        seconds=case.execution_time,
        output=clip_text(_get_text(case.system_output)),
        stack_trace=clip_text(case.stack_trace or ""),
    )


def _get_text(output: Any, depth: int = 0) -> str:
    """Return the output as text; of nested values, which were XML, their texts line by line."""
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list):
        return "\n".join(_get_text(item, depth + 1) for item in output) if depth < MAX_DEPTH else ""
    return "" if output is None else str(output)


def clip_text(text: str) -> str:
    """Return `text` without invisible characters; of a long text, the start and the end."""
    text = visible(text)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters cut]\n{text[-half:]}"


def _list_untold(report: wire.TestReport, bad: int, withheld: int) -> Iterator[str]:
    if withheld:
        yield f"the tests of {withheld} jobs that the merge request does not have"
    elif not report.test_suites:
        yield "no job of this pipeline has uploaded a test report that is still kept"
    if bad > MAX_CASES:
        yield f"{bad - MAX_CASES} more failed tests"


TEST_REPORT = SourceDef(
    name="gitlab_get_test_report",
    description=(
        "A pipeline's test report: counts for each job; each failed test with message and stack "
        "trace."
    ),
    args=OfPipeline,
    fetch=read_test_report,
)


STATUS_PAGES = 5


class Statuses(Arguments):
    """Of which commit."""

    sha: str = Field(
        default="",
        pattern=r"^([0-9a-f]{7,64})?$",
        description="Default: the pipeline's.",
    )


def list_statuses(args: Statuses, reader: Reader) -> RawDocument:
    """Return the statuses as JSON, failed ones first."""
    sha = args.sha or reader.subject.sha
    path = f"{reader.find_projects(sha)[0]}/repository/commits/{sha}/statuses"
    what = f"the statuses of commit {sha}"
    found = reader.client.many(path, wire.Status, what, pages=STATUS_PAGES)
    ordered = sorted(found.items, key=lambda each: each.status != "failed")
    missing = f"statuses after the first {len(found.items)}" if found.more else ""
    return RawDocument({"sha": sha, "statuses": list(map(_describe_status, ordered))}, missing)


def find_failed_outside(
    reader: Reader, ids: Collection[int], names: Collection[str]
) -> tuple[list[wire.Status], str]:
    """Find the failed statuses of other systems on the pipeline's commit, and what is missing.

    GitLab lists jobs of all the commit's pipelines among the statuses: `ids` and `names` are those
    of the pipeline's own jobs, to leave them out. Raises SourceError.
    """
    subject = reader.subject
    path = f"{reader.pipeline_project}/repository/commits/{subject.sha}/statuses"
    found = reader.client.many(path, wire.Status, "the commit's statuses", pages=STATUS_PAGES)
    failed = [
        each
        for each in found.items
        if each.status == "failed"
        and not each.allow_failure
        and each.pipeline_id in (None, subject.pipeline_id)
        and each.id not in ids
        and each.name not in names
        and "/-/jobs/" not in (each.target_url or "")
    ]
    return failed, f"commit statuses after the first {len(found.items)}" if found.more else ""


def _describe_status(status: wire.Status) -> dict[str, Any]:
    return present(
        name=status.name,
        status=status.status,
        description=one_line(status.description or "", 500),
        target_url=status.target_url,
        allow_failure=status.allow_failure,
        pipeline=status.pipeline_id,
        at=status.created_at,
    )


STATUSES = SourceDef(
    name="gitlab_list_commit_statuses",
    description=(
        "What jobs and outside systems (Konflux, Testing Farm, scanners) reported on a commit, "
        "failed ones first, with description and link."
    ),
    args=Statuses,
    fetch=list_statuses,
)
