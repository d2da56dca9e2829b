"""What is known of a project's tests, day by day, as it is stored. Pure.

tests/{project_id}/{YYYY-MM-DD}.json   a DayRecord: the pipelines that were made on that UTC day

A test that has not failed is a number in the runs of its job; one that has is an entry for each
pipeline in which it did.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

SCHEMA = 1

MOST_FAILURES = 100
"""The most failed tests that are kept of one pipeline: where more fail at once, it is not the
tests."""

MOST_SUITES = 60
"""The most suites that are kept of one pipeline."""

MOST_PIPELINES = 1000
"""The most pipelines that are kept of one day."""


class RanOn(StrEnum):
    """What a pipeline ran on."""

    DEFAULT = "default"
    """The project's default branch."""
    BRANCH = "branch"
    """Another branch, or a tag."""
    REQUEST = "request"
    """A merge request."""


@dataclass(frozen=True, slots=True, order=True)
class NamedTest:
    """A test by what is the same in each of its runs (`names.name_test`)."""

    suite: str
    """The job that runs it, without the number of its shard and the variables of its matrix."""
    place: str
    """Its class, else its file; "" if neither is known."""
    name: str
    """Its own name, with its parameters, without what is another in each run."""


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed in a pipeline."""

    test: NamedTest
    job: str
    """The suite as GitLab names it: the job's name without the number of a shard."""
    text: str = ""
    """The first line of its message, redacted."""
    key: str = ""
    """By which the message is the same elsewhere, "" if there is none."""
    file: str = ""
    has_passed: bool = False
    """Whether it has passed in this pipeline too: run again within its job, or with its job."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One suite in one pipeline: what the newest run of its jobs has reported."""

    job: str
    """The suite as GitLab names it."""
    tests: int
    failed: int = 0
    """Failures and errors."""
    skipped: int = 0
    newest_job: int = 0
    """The greatest id of its jobs, 0 if it is not known: a greater one says that it ran again."""
    runs: int = 1
    """How often it ran in this pipeline, as far as that was seen."""
    seconds: float = 0.0
    """How long its failed jobs took, of all its runs."""
    is_readable: bool = True
    """Whether GitLab could parse its reports: else nothing is known of its tests."""


@dataclass(frozen=True, slots=True)
class PipelineTests:
    """What one pipeline, with those that it has started, has reported of its tests."""

    pipeline_id: int
    sha: str
    source: str
    """GitLab's word: only pipelines of one source are compared."""
    ran_on: RanOn
    created_at: float
    """Epoch seconds: it says to which day's record the pipeline belongs."""
    ref: str = ""
    """The branch, "" for a merge request's."""
    mr_iid: int = 0
    updated_at: str = ""
    """GitLab's own text: another one says that jobs have run again since it was read."""
    suites: tuple[SuiteRun, ...] = ()
    failures: tuple[FailedTest, ...] = ()
    omitted: int = 0
    """How many more tests have failed than are kept here."""

    def is_whole(self, job: str) -> bool:
        """Whether all tests of the suite that failed are among `failures`."""
        return not self.omitted and any(
            each.job == job and each.is_readable and each.tests for each in self.suites
        )

    def find_suite(self, job: str) -> SuiteRun | None:
        """Return the run of a suite, by the name that GitLab gives it."""
        return next((each for each in self.suites if each.job == job), None)

    def join(self, newer: "PipelineTests") -> "PipelineTests":
        """Return what two looks at one pipeline have seen: a test that failed in the first, and
        whose suite has run again whole without its failure, has passed.

        A second look at the same state of the pipeline changes nothing.
        """
        if self.updated_at == newer.updated_at and self.suites:
            return self
        ran_again = {each.job for each in newer.suites if self._has_run_again(each, newer)}
        failing = {(each.test, each.job): each for each in newer.failures}
        known = {(each.test, each.job): each for each in self.failures}
        failures = [
            replace(each, has_passed=each.has_passed or each.job in ran_again)
            if place not in failing
            else replace(failing[place], has_passed=each.has_passed or failing[place].has_passed)
            for place, each in known.items()
        ]
        failures += [each for place, each in failing.items() if place not in known]
        kept = tuple(failures[:MOST_FAILURES])
        return replace(
            newer,
            suites=tuple(self._join_suites(newer))[:MOST_SUITES],
            failures=kept,
            omitted=max(self.omitted, newer.omitted) + len(failures) - len(kept),
        )

    def _has_run_again(self, run: SuiteRun, newer: "PipelineTests") -> bool:
        """Whether a suite has run again, with all its tests: what did not fail there has passed."""
        old = self.find_suite(run.job)
        return (
            old is not None
            and run.newest_job > old.newest_job
            and run.tests >= old.tests
            and run.skipped <= old.skipped
            and newer.is_whole(run.job)
        )

    def _join_suites(self, newer: "PipelineTests") -> Iterator[SuiteRun]:
        for run in newer.suites:
            old = self.find_suite(run.job)
            if old is None:
                yield run
            elif run.newest_job > old.newest_job:
                yield replace(run, runs=old.runs + run.runs, seconds=old.seconds + run.seconds)
            else:
                yield replace(run, runs=old.runs, seconds=max(old.seconds, run.seconds))
        # A job that was erased, or whose report has expired, did run.
        yield from (each for each in self.suites if newer.find_suite(each.job) is None)


@dataclass(frozen=True, slots=True)
class DayRecord:
    """The pipelines of a project that were made on one UTC day."""

    project_id: int
    project: str
    """Its path, for people to read."""
    day: str
    """YYYY-MM-DD."""
    pipelines: tuple[PipelineTests, ...] = ()
    """In the order of their ids, also those that have reported no test: they were looked at."""
    omitted: int = 0
    """How many more pipelines there were than are kept."""
    schema: int = SCHEMA

    def put(self, found: Iterable[PipelineTests]) -> "DayRecord":
        """Return the record with what was found of pipelines of its day, joined with what is known
        of them: adding one twice changes nothing."""
        known = {each.pipeline_id: each for each in self.pipelines}
        for each in found:
            old = known.get(each.pipeline_id)
            known[each.pipeline_id] = old.join(each) if old else each
        pipelines = [known[number] for number in sorted(known)]
        kept = tuple(pipelines[-MOST_PIPELINES:])
        return replace(self, pipelines=kept, omitted=self.omitted + len(pipelines) - len(kept))

    def forget(self, mr_iid: int) -> "DayRecord":
        """Return the record without the pipelines of a merge request."""
        left = tuple(each for each in self.pipelines if each.mr_iid != mr_iid)
        return replace(self, pipelines=left)
