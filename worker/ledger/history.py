"""What the days' records say of single tests: how often they failed, where, and whether that was
proven to be a flake. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from worker.ledger.names import get_stem, is_renamed, name_suite
from worker.ledger.record import DayRecord, FailedTest, NamedTest, PipelineTests, RanOn, SuiteRun

_LEAST_TOGETHER = 2
"""In how many runs tests must have failed with one another, to be told of as one."""


_MOST_COMPARED = 20
"""With how many later pipelines of its commit, at most, a failure is compared."""

_MOST_NAMESAKES = 10
"""Of how many failed tests with one name, at most, one may be another one that was renamed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure of a test in one job of one pipeline."""

    pipeline_id: int
    sha: str
    source: str
    ran_on: RanOn
    ref: str
    """The branch, "" for a merge request's."""
    mr_iid: int
    made_at: float
    """When its pipeline was made, in epoch seconds."""
    job: str
    """The suite as GitLab names it."""
    text: str
    """The first line of the message."""
    key: str
    passed_again: bool
    """Whether it is proven that the test passed later, on the same commit in the same job."""
    passed_in: int
    """The pipeline that proves it, 0 if none does."""
    seconds: float
    """How long the failed jobs of its suite took there."""
    file: str = ""
    """The test's file, as far as the report has named it."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is recorded of one test."""

    test: NamedTest
    runs: int
    """In how many pipelines its jobs have run; of a matrix each variant counts."""
    failures: tuple[Seen, ...]
    """The oldest first."""
    since_at: float
    """From when on that was counted (epoch seconds): as asked, or since there is a record."""
    first_failure_at: float
    """When it failed first, as far as that is recorded; 0.0 if it has not."""
    together: tuple[NamedTest, ...] = ()
    """The tests that have failed in just the same runs, if it was several."""
    former: tuple[NamedTest, ...] = ()
    """What it may have been called before: nothing of that is counted here."""
    runs_since: int = 0
    """In how many pipelines its jobs have run after its last failure."""

    @property
    def flakes(self) -> tuple[Seen, ...]:
        """Its failures that were flakes."""
        return tuple(each for each in self.failures if each.passed_again)

    @property
    def troubles(self) -> tuple[Seen, ...]:
        """Its failures that are not one merge request's own: flakes, and on the default branch."""
        return tuple(
            each for each in self.failures if each.passed_again or each.ran_on is RanOn.DEFAULT
        )

    @property
    def troubled_seconds(self) -> float:
        """The time between the first and the last of these."""
        times = [each.made_at for each in self.troubles]
        return max(times) - min(times) if times else 0.0

    @property
    def requests(self) -> frozenset[int]:
        """The merge requests that it has hit."""
        return frozenset(each.mr_iid for each in self.failures if each.mr_iid)

    @property
    def seconds_lost(self) -> float:
        """How long the jobs took that failed by nothing but a flake, shared or not."""
        return sum(each.seconds for each in self.flakes)


def find_lives(
    days: Iterable[DayRecord], tests: Iterable[NamedTest], since: float
) -> dict[NamedTest, Life]:
    """Return what is recorded of these tests since then (epoch seconds), also of those that have
    not failed."""
    history = _History(days, since)
    return {
        test: replace(history.tell(test), former=history.find_former(test))
        for test in dict.fromkeys(tests)
    }


class Order(StrEnum):
    """By what tests are ranked, as people are told it."""

    FLAKIEST = "flakiest"
    """Failed in the most commits without a cause, then most often; only proven flakes count."""
    NEWEST = "newest"
    """The last ones to fail for the first time."""
    SLOWEST = "slowest"
    """Those that are the longest to be mended: from the first failure to the last one."""


def get_rank(life: Life, order: Order) -> tuple[float, ...]:
    """Return the rank of a test, the first one being the least; (): it is not ranked."""
    if order is Order.NEWEST:
        return (-life.first_failure_at,) if life.troubles else ()
    if order is Order.SLOWEST:
        return (-life.troubled_seconds,) if life.troubled_seconds else ()
    commits, flakes = len({each.sha for each in life.flakes}), len(life.flakes)
    return (-commits, -flakes / max(life.runs, 1), -life.failures[-1].made_at) if flakes else ()


def rank_tests(
    days: Iterable[DayRecord], since: float, most: int = 50
) -> dict[Order, tuple[Life, ...]]:
    """Return the first tests in each order, by what was recorded since then (epoch seconds): none
    that has only failed in merge requests without a proof that it was a flake. Of tests that fail
    only together the first one stands for all."""
    history = _History(days, since)
    lives = [history.tell(test) for test in history.failures]
    ranking = dict[Order, tuple[Life, ...]]()
    for order in Order:
        ranked = [(rank, life.test, life) for life in lives if (rank := get_rank(life, order))]
        found: dict[NamedTest, Life] = {}
        for _, test, life in sorted(ranked, key=lambda each: each[:2]):
            if len(found) < most and found.keys().isdisjoint(life.together):
                found[test] = replace(life, former=history.find_former(test))
        ranking[order] = tuple(found.values())
    return ranking


