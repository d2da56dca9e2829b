"""Which failed jobs are run again by themselves: what the record proves, and what never is."""

from dataclasses import replace

import pytest

from worker.verdict.jobs import FailingJob, Group, Survey
from worker.verdict.retries import (
    MOST_JOBS,
    ProjectRetries,
    RetriedJob,
    choose_retries,
    describe_retries,
    dump_retries,
    find_strict_word,
    load_retries,
    sum_retries,
)
from worker.verdict.verdict import Ruling, Verdict

HARMLESS = """
unit · unit-tests · unit:tests 3/8 · rspec 12/40 · jest · e2e-chrome · integration · lint · mypy
build · build:linux [gcc, debug] · compile · test: [3.11, pg14] · docs:build · typecheck · coverage
api-tests · playwright · cypress:run · go-test-race · cargo test · smoke · acceptance · pytest-slow
browser tests · unittests-windows · verify · check-format · stagecoach-tests · tagline-tests
applications · infrared · producer · dbus-tests · datum-tests · reproduce · helmet-tests
"""

STRICT = """
deploy · deploy-review · redeploy · predeploy:check · undeploy · release · release:notes · releaseX
publish-npm · promote · promotion · rollout · roll-back · rollback · prod · test-prod · production
staging:smoke · canary · pages · review-app · review-app-stop · stop-review · destroy · provision-vm
terraform:plan · tofu · pulumi-up · ansible-lint · helm-test · kubectl · argocd-sync · apply
push-image · upload:artifacts · sign · signing · notarize · tag · migrate · migrations · migration
db:migrate · db · test-db-seed · seed · schema · data-load · test:data · dump · restore · backup
export · import · etl · sast · semgrep-sast · dast · secret_detection · secrets · fuzz · fuzzing
container_scanning · dependency-scan · security:audit · audit · license-check · sbom · trivy
snyk · codeql · gitleaks · compliance · billing-tests · payments · load-test · stress · chaos
DeployToStaging · runMigrations · dbMigrate · Unit Tests (staging)
"""


def names(text: str) -> list[str]:
    return [each.strip() for line in text.split("\n") for each in line.split("·") if each.strip()]


@pytest.mark.parametrize("name", names(HARMLESS))
def test_a_name_that_says_nothing_of_the_kind(name: str) -> None:
    assert find_strict_word(name) == ""


@pytest.mark.parametrize("name", names(STRICT))
def test_a_name_of_what_is_never_run_again(name: str) -> None:
    assert find_strict_word(name)


def make_job(job_id: int = 1, name: str = "unit", reason: str = "script_failure") -> FailingJob:
    return FailingJob(job_id, name, "test", reason)


def make_group(verdict: Verdict | None, *jobs: FailingJob, apart: bool = True) -> Group:
    ruling = Ruling("unit", tuple(job.job_id for job in jobs), verdict, ("x",), (), is_apart=apart)
    return Group("key", "E", jobs, ruling=ruling)


FLAKY = make_group(Verdict.FLAKY, make_job())
DIED = make_group(Verdict.INFRASTRUCTURE, make_job(reason="runner_system_failure"))
BOTH = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE})


@pytest.mark.parametrize(
    ("group", "verdict"), [(FLAKY, Verdict.FLAKY), (DIED, Verdict.INFRASTRUCTURE)]
)
def test_what_the_record_proves_is_run_again(group: Group, verdict: Verdict) -> None:
    assert choose_retries(Survey((group,)), verdict, BOTH) == group.jobs


MANY = tuple(make_job(number) for number in range(1, MOST_JOBS + 2))


def flaky(*jobs: FailingJob, apart: bool = True) -> Survey:
    return Survey((make_group(Verdict.FLAKY, *jobs, apart=apart),))


