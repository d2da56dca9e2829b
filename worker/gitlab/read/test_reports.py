"""What the jobs of a pipeline have reported of their tests, for the ledger of tests.

The summary, which GitLab has stored, is cheap and says whether a test has failed; only then the
whole report is asked for. Both go by the newest attempt of each job: a test that failed in an
earlier one is known where somebody had looked before the job ran again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from worker.errors import SourceError
from worker.gitlab.ports import EndedPipeline
from worker.gitlab.read import policy, wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.pipeline_jobs import find_retried_ids
from worker.gitlab.read.policy import MEMBER_SECONDS, PAUSE, Policy, list_projects
from worker.gitlab.read.report_stream import (
    MOST_OUTPUT,
    CountedSuite,
    ReportedCase,
    ReportedSuite,
    ReportParser,
    ReportSummary,
    drop_middles,
)
from worker.gitlab.read.served import ServedReads
from worker.gitlab.read.subjects import AT_WORK, read_merge_request
from worker.ledger.names import name_test
from worker.ledger.record import (
    MOST_FAILURES,
    MOST_SUITES,
    FailedTest,
    PipelineTests,
    RanOn,
    SuiteRun,
)
from worker.logs.normal_form import normalise_line
from worker.logs.signature import join_key, make_signature
from worker.safety.untrusted import one_line, visible
from worker.verdict.facts import parse_time

MOST_REPORT = 200 * 1024 * 1024
"""Bytes of one report that are read: of a longer one the rest of the tests is not known."""

MOST_CHILDREN, MOST_DEPTH = 20, 3
"""The most child pipelines of one pipeline that are read, and how far below it."""

LATE = 1800.0
"""For how many seconds after a pipeline's last change GitLab may still have to read a report."""

STALE = 180.0
"""The same for a report that GitLab gives again as it was: it keeps one for two minutes."""

OWN_BRANCHES = "sandpiper/fix-"
"""What the names of branches begin with that the bot has made."""

ENDED = frozenset({"success", "failed", "canceled", "manual"})
"""Statuses of pipelines whose jobs have ended, but for those that somebody has to play."""

_JOB_PAGES, _PIPELINE_PAGES = 5, 5
_LONGEST_NAME, _LONGEST_TEXT, _LONGEST_FILE = 1000, 300, 300
_END_LINES = 40
"""Lines at either end of an output in which its error is looked for."""
_MOST_KEPT = 1000

T = TypeVar("T")


