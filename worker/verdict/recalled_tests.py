"""What the ledger knows of the single tests that failed in a job: in words, and as proof. Pure.

A pass of each of them on a commit on which it failed in the same way proves that the job is flaky,
as a pass of the job does; neither a name nor a number of failures does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from worker.ledger.history import Life, Seen, find_lives
from worker.ledger.names import find_tests, get_stem, name_suite
from worker.ledger.record import DayRecord, FailedTest, NamedTest, PipelineTests
from worker.ledger.sentences import Name as LedgerName
from worker.ledger.sentences import describe_life
from worker.logs.exact_form import normalise_exactly
from worker.logs.normal_form import normalise_places, restore_digits

WINDOW = 14 * 24 * 3600.0
"""Seconds for which what a test has done counts as evidence about the present code."""

MOST_TOLD = 3
"""The most tests of a job of which each has a sentence of its own."""

_LEAST_TEXT = 12
"""Characters of a message that a line of a log has to repeat, to be the test's own."""


@dataclass(frozen=True, slots=True)
class FailedHere:
    """A test that failed in a job, and what is known of it."""

    life: Life
    failure: FailedTest | None = None
    """How it failed there, by GitLab's report; None if only the log names it."""
    is_changed: bool = False
    """Whether the change adds or edits it."""
    own_runs: int = 0
    """In how many pipelines of the merge request it ran, as far as that is certain."""
    own_failures: int = 0

    @property
    def has_come_and_gone(self) -> bool:
        """Whether it has both failed and passed in the merge request."""
        return 0 < self.own_failures < self.own_runs


@dataclass(frozen=True, slots=True)
class JobTests:
    """The tests that failed in a job."""

    failures: tuple[FailedHere, ...]
    pipeline_id: int
    mr_iid: int
    asked_at: float
    """Epoch seconds."""
    sha: str = ""
    source: str = ""
    is_whole: bool = False
    """Whether these are all, by GitLab's report of this run of the job."""
    errors: tuple[str, ...] = ()
    """Every decisive error of its log."""

    def find_flakes(self, each: FailedHere) -> Iterator[Seen]:
        """Yield when the test has failed as here, in the same job, and then passed on that commit
        in another pipeline, the newest first.

        A report that lists it as failed and as passed proves nothing: it may have two of one name.
        """
        failure = each.failure
        return (
            seen
            for seen in (reversed(each.life.failures) if failure and failure.key else ())
            if seen.passed_in > seen.pipeline_id and _fails_alike(failure, seen)
        )

    def find_unproven(self, each: FailedHere) -> Iterator[Seen]:
        """Yield when the test has failed, and it is not known that it passed on that commit."""
        return (
            seen
            for seen in each.life.failures
            if not seen.passed_again and seen.pipeline_id != self.pipeline_id
        )

    def owns(self, error: str) -> bool:
        """Whether an error of the job's log, also in its normal form, is a failure of one of its
        tests: it names the test or repeats its message."""
        line = restore_digits(normalise_places(error))
        for each in self.failures:
            told = each.failure.text.removeprefix("E ") if each.failure else ""
            message = restore_digits(normalise_places(told))
            repeats = len(message) >= _LEAST_TEXT and message in line
            if repeats or find_tests([each.life.test], [line]):
                return True
        return False

    def describe(self) -> Iterator[tuple[str | LedgerName, ...]]:
        """Yield what is known of the tests, one sentence for each fact; first of those that have
        failed most."""
        early = [each for each in self.failures if each.is_changed and each.has_come_and_gone]
        for each in early[:MOST_TOLD]:
            count = f"{each.own_failures} of the {each.own_runs} runs"
            yield (
                LedgerName(each.life.test.name),
                f", which this change adds or edits, has failed in {count} in this merge request",
                " that are known to have it, and passed in the others",
            )
        known = [
            (each, words)
            for each in self.failures
            if (words := describe_life(each.life, self.pipeline_id, self.mr_iid, self.asked_at))
        ]
        before = [pair for pair in known if self._count_others(pair[0])]
        before.sort(key=lambda pair: -self._count_others(pair[0]))
        for each, words in before[:MOST_TOLD]:
            yield LedgerName(each.life.test.name), " ", *words
        fresh = [pair for pair in known if not self._count_others(pair[0])]
        if len(fresh) == 1:
            yield LedgerName(fresh[0][0].life.test.name), ": ", *fresh[0][1]
        elif fresh:
            others = "other " if before else ""
            yield f"of {len(fresh)} {others}failed tests none has failed before: ", *fresh[0][1]

    def _count_others(self, each: FailedHere) -> int:
        return sum(seen.pipeline_id != self.pipeline_id for seen in each.life.failures)


