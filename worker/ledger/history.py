"""What the days' records say of single tests: how often they failed, where, and whether that was
proven to be a flake. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from worker.ledger.names import get_stem, is_renamed, name_suite
from worker.ledger.record import DayRecord, FailedTest, NamedTest, PipelineTests, RanOn, SuiteRun

_LEAST_TOGETHER = 2
"""In how many runs tests must have failed with one another, to be told of as one."""


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
    at: float
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


@dataclass(frozen=True, slots=True)
class Life:
    """What is recorded of one test."""

    test: NamedTest
    runs: int
    """In how many pipelines its jobs have run; of a matrix each variant counts."""
    failures: tuple[Seen, ...]
    """The oldest first."""
    since: float
    """From when on that was counted (epoch seconds): as asked, or since there is a record."""
    first_failure_at: float
    """When it failed first, as far as that is recorded; 0.0 if it has not."""
    together: tuple[NamedTest, ...] = ()
    """The tests that have failed in just the same runs, if it was several."""
    former: tuple[NamedTest, ...] = ()
    """What it may have been called before: nothing of that is counted here."""

    @property
    def proven(self) -> tuple[Seen, ...]:
        """Its failures that were flakes."""
        return tuple(each for each in self.failures if each.passed_again)

    @property
    def requests(self) -> frozenset[int]:
        """The merge requests that it has hit."""
        return frozenset(each.mr_iid for each in self.failures if each.mr_iid)

    @property
    def seconds_lost(self) -> float:
        """How long the jobs took that failed by nothing but a flake, shared or not."""
        return sum(each.seconds for each in self.proven)


def find_lives(
    days: Iterable[DayRecord], tests: Iterable[NamedTest], since: float
) -> dict[NamedTest, Life]:
    """Return what is recorded of these tests since then (epoch seconds), also of those that have
    not failed."""
    history = _History(since)
    history.read(days)
    return {
        test: replace(history.tell(test), former=tuple(history.find_former(test)))
        for test in dict.fromkeys(tests)
    }


def list_flaky(days: Iterable[DayRecord], since: float, most: int = 50) -> tuple[Life, ...]:
    """Return the tests that are proven to be flaky, first those that were so on most commits, then
    most often; of tests that fail only together the first one."""
    history = _History(since)
    history.read(days)
    lives = [life for test in history.failures if (life := history.tell(test)).proven]
    lives.sort(
        key=lambda life: (
            -len({each.sha for each in life.proven}),
            -len(life.proven) / max(life.runs, 1),
            -life.failures[-1].at,
            life.test,
        )
    )
    found: dict[NamedTest, Life] = {}
    for life in lives:
        if len(found) < most and found.keys().isdisjoint(life.together):
            found[life.test] = replace(life, former=tuple(history.find_former(life.test)))
    return tuple(found.values())


# ---------------------------------------------------------------------------- all that is recorded

_Place = tuple[int, str]
"""A pipeline and a job."""


@dataclass(slots=True)
class _History:
    """The records of some days, by what is asked of them."""

    since: float
    begin: float = 0.0
    runs: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By the job's name without shard and variant."""
    failures: dict[NamedTest, dict[_Place, Seen]] = field(default_factory=dict)
    first: dict[NamedTest, float] = field(default_factory=dict)
    files: dict[NamedTest, FailedTest] = field(default_factory=dict)
    stems: dict[str, list[NamedTest]] = field(default_factory=lambda: defaultdict(list))
    jobs: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The pipelines of each job."""
    groups: dict[frozenset[_Place], list[NamedTest]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def read(self, days: Iterable[DayRecord]) -> None:
        pipelines = {each.pipeline_id: each for day in days for each in day.pipelines}
        suites: dict[str, str] = {}
        commits = _Commits(pipelines)
        begins = [each.created_at for each in pipelines.values()]
        self.begin = max(self.since, min(begins, default=self.since))
        for number in sorted(pipelines):
            pipeline = pipelines[number]
            for run in pipeline.suites:
                if run.tests and run.is_readable and pipeline.created_at >= self.since:
                    name = suites.get(run.job) or suites.setdefault(run.job, name_suite(run.job))
                    self.runs[name] += 1
                    self.jobs[name].add(number)
            if pipeline.failures:
                self._add(pipeline, commits)
        for test, seen in self.failures.items():
            self.groups[frozenset(seen)].append(test)

    def _add(self, pipeline: PipelineTests, commits: "_Commits") -> None:
        for failed in pipeline.list_failures():
            test, at = failed.test, pipeline.created_at
            self.first[test] = min(self.first.get(test, at), at)
            if at < self.since:
                continue
            if test not in self.failures:
                self.failures[test] = {}
                self.files[test] = failed
                self.stems[get_stem(test.name)].append(test)
            run = commits.find_suites(pipeline).get(failed.job)
            proof = commits.find_pass(pipeline, run, failed)
            self.failures[test][pipeline.pipeline_id, failed.job] = Seen(
                pipeline.pipeline_id,
                pipeline.sha,
                pipeline.source,
                pipeline.ran_on,
                pipeline.ref,
                pipeline.mr_iid,
                at,
                failed.job,
                failed.text,
                failed.key,
                passed_again=bool(proof),
                passed_in=proof,
                seconds=run.seconds if run else 0.0,
            )

    def tell(self, test: NamedTest) -> Life:
        seen = self.failures.get(test, {})
        alike = self.groups[frozenset(seen)] if len(seen) >= _LEAST_TOGETHER else ()
        return Life(
            test,
            runs=max(self.runs.get(test.suite, 0), len(seen)),
            failures=tuple(sorted(seen.values(), key=lambda each: (each.at, each.pipeline_id))),
            since=self.begin,
            first_failure_at=self.first.get(test, 0.0),
            together=tuple(each for each in alike if each != test),
        )

    def find_former(self, test: NamedTest) -> Iterator[NamedTest]:
        """Yield the tests that this one may have been before it was renamed: none that has failed
        since this one did, nor one whose job has run beside this one's."""
        if test not in self.failures:
            return
        begin = min(self.failures[test])
        for other in self.stems[get_stem(test.name)]:
            if (
                is_renamed(self.files[other], self.files[test])
                and max(self.failures[other]) < begin
                and (
                    other.suite == test.suite
                    or self.jobs[other.suite].isdisjoint(self.jobs[test.suite])
                )
            ):
                yield other