class TestReads(ServedReads):
    """The part of GitLabReader for the ledger of tests. All methods raise SourceError."""

    _policy: Policy
    _redact: Callable[[str], str]
    _sleep: Callable[[float], None]

    def __init__(self, client: ReadClient, projects: Sequence[str]) -> None:
        super().__init__(client, projects)
        self._answers: dict[tuple[int, int], tuple[float, Any]] = {}

    def read_tests(
        self, project_id: int, pipeline_id: int, listed: EndedPipeline | None = None
    ) -> PipelineTests | str:
        """Return what a pipeline that has ended, with its children, has reported of its tests, or
        say why that does not count.

        `listed` is the pipeline as `find_ended_pipelines` has found it. What GitLab has not read
        yet raises SourceError too.
        """
        jobs: Sequence[wire.Job] = ()
        if listed is None or listed.status != "success":
            jobs = list_jobs(self._client, project_id, pipeline_id)
        told = listed or self._find_pipeline(project_id, pipeline_id, jobs)
        if isinstance(told, str):
            return told
        if reason := self._explain_uncounted(told):
            return reason
        reports = _Reports(self._client, told, self._redact)
        reports.read(pipeline_id, jobs)
        suites = sorted(reports.suites, key=lambda each: not each.failed)
        of_request = wire.OF_MR.fullmatch(told.ref)
        is_default = told.default_branch and told.ref == told.default_branch
        ran_on = RanOn.DEFAULT if is_default else RanOn.BRANCH
        return PipelineTests(
            pipeline_id=pipeline_id,
            sha=told.sha,
            source=one_line(told.source, 40),
            ran_on=RanOn.REQUEST if of_request else ran_on,
            created_at=told.created_at,
            ref="" if of_request else one_line(self._redact(told.ref), _LONGEST_FILE),
            mr_iid=int(of_request[1]) if of_request else 0,
            updated_at=one_line(told.updated_at, 40),
            suites=tuple(suites[:MOST_SUITES]),
            failures=tuple(reports.failures),
            left_out=reports.left_out,
        )

    def find_ended_pipelines(self, since: float) -> Iterator[Sequence[EndedPipeline] | str]:
        """Find the pipelines of each served project that have ended, without children, among those
        that GitLab has touched `since` (epoch seconds): the newest of very many.

        Yields the reason for each part that cannot be read; raises nothing.
        """
        for project in list_projects(self._client, self._globs):
            if isinstance(project, str):
                yield project
                continue
            self._sleep(PAUSE)
            what = f"the pipelines of {project.path_with_namespace}"
            query = {
                "updated_after": datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "order_by": "updated_at",
                "sort": "desc",
            }
            path = f"/projects/{project.id}/pipelines"
            try:
                listed = self._client.many(path, wire.Pipeline, what, query, _PIPELINE_PAGES)
            except SourceError as error:
                yield str(error)
                continue
            if found := [_describe(each, project) for each in listed.items if each.status in ENDED]:
                yield found
            if listed.more:
                yield f"{what}: only the newest {len(listed.items)} were looked at"

    def _find_pipeline(
        self, project_id: int, pipeline_id: int, jobs: Sequence[wire.Job]
    ) -> EndedPipeline | str:
        """Return the pipeline of a served project as its jobs name it, or as GitLab shows it; or
        say that it is gone, or not served."""
        project = self._recall((project_id, 0), lambda: self._read_one_served(project_id))
        if isinstance(project, str):
            return project
        ran = (each.pipeline for each in jobs if each.pipeline)
        own = next((each for each in ran if each.id == pipeline_id), None)
        if own and own.source and own.created_at and own.updated_at:
            return _describe(own, project)
        found = self._read_pipeline(project_id, pipeline_id)
        return found if isinstance(found, str) else _describe(found, project)

    def _read_one_served(self, project_id: int) -> wire.Project | str:
        served = self._read_served(project_id)
        return served if isinstance(served, str) else served[project_id]

    def _explain_uncounted(self, told: EndedPipeline) -> str:
        """Say why what a pipeline reports is not counted, or "". Strangers teach nothing, and what
        the bot has tried is not the project's."""
        if told.status in AT_WORK:
            return f"pipeline {told.pipeline_id} is {told.status}"
        if told.source == "parent_pipeline":
            return f"pipeline {told.pipeline_id} is a child pipeline: it is part of its parent"
        if told.ref.startswith(OWN_BRANCHES):
            return f"pipeline {told.pipeline_id} ran on a branch of the bot's"
        if not (of_request := wire.OF_MR.fullmatch(told.ref)):
            return ""
        place = told.project_id, int(of_request[1])
        return self._recall(place, lambda: self._explain_stranger(*place))

    def _explain_stranger(self, project_id: int, iid: int) -> str:
        try:
            mr = read_merge_request(self._client, project_id, iid)
        except NotFound as error:
            return str(error)
        if mr.is_from_fork and not policy.is_members(self._client, mr, self._policy):
            return f"!{iid} comes from a fork of somebody below gitlab.fork_min_access"
        return f"!{iid} is the bot's own" if mr.source_branch.startswith(OWN_BRANCHES) else ""

    def _recall(self, key: tuple[int, int], ask: Callable[[], T]) -> T:
        """Return an answer about a project (0) or one of its merge requests; it is kept for some
        minutes, as a project's pipelines are read one after the other."""
        until, kept = self._answers.get(key, (0.0, None))
        if time.monotonic() < until:
            return cast(T, kept)
        answer = ask()
        if len(self._answers) >= _MOST_KEPT:
            self._answers.clear()
        self._answers[key] = time.monotonic() + MEMBER_SECONDS, answer
        return answer