def _fails_alike(failure: FailedTest | None, seen: Seen) -> bool:
    """Whether a test failed in the same way: with the same message, values included."""
    return (
        failure is not None
        and (seen.job, seen.key) == (failure.job, failure.key)
        and normalise_exactly(seen.text) == normalise_exactly(failure.text)
    )


# ------------------------------------------------------------------------------ what is recalled


@dataclass(frozen=True, slots=True)
class SurveyedJob:
    """A failed job whose tests are asked for."""

    job_id: int
    suite: str
    """As GitLab names it in a test report."""
    lines: Sequence[str] = ()
    """Those of its log that tell of the failure."""
    errors: tuple[str, ...] = ()
    """Every decisive error of its log."""


@dataclass(frozen=True, slots=True)
class RecalledTests:
    """What the host knows of a project's tests when a pipeline has failed."""

    days: tuple[DayRecord, ...]
    own: PipelineTests | None
    """What the pipeline has reported; None if that is not known, or does not count."""
    pipeline_id: int
    mr_iid: int
    asked_at: float
    """Epoch seconds."""

    def find_jobs(self, jobs: Sequence[SurveyedJob], added: str = "") -> dict[int, JobTests]:
        """Find the tests that failed in these jobs, by the job's id; a job without any is left
        out. Where GitLab has no report, a test counts that the log names and that has failed
        before. `added` are the lines that the change adds to files of tests."""
        failed = {each.job_id: self._find_failed(each) for each in jobs}
        tests = [test for found in failed.values() for test, _ in found]
        days = self._join_own()
        lives = find_lives(days, tests, self.asked_at - WINDOW) if tests else {}
        ours = [
            each
            for day in days
            for each in day.pipelines
            if self.mr_iid and each.mr_iid == self.mr_iid
        ]
        # Of a pipeline that two records have, the later one has seen more.
        ours = [*{each.pipeline_id: each for each in ours}.values()]
        return {
            each.job_id: JobTests(
                tuple(
                    _describe_own(FailedHere(lives[test], failure), each.suite, ours, added)
                    for test, failure in failed[each.job_id]
                ),
                self.pipeline_id,
                self.mr_iid,
                self.asked_at,
                sha=self.own.sha if self.own else "",
                source=self.own.source if self.own else "",
                is_whole=self._is_whole(each),
                errors=each.errors,
            )
            for each in jobs
            if failed[each.job_id]
        }

    def _join_own(self) -> Sequence[DayRecord]:
        """Return the days with the pipeline itself in them, as all looks have seen it."""
        if self.own is None:
            return self.days
        known = (each for day in self.days for each in day.pipelines)
        stored = next((each for each in known if each.pipeline_id == self.pipeline_id), None)
        joined = stored.join(self.own) if stored else self.own
        return [*self.days, DayRecord(0, "", "", (joined,))]

    def _is_whole(self, job: SurveyedJob) -> bool:
        """Whether the report names all failed tests of this run of the job, or of a later shard."""
        run = self.own.find_suite(job.suite) if self.own else None
        is_of_run = run is not None and run.newest_job >= job.job_id
        return self.own is not None and is_of_run and self.own.is_whole(job.suite)

    def _find_failed(self, job: SurveyedJob) -> list[tuple[NamedTest, FailedTest | None]]:
        own = self.own
        if own is not None and own.find_suite(job.suite):
            return [(each.test, each) for each in own.list_failures() if each.job == job.suite]
        suite = name_suite(job.suite)
        known = {
            each.test
            for day in self.days
            for pipeline in day.pipelines
            for each in pipeline.failures
            if each.test.suite == suite
        }
        return [(test, None) for test in find_tests(sorted(known), job.lines)]


def _describe_own(
    found: FailedHere, job: str, ours: Sequence[PipelineTests], added: str
) -> FailedHere:
    """Return the test with how it did in the merge request's pipelines, if the change adds or edits
    it: in those since it failed first, and on the commits on which it has failed."""
    test = found.life.test
    name = re.split(r"[\[({]", get_stem(test.name))[0].strip()
    if not re.search("[^a-z]", name) or not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", added):
        return found
    ours = [each for each in ours if (run := each.find_suite(job)) and run.is_readable]
    failed = [
        each for each in ours if any((one.test, one.job) == (test, job) for one in each.failures)
    ]
    if not failed:
        return found
    first, commits = (
        min(failed, key=lambda each: each.pipeline_id),
        {each.sha for each in failed if each.sha},
    )
    had = first.find_suite(job)
    passed = [
        each
        for each in ours
        if each not in failed
        and (each.pipeline_id > first.pipeline_id or each.sha in commits)
        and each.is_whole(job)
        and had
        and (run := each.find_suite(job))
        and run.covers(had)
    ]
    return replace(
        found,
        is_changed=True,
        own_runs=len(failed) + len(passed),
        own_failures=len(failed),
    )


Recall = Callable[[], RecalledTests | None]
"""Returns what is known of the project's tests; None if nothing is. It raises nothing."""
