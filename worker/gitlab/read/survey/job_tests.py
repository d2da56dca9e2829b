"""The single tests that failed in the jobs of a survey: in GitLab's report, else in their logs."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace

from worker.errors import UNFORESEEN
from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing
from worker.gitlab.read.survey.fact_collection import Diff
from worker.verdict.diffs import is_test
from worker.verdict.facts import Facts, Unknown
from worker.verdict.jobs import FailingJob
from worker.verdict.recalled_tests import JobTests, Recall, RecalledTests, SurveyedJob

SECONDS = 5.0
"""Seconds for which what is known of single tests is waited for, once all else has been read."""

_log = logging.getLogger(__name__)

NO_TESTS: Mapping[int, JobTests] = {}

Recalled = Future[RecalledTests | None] | None


def begin_recall(recall: Recall | None, pool: Executor) -> Recalled:
    """Begin to ask what is known of the project's tests."""
    return pool.submit(recall) if recall else None


def find_job_tests(
    jobs: Sequence[FailingJob], recalled: Recalled, deadline: float, diff: Diff
) -> Mapping[int, JobTests]:
    """Find the tests that failed in the jobs, by the job's id; none if that takes too long.
    Raises nothing. `diff` are the files that the merge request changes."""
    wanted = [
        SurveyedJob(
            each.job_id,
            _name_suite(each),
            each.error_text.split("\n"),
            tuple(error for _, error in each.errors),
        )
        for each in jobs
        if each.job_id
    ]
    try:
        left = min(deadline - time.monotonic(), SECONDS)
        known = recalled.result(max(0.0, left)) if recalled else None
        added = "" if isinstance(diff, Unknown) else _list_added_lines(diff)
        return known.find_jobs(wanted, added) if known else NO_TESTS
    except TimeoutError:
        return NO_TESTS
    except UNFORESEEN:
        _log.exception("what is known of single tests was lost")
        return NO_TESTS


def _list_added_lines(diff: Listing[wire.DiffFile]) -> str:
    """Return the lines that are added to files of tests."""
    lines = (
        line for file in diff.items if is_test(file.new_path) for line in file.diff.split("\n")
    )
    return "\n".join(line[1:] for line in lines if line.startswith("+"))


def add_job_tests(facts: Facts, tests: Mapping[int, JobTests]) -> Facts:
    """Return the facts of some jobs with the tests that failed in each."""
    rest = (replace(each, tests=tests.get(each.run.job_id)) for each in facts.rest)
    return replace(facts, tests=tests.get(facts.run.job_id), rest=tuple(rest))


def _name_suite(job: FailingJob) -> str:
    """Return the name of the suite that has a job's tests: that of all shards, but of one variant
    of a matrix."""
    known = wire.parse_dimensions(job.name)
    suite = job.name if "matrix" in known else str(known.get("group", job.name))
    return str(wire.JobRef(job.started_by, suite))