def _describe(listed: wire.Pipeline, project: wire.Project) -> EndedPipeline:
    return EndedPipeline(
        project_id=project.id,
        project=project.path_with_namespace,
        pipeline_id=listed.id,
        sha=listed.sha,
        source=listed.source,
        created_at=parse_time(listed.created_at or "") or 0.0,
        updated_at=listed.updated_at or "",
        ref=listed.ref,
        status=listed.status,
        default_branch=project.default_branch or "",
    )


@dataclass(slots=True)
class _Reports:
    """Reads the reports of one pipeline, and of the children that it has started in its own
    project. `redact` takes the secrets out of a text. All methods raise SourceError."""

    client: ReadClient
    told: EndedPipeline
    redact: Callable[[str], str]
    suites: list[SuiteRun] = field(default_factory=list[SuiteRun])
    failures: list[FailedTest] = field(default_factory=list[FailedTest])
    left_out: int = 0
    _children: int = 0

    def read(self, number: int, jobs: Sequence[wire.Job], trail: tuple[str, ...] = ()) -> None:
        """Add what the jobs of the pipeline, or of a child of it, have reported; `trail` names the
        jobs that have started the child."""
        path = f"/projects/{self.told.project_id}/pipelines/{number}"
        what = f"the tests of pipeline {number}"
        summary = self.client.one(f"{path}/test_report_summary", ReportSummary, what).test_suites
        late = _find_late(summary, jobs)
        reported: dict[str, ReportedSuite] = {}
        if late or any(each.failed_tests for each in summary):
            reported = self._read_report(path, what)
            self._refuse_early(summary, reported, late)
        counted = {each.name: each for each in summary}
        for name in dict.fromkeys((*counted, *reported)):
            self._take(name, counted.get(name), reported.get(name), late, jobs, trail)
        self._follow(path, number, trail)

    def _read_report(self, path: str, what: str) -> dict[str, ReportedSuite]:
        """Return the suites of the whole report; of one that is too large, the first ones."""
        parser = ReportParser(MOST_FAILURES - len(self.failures))
        try:
            for piece in drop_middles(self.client.stream(f"{path}/test_report", what, MOST_REPORT)):
                parser.feed(piece)
        except ValueError as error:
            text = f"{what}: GitLab's answer is not JSON"
            raise SourceError(text, transient=True, doubtful=True) from error
        except SourceError as error:
            if error.transient or error.doubtful:
                raise
        parser.end_suite()
        return {each.name: each for each in parser.suites}

    def _refuse_early(
        self,
        summary: Sequence[CountedSuite],
        reported: Mapping[str, ReportedSuite],
        late: Mapping[str, int],
    ) -> None:
        """Raise SourceError where GitLab will soon answer otherwise."""
        age, number = self._get_age(), self.told.pipeline_id
        if age < LATE and not reported.keys() >= late.keys():
            raise SourceError(f"GitLab has not read all test reports of pipeline {number} yet")
        for each in summary:
            other = reported.get(each.name)
            same = other is None or (other.tests, other.failed_tests) == (
                each.tests,
                each.failed_tests,
            )
            if age < STALE and not same and each.name not in late:
                raise SourceError(f"GitLab still gives an earlier test report of pipeline {number}")

    def _get_age(self) -> float:
        """Return how long ago the pipeline was changed, by GitLab's own clock."""
        return (self.client.get_time() or 0.0) - (parse_time(self.told.updated_at) or 0.0)

    def _take(
        self,
        name: str,
        counted: CountedSuite | None,
        reported: ReportedSuite | None,
        late: Mapping[str, int],
        jobs: Sequence[wire.Job],
        trail: tuple[str, ...],
    ) -> None:
        """Add one suite with its failed tests."""
        job = one_line(self.redact(str(wire.JobRef(" > ".join(trail), name))), _LONGEST_NAME)
        own = [each for each in jobs if _name_suite(each) == name]
        runs = Counter(each.name for each in own)
        told = reported if reported and (name in late or not counted) else counted
        ids = counted.build_ids if counted else ()
        run = SuiteRun(
            job=job,
            tests=told.tests if told else 0,
            failed=told.failed_tests if told else 0,
            skipped=told.skipped_tests if told else 0,
            newest_job=max((*ids, late.get(name, 0))),
            runs=max(runs.values(), default=1),
            seconds=sum(each.duration or 0.0 for each in own if each.status == "failed"),
            is_readable=told is None or told.is_readable,
        )
        cases = reported.cases if reported else ()
        self.suites.append(run)
        self.failures += [self._make_failure(job, each) for each in cases]
        self.left_out += max(run.failed - len(cases), 0)

    def _make_failure(self, job: str, case: ReportedCase) -> FailedTest:
        """Return a test that has failed, without secrets."""
        classname, name, file = map(self.redact, (case.classname, case.name, case.file))
        output = case.output
        if len(output) >= MOST_OUTPUT:  # the last line was cut, perhaps within a secret
            output = output.rpartition("\n")[0] or output
        lines = visible(self.redact(output)).splitlines()
        if len(lines) > 2 * _END_LINES:
            lines = lines[:_END_LINES] + lines[-_END_LINES:]
        found = make_signature(lines)
        text = found.text or next((each for each in lines if each.strip()), "")
        return FailedTest(
            test=name_test(job, classname, name, file, self.told.created_at),
            job=job,
            text=one_line(text, _LONGEST_TEXT),
            key=found.key or (text and join_key(normalise_line(text))),
            file=one_line(file, _LONGEST_FILE),
            has_passed=case.has_passed,
        )

    def _follow(self, path: str, number: int, trail: tuple[str, ...]) -> None:
        """Add what the children of a pipeline have reported."""
        if len(trail) >= MOST_DEPTH:
            return
        what = f"the trigger jobs of pipeline {number}"
        try:
            bridges = self.client.list_trigger_jobs(path, what).items
        except NotFound:
            return
        for bridge in bridges:
            child, project_id = bridge.downstream_pipeline, self.told.project_id
            if child is None or child.project_id not in (0, project_id):
                continue
            if child.status in AT_WORK and self._get_age() < LATE:
                raise SourceError(f"child pipeline {child.id} is {child.status}")
            if self._children < MOST_CHILDREN:
                self._children += 1
                has_failed = child.status != "success"
                jobs = list_jobs(self.client, project_id, child.id) if has_failed else ()
                self.read(child.id, jobs, (*trail, bridge.name))


