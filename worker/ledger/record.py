"""What is known of a project's tests, day by day, as it is stored. Pure.

tests/{project_id}/{YYYY-MM-DD}.json   a DayRecord: the pipelines that were made on that UTC day

A test that has not failed is a number in the runs of its job; one that has is an entry for each
pipeline in which it did.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

SCHEMA = 1

MOST_FAILURES = 100
"""The most failed tests that are kept of one pipeline: where more fail at once, it is not the
tests."""

MOST_SUITES = 60
"""The most suites that are kept of one pipeline."""

MOST_RUNS = 20
"""The most runs of one suite in one pipeline that are told apart."""

MOST_OWNED = 500
"""The most files of one day whose owners are kept."""

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
    """Whether it has passed in this pipeline too: run again within its job, or with its job. Within
    a job, that is told by the test's whole name: here several with random parameters are one."""


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
    """How long its failed jobs took, also those that were run again (GitLab lists them on)."""
    is_readable: bool = True
    """Whether GitLab could parse its reports: else nothing is known of its tests."""
    earlier: tuple[int, ...] = ()
    """What `newest_job` was when it was seen before it ran again."""
    is_steady: bool = True
    """Whether all its runs had the same tests: else one proves nothing of another."""

    def covers(self, other: "SuiteRun") -> bool:
        """Whether this run, of the same suite, had all tests that the other one had: no fewer
        tests, none skipped more."""
        return (
            self.is_readable
            and self.tests > 0
            and self.tests >= other.tests
            and self.skipped <= other.skipped
            and self.is_steady
            and other.is_steady
        )

    def join(self, other: "SuiteRun") -> "SuiteRun":
        """Return what two looks at one suite in one pipeline have seen, in either order."""
        old, new = sorted((self, other), key=_order_runs)
        ran_again = new.newest_job > old.newest_job
        seen = {*old.earlier, *new.earlier, *((old.newest_job,) if ran_again else ())}
        earlier = tuple(sorted(seen - {new.newest_job}))[-MOST_RUNS:]
        same = (old.tests, old.skipped) == (new.tests, new.skipped)
        return replace(
            new,
            earlier=earlier,
            runs=max(old.runs, new.runs, len(earlier) + 1),
            seconds=max(old.seconds, new.seconds),
            is_steady=old.is_steady and new.is_steady and (same or not ran_again),
        )


def _order_runs(run: SuiteRun) -> tuple[float, ...]:
    """The newer of two runs is the greater; of two looks at one run that which shows more."""
    return (run.newest_job, run.is_readable, run.tests, run.failed, run.skipped, run.seconds)


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
    left_out: int = 0
    """How many more tests have failed than are kept here, at least."""

    def is_whole(self, job: str) -> bool:
        """Whether all tests of the suite that failed are among `failures`."""
        run = self.find_suite(job)
        listed = sum(each.job == job for each in self.failures)
        return (
            not self.left_out
            and run is not None
            and run.is_readable
            and run.tests > 0
            and run.failed <= listed
        )

    def find_suite(self, job: str) -> SuiteRun | None:
        """Return the run of a suite, by the name that GitLab gives it."""
        return next((each for each in self.suites if each.job == job), None)

    def list_failures(self) -> tuple[FailedTest, ...]:
        """List each failed test of each job once: of several with random parameters, which are one
        here, all have to have passed."""
        found: dict[tuple[NamedTest, str], FailedTest] = {}
        for each in self.failures:
            known = found.setdefault((each.test, each.job), each)
            if known.has_passed and not each.has_passed:
                found[each.test, each.job] = each
        return tuple(found.values())

    def join(self, other: "PipelineTests") -> "PipelineTests":
        """Return what two looks at one pipeline have seen, in either order: a test that failed, and
        whose suite has run again whole without its failure, has passed.

        A look that was joined before changes nothing.
        """
        if self == other:
            return self
        old, new = sorted((self, other), key=_order_looks)
        listed = (*old.list_failures(), *new.list_failures())
        passed = {(each.test, each.job) for each in listed if each.has_passed}
        passed |= {*_find_passed(old, new), *_find_passed(new, old)}
        failing = {(each.test, each.job): each for each in listed}
        failing |= {place: replace(failing[place], has_passed=True) for place in passed}
        runs = {each.job: each for each in old.suites}
        for each in new.suites:
            # A job that was erased, or whose report has expired, did run.
            runs[each.job] = runs[each.job].join(each) if each.job in runs else each
        kept = tuple(failing[place] for place in sorted(failing)[:MOST_FAILURES])
        return replace(
            new,
            suites=tuple(runs[job] for job in sorted(runs)[:MOST_SUITES]),
            failures=kept,
            left_out=max(old.left_out, new.left_out, len(failing) - len(kept)),
        )