class _Commits:
    """The pipelines that ran on one commit, to be compared."""

    def __init__(self, pipelines: Mapping[int, PipelineTests]) -> None:
        self._pipelines: dict[tuple[str, str], list[PipelineTests]] = defaultdict(list)
        for number in sorted(pipelines):
            each = pipelines[number]
            self._pipelines[each.sha, each.source].append(each)
        self._suites: dict[int, dict[str, SuiteRun]] = {}
        self._failing: dict[int, frozenset[tuple[NamedTest, str]]] = {}

    def find_suites(self, pipeline: PipelineTests) -> Mapping[str, SuiteRun]:
        """Return the suites of a pipeline by their jobs' names."""
        number = pipeline.pipeline_id
        if number not in self._suites:
            self._suites[number] = {each.job: each for each in pipeline.suites}
        return self._suites[number]

    def find_pass(self, pipeline: PipelineTests, run: SuiteRun | None, failed: FailedTest) -> int:
        """Return the pipeline that proves that a failed test passed later in the same job on the
        same commit, 0 if none does: there the suite ran whole, with no fewer tests and none skipped
        more, and the test is not among its failures."""
        if failed.has_passed:
            return pipeline.pipeline_id
        others = self._pipelines[pipeline.sha, pipeline.source] if pipeline.sha and run else ()
        for other in others:
            if other.pipeline_id <= pipeline.pipeline_id or run is None:
                continue
            again = self.find_suites(other).get(failed.job)
            if again is None or not again.covers(run) or not other.is_whole(failed.job):
                continue
            if (failed.test, failed.job) not in self._find_failing(other):
                return other.pipeline_id
        return 0

    def _find_failing(self, pipeline: PipelineTests) -> frozenset[tuple[NamedTest, str]]:
        number = pipeline.pipeline_id
        if number not in self._failing:
            self._failing[number] = frozenset((each.test, each.job) for each in pipeline.failures)
        return self._failing[number]
