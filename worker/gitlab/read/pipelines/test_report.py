"""`gitlab_get_test_report`: the test results that a pipeline's jobs reported, failed ones first."""

from collections.abc import Iterator, Mapping
from typing import Any

from worker.gitlab.read.api import wire
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.pipelines.pipeline_jobs import OfPipeline
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import visible

MAX_CASES = 200
"""Failed tests that are shown."""

MAX_TEXT = 6000
"""Characters of one test's output."""

MAX_DEPTH = 20
"""Nesting levels that are read of an output that was XML."""


def fetch(args: OfPipeline, reader: Reader) -> RawDocument:
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
    return RawDocument(content, "; ".join(_list_missing(report, len(bad), withheld)))


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


def _list_missing(report: wire.TestReport, bad: int, withheld: int) -> Iterator[str]:
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
    fetch=fetch,
)
