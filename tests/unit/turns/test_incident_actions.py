"""Jobs that run again for a red branch that is green again, and the incident's own issue, whatever
dies in between."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import Job
from tests.parts import change_parts
from tests.simulators.gitlab import Access, GitLabSim, MergeRequest
from tests.simulators.gitlab.issues import Issue
from tests.steps import Killed, Stepped, Steps
from worker.errors import ForgeError, SourceError
from worker.gitlab.write.api import WriteClient
from worker.gitlab.write.incident_writers import CheckedIncidentWriter, GitLabIncidents
from worker.incidents.record import (
    NOBODY,
    BranchFailure,
    BranchPipeline,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
)
from worker.lab.gitlab.state import Job as GitLabJob
from worker.turns.incident_actions import run_again, write_issue
from worker.turns.parts import Deps

KEY, TEXT = "k", "E   ConnectionError: no answer from tests/db.py:12"
ERRORS = ((KEY, TEXT),)
NAME = "unit-tests"
FIRST = 1_700_000_000.0


@dataclass(slots=True)
class Branch:
    """A project whose branch was red by itself and is green again, and merge requests it hit."""

    at: Job
    mrs: list[MergeRequest] = field(default_factory=list)
    jobs: dict[int, GitLabJob] = field(default_factory=dict)

    @property
    def sim(self) -> GitLabSim:
        return self.at.sim

    @property
    def project_id(self) -> int:
        return self.at.scene.project.id

    def build_deps(self, steps: Steps | None = None) -> Deps:
        client = WriteClient(self.sim.url, self.at.scene.write_token, (2.0, 2.0))
        writer = GitLabIncidents(client, lambda seconds: None)
        checked = CheckedIncidentWriter(writer, frozenset(), lambda text: text)
        deps = self.at.build_deps(incident_writer=checked)
        if steps is None:
            return deps
        return change_parts(
            deps,
            incident_writer=Stepped(deps.gitlab.incident_writer, steps),
            incidents=Stepped(deps.storage.incidents, steps),
            pipelines=Stepped(deps.gitlab.pipelines, steps),
        )

    def add_request(self) -> RequestRecord:
        """Open a merge request whose job fails as the branch did, and store what is known."""
        scene = self.at.scene
        name = f"work-{len(self.mrs)}"
        mr = self.sim.open_merge_request(
            scene.project, scene.developer, title=name, branch=name, files={name: b"x"}
        )
        pipeline = self.sim.run_pipeline(mr)
        job = self.sim.add_job(pipeline, NAME, status="failed", trace=TEXT.encode())
        self.mrs.append(mr)
        self.jobs[mr.iid] = job
        record = RequestRecord(
            mr.iid,
            pipeline.id,
            ended_at=FIRST + 90,
            base="a" * 40,
            jobs=(JobEnd(NAME, job.id, JobOutcome.FAILED, FIRST + 80, ERRORS),),
            is_member=True,
            told_incidents=("i1",),
        )
        self.store(record)
        return record

    def store(self, record: RequestRecord) -> None:
        incidents = self.at.build_deps().storage.incidents
        incidents.change_request(self.project_id, "main", record.mr_iid, lambda _: record)

    def read(self) -> tuple[RequestRecord, ...]:
        return self.at.build_deps().storage.incidents.list_requests(self.project_id, "main")

    def run(self, most: int = 2, steps: Steps | None = None) -> tuple[RequestRecord, ...]:
        record = make_record(self.project_id, self.at.scene.project.path)
        return run_again(record, record.incidents[0], self.read(), self.build_deps(steps), most)

    def list_runs(self) -> list[int]:
        """The merge requests for which a job was run again, in that order; GitLab was asked for
        each job at most once, though it would refuse to run one twice."""
        asked = [seen.path for seen in self.sim.requests if seen.path.endswith("/retry")]
        assert len(asked) == len(set(asked))
        owners = {mr.head_pipeline.id: mr.iid for mr in self.mrs if mr.head_pipeline}
        return [owners[each.pipeline.id] for each in self.sim.retried]


def make_record(project_id: int, project: str, **changes: Any) -> BranchRecord:
    """A branch with one commit, on which the job has passed, failed twice, and passed."""
    outcomes = [JobOutcome.PASSED, JobOutcome.FAILED, JobOutcome.FAILED, JobOutcome.PASSED]
    pipelines = tuple(
        BranchPipeline(
            11 + number,
            "a" * 40,
            "schedule",
            FIRST + 60 * number,
            FIRST + 60 * number + 30,
            (JobEnd(NAME, 101 + number, end, FIRST + 60 * number + 20,
                ERRORS if end is JobOutcome.FAILED else ()),),
        )
        for number, end in enumerate(outcomes)
    )  # fmt: skip
    failure = BranchFailure(
        KEY, TEXT, (NAME,), since_pipeline=12, since_at=FIRST + 90, since_sha="a" * 40,
        green_sha="a" * 40, green_pipeline=11, until_pipeline=14,
        until_at=FIRST + 210, ended_by=NOBODY,
    )  # fmt: skip
    incident = Incident("i1", IncidentState.CLOSED, (failure,), opened_at=FIRST, closed_at=FIRST)
    landing = Landing("a" * 40, FIRST - 600, "Start", "mara")
    incident = replace(incident, **changes)
    return BranchRecord(project_id, project, "main", (landing,), pipelines, (incident,))


@pytest.fixture
def branch(sim: GitLabSim, tmp_path: Path) -> Branch:
    return make_branch(sim, tmp_path)


def make_branch(sim: GitLabSim, tmp_path: Path) -> Branch:
    at = Job(sim, tmp_path)
    sim.add_member(at.scene.project, at.scene.bot, Access.DEVELOPER)
    made = Branch(at)
    for _ in range(4):
        made.add_request()
    return made


# ------------------------------------------------------------------------------ jobs run again


def test_the_newest_are_run_again_each_once_and_no_more(branch: Branch) -> None:
    newest = [mr.iid for mr in reversed(branch.mrs)]
    stands = branch.run(most=2)
    assert branch.list_runs() == newest[:2]
    assert [each.mr_iid for each in stands if each.run_again] == newest[:2]
    assert stands == branch.read()
    for _ in range(3):
        assert branch.run(most=2) == stands
    assert branch.list_runs() == newest[:2]
    assert branch.run(most=0) == stands
    branch.run(most=4)
    assert branch.list_runs() == newest


def test_what_failed_again_is_not_run_again(branch: Branch) -> None:
    branch.run(most=1)
    (again,) = branch.sim.retried
    again.status = "failed"
    again.pipeline.status = "failed"
    newest = branch.read()[0]
    job = replace(newest.jobs[0], job_id=again.id)
    branch.store(replace(newest, jobs=(job,)))
    branch.run(most=4)
    assert again.pipeline.id not in [each.pipeline.id for each in branch.sim.retried[1:]]
    assert len(branch.sim.retried) > 1


Spoil = Callable[[Branch, MergeRequest, GitLabJob], object]


def close(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    mr.state = "closed"


def merge(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    mr.state = "merged"


def push(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    branch.sim.push(mr, {"more": b"y"})


def supersede(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    branch.sim.run_pipeline(mr, status="running")


def run_by_hand(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.is_retried = True
    branch.sim.add_job(job.pipeline, NAME, status="running")


def let_pass(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.status = "success"


def allow(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.allow_failure = True


def archive(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    mr.project.archived = True


def ride(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.pipeline.ref = f"refs/merge-requests/{mr.iid}/train"


def lose(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.pipeline.jobs.remove(job)


def start_by_hand(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    job.manual = True


def hide(branch: Branch, mr: MergeRequest, job: GitLabJob) -> None:
    branch.sim.fail_next("POST", "/graphql$", 403, 9)


SPOILS: list[Spoil] = [
    *(close, merge, push, supersede, run_by_hand, let_pass, allow, archive, ride, lose),
    *(start_by_hand, hide),
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_gitlab_is_asked_right_before(branch: Branch, spoil: Spoil) -> None:
    known = branch.read()
    for mr in branch.mrs:
        spoil(branch, mr, branch.jobs[mr.iid])
    record = make_record(branch.project_id, branch.at.scene.project.path)
    stands = run_again(record, record.incidents[0], known, branch.build_deps(), 4)
    assert branch.sim.retried == []
    assert not any(each.run_again for each in stands)
    assert not any("retry" in seen.path for seen in branch.sim.requests)


WAITS = JobEnd("deploy", 9001, JobOutcome.NO_RESULT, deploys=True)
CHANGES: list[Callable[[RequestRecord], RequestRecord]] = [
    lambda each: replace(each, is_over=True),
    lambda each: replace(each, is_member=False),
    lambda each: replace(each, kind=PipelineKind.MERGE_TRAIN),
    lambda each: replace(each, run_again=(each.jobs[0].job_id,)),
    lambda each: replace(each, jobs=(replace(each.jobs[0], deploys=True),)),
    lambda each: replace(each, jobs=(*each.jobs, WAITS)),
    lambda each: replace(each, jobs=()),
    lambda each: replace(each, jobs=(replace(each.jobs[0], outcome=JobOutcome.PASSED),)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_record_forbids_it(
    branch: Branch, change: Callable[[RequestRecord], RequestRecord]
) -> None:
    for each in branch.read():
        branch.store(change(each))
    branch.run(most=4)
    assert branch.sim.retried == []


@pytest.mark.parametrize(
    ("status", "is_marked"), [(401, False), (429, False), (500, True), (504, True)]
)
def test_only_what_has_surely_not_run_may_run_later(
    branch: Branch, status: int, is_marked: bool
) -> None:
    branch.sim.fail_next("POST", "/retry$", status, 3, headers={"Retry-After": "0"})
    with pytest.raises(ForgeError):
        branch.run(most=1)
    assert branch.sim.retried == []
    assert any(each.run_again for each in branch.read()) == is_marked
    assert any(each.ran_for for each in branch.read()) == is_marked
    branch.sim.clear_faults()
    branch.run(most=1)
    assert len(branch.sim.retried) == (0 if is_marked else 1)


def test_a_read_that_fails_runs_nothing(branch: Branch) -> None:
    with branch.sim.fail_all(502), pytest.raises(SourceError):
        branch.run()
    assert not any(each.run_again for each in branch.read())


def count_steps(branch: Branch, most: int) -> int:
    steps = Steps()
    branch.run(most, steps)
    return steps.count


STEPS = range(17)
"""Of two runs: each asks GitLab, marks, counts and runs; each call is two steps."""


def test_the_steps_are_all_of_them(branch: Branch) -> None:
    assert count_steps(branch, 2) == len(STEPS) - 1


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_dies_costs_at_most_one_run(branch: Branch, step: int) -> None:
    with suppress(Killed):
        branch.run(2, Steps(step))
    for _ in range(2):
        branch.run(2)
    runs = branch.list_runs()
    assert len(runs) == len(set(runs))
    assert len(runs) in (1, 2)
    assert sum(bool(each.run_again) for each in branch.read()) == 2


@pytest.mark.parametrize("step", STEPS)
def test_another_worker_in_between_runs_nothing_twice_and_no_more(
    branch: Branch, step: int
) -> None:
    def join() -> None:
        branch.run(2)

    branch.run(2, Steps(step, join))
    branch.run(2)
    runs = branch.list_runs()
    assert len(runs) == len(set(runs))
    assert 1 <= len(runs) <= 2


@pytest.mark.parametrize("step", STEPS)
def test_workers_that_see_different_merge_requests_keep_to_the_number(
    branch: Branch, step: int
) -> None:
    def join() -> None:
        branch.add_request()
        branch.add_request()
        branch.run(2)

    branch.run(2, Steps(step, join))
    branch.run(2)
    runs = branch.list_runs()
    assert len(runs) == len(set(runs))
    assert len(runs) <= 2


# ------------------------------------------------------------------------------------ the issue


OPEN: dict[str, Any] = {"state": IncidentState.OPEN, "closed_at": 0.0}


def write(branch: Branch, steps: Steps | None = None, **changes: Any) -> int:
    record = make_record(branch.project_id, branch.at.scene.project.path, **changes)
    return write_issue(record, record.incidents[0], branch.read(), branch.build_deps(steps))


def issues_of(branch: Branch) -> Sequence[Issue]:
    return branch.sim.issues.issues.get(branch.project_id, [])


def test_an_incident_has_one_issue_from_its_beginning_to_its_end(branch: Branch) -> None:
    number = write(branch, **OPEN)
    (issue,) = issues_of(branch)
    assert (issue.iid, issue.state, issue.title) == (number, "opened", f"`main` is red: `{NAME}`")
    assert write(branch, issue_iid=number, **OPEN) == number
    written = [seen for seen in branch.sim.requests if seen.method in ("POST", "PUT")]
    assert len(written) == 1
    assert write(branch, issue_iid=number) == number
    assert issue.state == "closed"
    assert "**`main` is green again**" in issue.description
    assert "It passed again without a change of the code" in issue.description
    assert write(branch, issue_iid=number, **OPEN) == number
    assert issue.state == "opened"
    assert branch.sim.quick_actions == []


@pytest.mark.parametrize("state", [IncidentState.SUSPECTED, IncidentState.CLOSED])
def test_nothing_is_made_of_what_nobody_was_told(branch: Branch, state: IncidentState) -> None:
    assert write(branch, state=state) == 0
    assert issues_of(branch) == []


def test_a_flake_is_taken_back(branch: Branch) -> None:
    number = write(branch, **OPEN)
    write(branch, state=IncidentState.WITHDRAWN, issue_iid=number)
    (issue,) = issues_of(branch)
    assert issue.state == "closed"
    assert "Taken back" in issue.description


@pytest.mark.parametrize(
    ("public", "public_jobs", "issues", "hidden"),
    [
        (True, True, "enabled", False),
        (True, False, "enabled", True),
        (True, False, "private", False),
        (False, True, "enabled", False),
        (False, False, "enabled", False),
    ],
)
def test_it_is_confidential_where_logs_are_for_fewer_people(
    branch: Branch, public: bool, public_jobs: bool, issues: str, hidden: bool
) -> None:
    project = branch.at.scene.project
    project.public, project.public_jobs, project.issues_access = public, public_jobs, issues
    write(branch, **OPEN)
    assert [each.confidential for each in issues_of(branch)] == [hidden]


def test_a_project_without_issues_gets_none(branch: Branch) -> None:
    branch.at.scene.project.issues_access = "disabled"
    assert write(branch, **OPEN) == 0
    assert not any(seen.method == "POST" for seen in branch.sim.requests)


def test_an_archived_project_gets_none(branch: Branch) -> None:
    branch.at.scene.project.archived = True
    assert write(branch, **OPEN) == 0
    assert not any(seen.method == "POST" for seen in branch.sim.requests)


@pytest.mark.parametrize(
    ("status", "raises"), [(403, False), (404, False), (429, True), (502, True)]
)
def test_what_gitlab_refuses_for_good_is_left(branch: Branch, status: int, raises: bool) -> None:
    branch.sim.fail_next("POST", "/issues$", status, 9, headers={"Retry-After": "0"})
    if raises:
        with pytest.raises(ForgeError):
            write(branch, **OPEN)
    else:
        assert write(branch, **OPEN) == 0


def test_a_blocked_bot_writes_nothing(branch: Branch) -> None:
    with branch.sim.fail_all(403):
        assert write(branch, **OPEN) == 0
        branch.run()
    assert branch.sim.retried == []


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("is_over", [False, True])
def test_a_worker_that_dies_leaves_one_issue(branch: Branch, step: int, is_over: bool) -> None:
    number = write(branch, **OPEN) if is_over else 0
    wanted = {"issue_iid": number} if is_over else OPEN
    with suppress(Killed):
        write(branch, Steps(step), **wanted)
    write(branch, **wanted)
    assert [each.state for each in issues_of(branch)] == ["closed" if is_over else "opened"]


def commit_owners(branch: Branch, place: str, text: str) -> None:
    branch.sim.commit(branch.at.scene.project, "main", {place: text.encode()})


@pytest.mark.parametrize("place", ["CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"])
def test_the_owners_of_what_the_error_names_are_shown(branch: Branch, place: str) -> None:
    commit_owners(branch, place, "* @mara\n/tests/ @team/qa @all d@example.com\n")
    write(branch, **OPEN)
    said = "Owners of the code in question: `team/qa`, `all` and `d@example.com`"
    assert said in issues_of(branch)[0].description


def test_the_first_file_of_owners_holds(branch: Branch) -> None:
    commit_owners(branch, ".gitlab/CODEOWNERS", "* @last\n")
    commit_owners(branch, "docs/CODEOWNERS", "* @first\n")
    write(branch, **OPEN)
    assert "in question: `first`" in issues_of(branch)[0].description


def test_owners_that_cannot_be_read_are_left_out(branch: Branch) -> None:
    branch.sim.fail_next("GET", "/files/", 403)
    write(branch, **OPEN)
    assert "Owners" not in issues_of(branch)[0].description


def test_a_dry_run_does_nothing(branch: Branch) -> None:
    deps = branch.at.build_deps()
    record = make_record(branch.project_id, "team/service", **OPEN)
    assert write_issue(record, record.incidents[0], branch.read(), deps) == 0
    assert issues_of(branch) == []