def _order_looks(look: PipelineTests) -> tuple[float, str, str]:
    """The newer of two looks is the greater; else any order will do that is always the same."""
    try:
        at = datetime.fromisoformat(look.updated_at)
        # A time without its zone is UTC's.
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        seconds = 0.0
    return seconds, look.updated_at, repr(look)


def _find_passed(failed: PipelineTests, passed: PipelineTests) -> Iterator[tuple[NamedTest, str]]:
    """Yield the tests that failed in one look, and have passed when their suite ran again later, as
    the other look has seen it."""
    failing = {(each.test, each.job) for each in passed.failures}
    ran_again = {
        old.job
        for old in failed.suites
        if (run := passed.find_suite(old.job)) is not None
        and run.newest_job > old.newest_job
        and run.covers(old)
        and passed.is_whole(old.job)
    }
    for each in failed.failures:
        if each.job in ran_again and (each.test, each.job) not in failing:
            yield each.test, each.job


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
    left_out: int = 0
    """How many more pipelines there were than are kept."""
    newest_left_out: int = 0
    """The greatest id of these: none up to it is taken in again."""
    owners: tuple[tuple[str, str], ...] = ()
    """Who owned the files of tests that failed, on the day itself, in words: each path with its
    owners, "" for nobody."""
    schema: int = SCHEMA

    def own(self, owners: Mapping[str, str]) -> "DayRecord":
        """Return the record with the owners of some files."""
        both = sorted({**dict(self.owners), **owners}.items())
        return replace(self, owners=tuple(both[:MOST_OWNED]))

    def knows(self, pipeline_id: int, updated_at: str) -> bool:
        """Whether the pipeline was looked at in this state, or is one that is not kept."""
        found = next((each for each in self.pipelines if each.pipeline_id == pipeline_id), None)
        return found.updated_at == updated_at if found else pipeline_id <= self.newest_left_out

    def put(self, found: Iterable[PipelineTests]) -> "DayRecord":
        """Return the record with what was found of pipelines of its day, joined with what is known
        of them: adding one twice changes nothing, nor does their order."""
        known = {each.pipeline_id: each for each in self.pipelines}
        for each in found:
            number = each.pipeline_id
            if number in known:
                known[number] = known[number].join(each)
            elif number > self.newest_left_out:
                known[number] = each
        pipelines = tuple(known[number] for number in sorted(known))
        return replace(self, pipelines=pipelines).keep_newest(MOST_PIPELINES)

    def keep_newest(self, most: int) -> "DayRecord":
        """Return the record with that many pipelines at most."""
        gone = self.pipelines[: max(len(self.pipelines) - most, 0)]
        if not gone:
            return self
        newest = max(self.newest_left_out, gone[-1].pipeline_id)
        left = self.pipelines[len(gone) :]
        left_out = self.left_out + len(gone)
        return replace(self, pipelines=left, left_out=left_out, newest_left_out=newest)

    def forget(self, mr_iid: int) -> "DayRecord":
        """Return the record without what a merge request's pipelines have reported: they stay as
        looked at, so that nobody reads them again."""
        emptied = (
            replace(each, suites=(), failures=(), left_out=0)
            if mr_iid and each.mr_iid == mr_iid
            else each
            for each in self.pipelines
        )
        pipelines = tuple(emptied)
        if pipelines == self.pipelines:
            return self
        return replace(self, pipelines=pipelines, owners=())