def find_named(days: Iterable[DayRecord], name: str, since: float) -> tuple[Life, ...]:
    """Return the lives of the failed tests that a person calls so: by their whole name, with their
    class or file or without; if there is none, those whose name has this in it. Sorted."""
    history, wanted = _History(days, since), name.casefold().strip()
    said = {test: f"{test.place} {test.name}".casefold() for test in history.failures}
    whole = [test for test in said if wanted in (test.name.casefold(), said[test].strip())]
    found = whole or [test for test, words in said.items() if wanted in words]
    return tuple(
        replace(history.tell(test), former=history.find_former(test)) for test in sorted(found)
    )


# ---------------------------------------------------------------------------- all that is recorded

_Place = tuple[int, str]
"""A pipeline and a job."""


class _History:
    """The records of some days, by what is asked of them: runs and failures since then."""

    def __init__(self, days: Iterable[DayRecord], since: float) -> None:
        found = {each.pipeline_id: each for day in days for each in day.pipelines}
        self._pipelines = {number: found[number] for number in sorted(found)}
        begins = [each.created_at for each in found.values()]
        self._begin = max(since, min(begins, default=since))
        self.failures: dict[NamedTest, dict[_Place, FailedTest]] = defaultdict(dict)
        self._first: dict[NamedTest, float] = {}
        self._jobs: dict[str, list[int]] = defaultdict(list)
        """In which pipelines the jobs of a name, without shard and variant, have run."""
        self._stems: dict[str, list[NamedTest]] = defaultdict(list)
        self._commits: dict[tuple[str, str], list[PipelineTests]] = defaultdict(list)
        names: dict[str, str] = {}
        for number, each in self._pipelines.items():
            self._commits[each.sha, each.source].append(each)
            is_counted = each.created_at >= since
            for run in each.suites if is_counted else ():
                if run.tests and run.is_readable:
                    name = names.get(run.job) or names.setdefault(run.job, name_suite(run.job))
                    self._jobs[name].append(number)
            for failed in each.list_failures():
                first = self._first.setdefault(failed.test, each.created_at)
                self._first[failed.test] = min(first, each.created_at)
                if is_counted:
                    self.failures[failed.test][number, failed.job] = failed
        groups: dict[frozenset[_Place], list[NamedTest]] = defaultdict(list)
        for test, places in self.failures.items():
            groups[frozenset(places)].append(test)
            self._stems[get_stem(test.name)].append(test)
        self._groups = groups

    def tell(self, test: NamedTest) -> Life:
        """Return what is recorded of a test, without its former names."""
        places = self.failures.get(test, {})
        alike = self._groups[frozenset(places)] if len(places) >= _LEAST_TOGETHER else ()
        seen = [self._see(number, failed) for (number, _), failed in places.items()]
        ran = self._jobs.get(test.suite, [])
        last = max((number for number, _ in places), default=0)
        return Life(
            test,
            runs=max(len(ran), len(seen)),
            failures=tuple(sorted(seen, key=lambda each: (each.made_at, each.pipeline_id))),
            since_at=self._begin,
            first_failure_at=self._first.get(test, 0.0),
            together=tuple(each for each in alike if each != test),
            runs_since=len(ran) - bisect_right(ran, last) if places else 0,
        )

    def find_former(self, test: NamedTest) -> tuple[NamedTest, ...]:
        """Return the tests that this one may have been before it was renamed: none that has failed
        since this one did, nor one whose job has run beside this one's."""
        others = self._stems[get_stem(test.name)] if test in self.failures else []
        return tuple(
            other
            for other in (others if len(others) <= _MOST_NAMESAKES else ())
            if max(self.failures[other]) < min(self.failures[test])
            and is_renamed(self._get_any(other), self._get_any(test))
            and (
                other.suite == test.suite
                or not {*self._jobs[other.suite]} & {*self._jobs[test.suite]}
            )
        )

    def _get_any(self, test: NamedTest) -> FailedTest:
        return next(iter(self.failures[test].values()))

    def _see(self, number: int, failed: FailedTest) -> Seen:
        pipeline = self._pipelines[number]
        run = pipeline.find_suite(failed.job)
        proof = number if failed.has_passed else self._find_pass(pipeline, run, failed)
        return Seen(
            number,
            pipeline.sha,
            pipeline.source,
            pipeline.ran_on,
            pipeline.ref,
            pipeline.mr_iid,
            pipeline.created_at,
            failed.job,
            failed.text,
            failed.key,
            passed_again=bool(proof),
            passed_in=proof,
            seconds=run.seconds if run else 0.0,
            file=failed.file,
        )

    def _find_pass(self, pipeline: PipelineTests, run: SuiteRun | None, failed: FailedTest) -> int:
        """Return the pipeline that proves that a failed test passed later in the same job on the
        same commit, 0 if none does: there the suite ran whole, with no fewer tests and none skipped
        more, and the test is not among its failures."""
        if run is None or not pipeline.sha:
            return 0
        others = self._commits[pipeline.sha, pipeline.source]
        begin = bisect_right(others, pipeline.pipeline_id, key=lambda each: each.pipeline_id)
        for other in others[begin : begin + _MOST_COMPARED]:
            again = other.find_suite(failed.job)
            if (
                again is not None
                and again.covers(run)
                and other.is_whole(failed.job)
                and all(
                    (each.test, each.job) != (failed.test, failed.job) for each in other.failures
                )
            ):
                return other.pipeline_id
        return 0