def list_jobs(client: ReadClient, project_id: int, pipeline_id: int) -> Sequence[wire.Job]:
    """List the jobs of a pipeline, also those that were run again; none if it is gone. Raises
    SourceError."""
    path = f"/projects/{project_id}/pipelines/{pipeline_id}/jobs"
    what, query = f"the jobs of pipeline {pipeline_id}", {"include_retried": "true"}
    try:
        return client.many(path, wire.Job, what, query, _JOB_PAGES).items
    except NotFound:
        return ()


def _find_late(summary: Sequence[CountedSuite], jobs: Sequence[wire.Job]) -> dict[str, int]:
    """Return the suites of the jobs whose reports GitLab has not counted yet, each with the
    greatest id of these."""
    counted = {number for each in summary for number in each.build_ids}
    left = find_retried_ids(jobs) | counted
    late: dict[str, int] = {}
    for job in jobs:
        if job.id not in left and any(each.file_type == "junit" for each in job.artifacts):
            name = _name_suite(job)
            late[name] = max(late.get(name, 0), job.id)
    return late


def _name_suite(job: wire.Job) -> str:
    """Return the name that GitLab gives to a job's suite: that of all parts, but of one variant."""
    known = wire.parse_dimensions(job.name)
    return job.name if "matrix" in known else job.family