REFUSED: dict[str, tuple[Survey, str]] = {
    "the model's word alone": (Survey((make_group(None, make_job()),)), Verdict.FLAKY),
    "no record": (Survey((Group("key", "E", (make_job(),)),)), Verdict.FLAKY),
    "the note says something else": (Survey((FLAKY,)), Verdict.CHANGE),
    "the target branch's": (Survey((make_group(Verdict.TARGET, make_job()),)), Verdict.TARGET),
    "another job is the change's": (
        Survey((FLAKY, make_group(None, make_job(2, "lint")))),
        Verdict.FLAKY,
    ),
    "another job is proven otherwise": (
        Survey((FLAKY, make_group(Verdict.TARGET, make_job(2, "lint")))),
        Verdict.FLAKY,
    ),
    "the change touches it": (flaky(make_job(), apart=False), Verdict.FLAKY),
    "not proven of each job": (Survey((replace(FLAKY, jobs=(make_job(), make_job(7))),)), "flaky"),
    "not all is known": (Survey((FLAKY,), whole=False), Verdict.FLAKY),
    "an incident explains some": (Survey((FLAKY,), incidents=("i1",)), Verdict.FLAKY),
    "an incident is told": (Survey((FLAKY,), branch_lines="red"), Verdict.FLAKY),
    "an incident explains all": (Survey((FLAKY,), is_explained=True), Verdict.FLAKY),
    "a merge train": (Survey((FLAKY,), is_train=True), Verdict.FLAKY),
    "a deployment": (flaky(make_job(name="deploy")), Verdict.FLAKY),
    "a strict stage": (flaky(replace(make_job(), stage="migrations")), Verdict.FLAKY),
    "one of two deploys": (flaky(make_job(), make_job(2, "deploy")), Verdict.FLAKY),
    "another system's": (flaky(replace(make_job(), external=True)), Verdict.FLAKY),
    "a child pipeline's": (flaky(replace(make_job(), started_by="child")), Verdict.FLAKY),
    "no job": (Survey((make_group(Verdict.INFRASTRUCTURE),)), Verdict.INFRASTRUCTURE),
    "nothing": (Survey(), Verdict.FLAKY),
    "too many": (flaky(*MANY), Verdict.FLAKY),
    "a time limit": (flaky(make_job(reason="job_execution_timeout")), Verdict.FLAKY),
    **{
        reason: (
            Survey((make_group(Verdict.INFRASTRUCTURE, make_job(reason=reason)),)),
            Verdict.INFRASTRUCTURE,
        )
        for reason in (
            *("no_matching_runner", "ci_quota_exceeded", "runner_unsupported", "script_failure"),
            *("unmet_prerequisites", "data_integrity_failure", "stale_schedule", "new_reason"),
        )
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_doubt_is_a_no(name: str) -> None:
    survey, verdict = REFUSED[name]
    assert isinstance(choose_retries(survey, verdict, BOTH), str)


def test_only_what_is_switched_on_is_run_again() -> None:
    assert isinstance(choose_retries(Survey((FLAKY,)), "flaky", {Verdict.INFRASTRUCTURE}), str)
    assert isinstance(choose_retries(Survey((DIED,)), "infrastructure", {Verdict.FLAKY}), str)


# --------------------------------------------------------------------------- what was run again


def make_retried(job_id: int, sha: str = "a", job: str = "unit", at: float = 100.0) -> RetriedJob:
    return RetriedJob(sha, job, job_id, 7, "5e55", "flaky", at)


def claim(
    record: ProjectRetries, job: RetriedJob, since: float = 0, most: int = 0
) -> ProjectRetries:
    claimed = record.claim(job, since, most)
    assert isinstance(claimed, ProjectRetries)
    return claimed


def test_a_job_is_run_again_once_for_a_commit() -> None:
    record = claim(ProjectRetries(1, "g/p"), make_retried(1))
    assert isinstance(record.claim(make_retried(2), 0, 0), str)
    record = claim(claim(record, make_retried(3, sha="b")), make_retried(4, job="lint"))
    assert [each.job_id for each in record.jobs] == [1, 3, 4]


def test_a_day_has_so_many_at_most() -> None:
    record = ProjectRetries(1, "g/p")
    for number in range(3):
        record = claim(record, make_retried(number, sha=f"{number}", at=50.0 * number))
    assert "limits.retries_per_day" in str(record.claim(make_retried(9, sha="9"), 50.0, 2))
    claim(record, make_retried(9, sha="9"), 60.0, 2)


def test_what_came_of_it_is_counted_once_and_only_of_jobs_that_ran() -> None:
    record = ProjectRetries(1, "g/p")
    for number in range(1, 5):
        sha = "a" if number < 3 else "b"
        record = claim(record, make_retried(number, sha=sha, job=f"{number}"))
    for number in (1, 3, 4):
        record = record.start(number, 100 + number)
    assert [each.job_id for each in record.list_open("5e55", "a")] == [1]
    record = record.end("5e55", "a", passed=True)
    assert record == record.end("5e55", "a", passed=False)
    record = record.end("another", "b", passed=True)
    found = sum_retries([record], 0)
    assert (found.count, found.passed_count, found.failed_count) == (3, 1, 0)
    assert describe_retries(found) == "3 jobs; 1 passed, 0 failed again in the same way"
    assert sum_retries([record], 101).count == 0
    assert describe_retries(sum_retries([], 0)) == ""
    assert load_retries(dump_retries(record)) == record
    later = dump_retries(record).replace(b'"sha"', b'"later": 1, "sha"', 1)
    assert load_retries(later) == record
    assert record.drop(1).keep_since(101).jobs == ()
    assert record.forget(7).jobs == ()
    assert record.forget(8) == record


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"[" * 9000, b'{"project_id": 1, "project": "p", "jobs": [{}]}', b"null"],
)
def test_what_is_no_such_record_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a record"):
        load_retries(data)
