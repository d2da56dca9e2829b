"""From a GitLab with a history to the verdict: the facts are read, the record rules."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.simulators.gitlab import Access, DiffFile, GitLabSim, Scene, make_failing_merge_request
from tests.unit.conftest import subject_of
from tests.worlds import LOG, again, bare, branch_pipeline, child_pipeline, job_in, target
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.fact_collection import LOGS
from worker.gitlab.read.survey.reader import add_facts, collect_facts, read_diff, read_survey
from worker.safety.redact import Redaction
from worker.verdict.facts import NOT_ASKED, Change, Target, Unknown
from worker.verdict.remarks import plain
from worker.verdict.verdict import Ruling, Verdict, decide_headline

CHANGE, TARGET, FLAKY = Verdict.CHANGE, Verdict.TARGET, Verdict.FLAKY
INFRA, UNKNOWN = Verdict.INFRASTRUCTURE, Verdict.UNKNOWN
OLD, NEW = "a" * 40, "d" * 40


@dataclass(frozen=True, slots=True)
class World:
    """A failing merge request's world: how it differs from a quiet one, and what is right."""

    name: str
    build: Callable[[GitLabSim, Scene], object]
    model: Verdict
    truth: Verdict


def _retried(sim: GitLabSim, scene: Scene) -> None:
    job_in(sim, again(sim, scene.pipeline, scene.mr), "pass")


def _attempts(*outcomes: str) -> Callable[[GitLabSim, Scene], None]:
    """Attempts before the one that failed last, in its own pipeline."""

    def build(sim: GitLabSim, scene: Scene) -> None:
        scene.pipeline.jobs.remove(scene.job)
        for outcome in outcomes:
            job_in(sim, scene.pipeline, outcome)
        job_in(sim, scene.pipeline, "same")

    return build


def _another_kind(sim: GitLabSim, scene: Scene) -> None:
    job_in(sim, again(sim, scene.pipeline, scene.mr, "schedule"), "pass")


def _another_commit(sim: GitLabSim, scene: Scene) -> None:
    made = again(sim, scene.pipeline, scene.mr)
    made.sha = OLD
    job_in(sim, made, "pass")


def _red(*runs: tuple[str, str]) -> Callable[[GitLabSim, Scene], None]:
    """The target branch's runs, oldest first; "base" stands for the merge base's commit."""

    def build(sim: GitLabSim, scene: Scene) -> None:
        base = scene.mr.base_sha
        target(sim, scene.mr, *((base if sha == "base" else sha, run) for sha, run in runs))

    return build


def _reason(reason: str, *changed: DiffFile) -> Callable[[GitLabSim, Scene], None]:
    def build(sim: GitLabSim, scene: Scene) -> None:
        scene.job.failure_reason = reason
        if changed:
            scene.mr.diffs[:] = changed

    return build


def _allowed(sim: GitLabSim, scene: Scene) -> None:
    sim.add_job(
        scene.pipeline, "links", status="failed", trace=b"ERROR: Job failed (system failure)\n",
        failure_reason="runner_system_failure", allow_failure=True,
    )  # fmt: skip


def _two(sim: GitLabSim, scene: Scene) -> None:
    _retried(sim, scene)
    job_in(sim, scene.pipeline, "other", "lint")


def _merged_into_a_red_branch(sim: GitLabSim, scene: Scene) -> None:
    target(sim, scene.mr, (OLD, "pass"), (NEW, "same"))
    scene.pipeline.ref = f"refs/merge-requests/{scene.mr.iid}/merge"


def _elsewhere(sim: GitLabSim, scene: Scene) -> None:
    other = sim.open_merge_request(scene.project, scene.developer, title="x", branch="stacked")
    job_in(sim, sim.run_pipeline(other), "same")


CI = DiffFile(".gitlab-ci.yml", "@@ -1 +1 @@\n-image: a\n+image: b\n")
ANY_YAML = DiffFile("build/pipeline.yml", "@@ -1 +1 @@\n-tags: [a]\n+tags: [b]\n")
DOCS = DiffFile("docs/index.md", "@@ -1 +1 @@\n-a\n+b\n")

WORLDS = (
    World("passed in another pipeline of the commit", _retried, CHANGE, FLAKY),
    World("passed before it failed", _attempts("pass"), CHANGE, UNKNOWN),
    World("failed, passed, and failed again", _attempts("same", "pass"), CHANGE, FLAKY),
    World("passed, then failed twice in the same way", _attempts("pass", "same"), INFRA, INFRA),
    World("passed before it failed twice", _attempts("pass", "same"), FLAKY, FLAKY),
    World("failed twice in the same way", _attempts("same"), FLAKY, FLAKY),
    World("failed in another way before", _attempts("other"), FLAKY, FLAKY),
    World("passed with a schedule's variables", _another_kind, CHANGE, CHANGE),
    World("passed on another commit", _another_commit, CHANGE, CHANGE),
    World("red at the base and still", _red(("base", "same"), (NEW, "same")), CHANGE, TARGET),
    World("red since the base", _red(("base", "pass"), (NEW, "same")), CHANGE, TARGET),
    World("red at the base, mended", _red(("base", "same"), (NEW, "pass")), FLAKY, TARGET),
    World("merged into a red branch", _merged_into_a_red_branch, CHANGE, TARGET),
    World("red with another error", _red(("base", "other"), (NEW, "other")), CHANGE, CHANGE),
    World("red, its log is gone", _red(("base", "gone"), (NEW, "gone")), CHANGE, CHANGE),
    World("red before the base", _red((OLD, "same"), ("base", "pass")), CHANGE, CHANGE),
    World("red and green by turns", _red((OLD, "same"), ("base", "pass"), (NEW, "same")), CHANGE,
          TARGET),
    World("red, then green on one commit", _red(("base", "same"), ("base", "pass")), CHANGE, FLAKY),
    World("called old, but green", _red(("base", "pass"), (NEW, "pass")), TARGET, UNKNOWN),
    World("the runner failed", _reason("runner_system_failure"), CHANGE, INFRA),
    World("the image is a new one", _reason("runner_system_failure", CI), CHANGE, CHANGE),
    World("the configuration is kept elsewhere", _reason("no_matching_runner", ANY_YAML), CHANGE,
          CHANGE),
    World("the time limit", _reason("job_execution_timeout"), CHANGE, CHANGE),
    World("an allowed job's runner failed", _allowed, CHANGE, CHANGE),
    World("one flaky, one the change's", _two, CHANGE, CHANGE),
    World("the same in another merge request", _elsewhere, CHANGE, CHANGE),
    World("only documentation changed", _reason("script_failure", DOCS), FLAKY, FLAKY),
)  # fmt: skip


def _reader(sim: GitLabSim, scene: Scene) -> Reader:
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    return Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), Redaction)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_verdict_of_a_world_is_right(sim: GitLabSim, world: World) -> None:
    scene = make_failing_merge_request(sim, log=LOG)
    world.build(sim, scene)
    rulings = _rulings(_reader(sim, scene))
    assert decide_headline(rulings, world.model).verdict == world.truth


def _rulings(reader: Reader) -> list[Ruling]:
    """Of all groups, also where rules are so certain that a survey asks for no facts."""
    groups = read_survey(reader).groups
    if not all(group.ruling for group in groups):
        groups = add_facts(groups, reader, read_diff(reader))
    return [group.ruling for group in groups if group.ruling]


def test_facts_carry_the_links_a_reader_needs(sim: GitLabSim, scene: Scene) -> None:
    scene.job.trace = LOG
    target(sim, scene.mr, (scene.mr.base_sha, "same"))
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.ruling is not None
    assert group.hard_verdict == "already failing on the target branch"
    assert group.facts[0].startswith(
        'settled as "already failing on the target branch": same failure on main: pipeline 9'
    )
    assert any("the error names tests/test_sum.py" in fact for fact in group.facts) is False
    pages = [part.url for part in group.ruling.because if hasattr(part, "url")]
    assert [page.removeprefix(scene.project.web_url).rsplit("/", 1)[0] for page in pages] == [
        "/-/pipelines",
        "/-/jobs",
    ]


def test_the_change_is_held_against_what_the_error_names(sim: GitLabSim, scene: Scene) -> None:
    scene.job.trace = LOG
    renamed = DiffFile("tests/test_totals.py", "", "tests/test_sum.py", renamed_file=True)
    lock = DiffFile("poetry.lock", "@@ -1 +1 @@\n-a\n+b\n")
    scene.mr.diffs[:] = [renamed, DiffFile("lib/test_sums.py", ""), lock, CI]
    reader = _reader(sim, scene)
    (made,) = collect_facts(read_survey(reader).groups, reader, read_diff(reader))
    assert isinstance(made.change, Change)
    assert [(t.path, t.is_certain) for t in made.change.touches] == [("tests/test_totals.py", True)]
    assert (made.change.ci, made.change.dependencies) == ((".gitlab-ci.yml",), ("poetry.lock",))
    assert not made.change.only_docs


def test_a_forks_pipeline_is_compared_with_the_target_project(sim: GitLabSim) -> None:
    scene = make_failing_merge_request(sim, log=LOG)
    fork = sim.add_project("mara/service", parent=scene.project)
    sim.add_member(fork, scene.bot, Access.REPORTER)
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="x", branch="main", source=fork
    )
    pipeline = sim.run_pipeline(mr, kind="branch")
    job = job_in(sim, pipeline, "same")
    target(sim, mr, (mr.base_sha, "same"))
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    reader = Reader.open(client, subject_of(sim, mr, pipeline), Redaction)
    (group,) = read_survey(reader).groups
    assert group.jobs[0].job_id == job.id
    assert group.hard_verdict == "already failing on the target branch"


def test_a_target_branch_that_fails_with_less_does_not_explain_what_is_new(
    sim: GitLabSim, scene: Scene
) -> None:
    tests = [f"FAILED tests/test_{name}.py::test_{name} - assert False" for name in "abcdef"]
    scene.job.trace = "\n".join([*tests, "ERROR: Job failed: exit code 1", ""]).encode()
    pipeline = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    old = job_in(sim, pipeline, "same")
    old.trace = "\n".join([*tests[:5], "ERROR: Job failed: exit code 1", ""]).encode()
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.hard_verdict == ""
    old.trace = "\n".join([tests[5], *tests[:5], "FAILED tests/test_z.py::test_z", ""]).encode()
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.hard_verdict == TARGET


def test_other_merge_requests_with_the_same_error_are_named(sim: GitLabSim, scene: Scene) -> None:
    scene.job.trace = LOG
    _elsewhere(sim, scene)
    job_in(sim, branch_pipeline(sim, scene.mr, OLD, "experiment"), "other")
    (group,) = read_survey(_reader(sim, scene)).groups
    assert [fact for fact in group.facts if "elsewhere" in fact] == [
        f"same error elsewhere: !2 job {scene.job.id + 1}"
    ]


@pytest.mark.parametrize(
    ("before", "truth"), [("same", TARGET), ("other", ""), ("pass", ""), (None, "")]
)
def test_a_childs_job_is_compared_with_the_target_branchschild_pipeline(
    sim: GitLabSim, scene: Scene, before: str | None, truth: str
) -> None:
    scene.pipeline.jobs.clear()
    child_pipeline(sim, scene.pipeline, "same")
    parent = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    # A job of the parent that is called the same is another job.
    job_in(sim, parent, "same")
    if before:
        child_pipeline(sim, parent, before)
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.hard_verdict == truth
    assert group.job_names == "unit-tests"


def test_a_childs_job_that_failed_and_passed_when_it_was_run_before_is_flaky(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.pipeline.jobs.clear()
    child = child_pipeline(sim, scene.pipeline, "same")
    job_in(sim, child, "pass")
    child.status = scene.pipeline.bridges[0].status = "failed"
    job_in(sim, child, "same")
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.hard_verdict == FLAKY


def test_a_childs_job_is_unknown_where_its_trigger_jobs_cannot_be_read(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.pipeline.jobs.clear()
    child_pipeline(sim, scene.pipeline, "same")
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    sim.fail_next("GET", "/trigger_jobs", 403)
    (made,) = collect_facts(groups, reader, NOT_ASKED)
    assert isinstance(made.target, Unknown)
    assert "trigger jobs" in made.target.why


def test_another_projects_pipeline_that_may_not_be_read_is_not_followed(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.pipeline.jobs.clear()
    child_pipeline(sim, scene.pipeline, "same")
    elsewhere = sim.add_project("other/place")
    child_pipeline(sim, branch_pipeline(sim, scene.mr, scene.mr.base_sha), "same", elsewhere)
    reader = _reader(sim, scene)
    (made,) = collect_facts(read_survey(reader).groups, reader, NOT_ASKED)
    assert made.target == Unknown(f"project {elsewhere.id} is not one this session may read")
    assert not any(f"/projects/{elsewhere.id}/" in str(request) for request in sim.requests)


def test_a_childs_job_whose_other_runs_cannot_be_read_is_not_said_not_to_have_run(
    sim: GitLabSim, scene: Scene
) -> None:
    job_in(sim, scene.pipeline, "other", "lint")
    child_pipeline(sim, scene.pipeline, "same")
    parent = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    job_in(sim, parent, "other", "lint")
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    sim.fail_next("GET", f"/pipelines/{parent.id}/trigger_jobs", 403)
    found = {made.name: made for made in collect_facts(groups, reader, NOT_ASKED)}
    assert isinstance(found["deploy > unit-tests"].target, Unknown)
    # The parent's own jobs are compared all the same.
    target = found["lint"].target
    assert isinstance(target, Target)
    assert [run.pipeline_id for run in target.runs] == [parent.id]


def test_a_job_cannot_pass_for_one_behind_a_trigger_job(sim: GitLabSim, scene: Scene) -> None:
    scene.pipeline.jobs.clear()
    child_pipeline(sim, scene.pipeline, "same")
    job_in(sim, scene.pipeline, "pass", "deploy > unit-tests")
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.hard_verdict == ""


def test_what_cannot_be_read_is_unknown_with_its_reason(sim: GitLabSim, scene: Scene) -> None:
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    sim.tokens[scene.read_token].active = False
    (made,) = collect_facts(groups, reader, read_diff(reader))
    for fact in (made.attempts, made.target, made.earlier, made.elsewhere, made.change):
        assert isinstance(fact, Unknown)
        assert "GITLAB_READ_TOKEN" in fact.why


def test_without_time_nothing_is_asked(sim: GitLabSim, scene: Scene) -> None:
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    before = len(sim.requests)
    (made,) = collect_facts(groups, reader, NOT_ASKED, seconds=-1)
    assert len(sim.requests) == before
    assert isinstance(made.target, Unknown)


def test_a_gitlab_that_hangs_is_left_behind(sim: GitLabSim, scene: Scene) -> None:
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    sim.fail_next("GET", "/pipelines", 0, delay=5.0, times=9)
    (made,) = collect_facts(groups, reader, NOT_ASKED, seconds=1.0, grace=0.1)
    assert made.target == Unknown("GitLab took too long")
    assert made.run.reason == "script_failure"


def test_requests_and_logs_are_bounded_however_long_the_history(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.job.trace = LOG
    for number in range(40):
        target(sim, scene.mr, (f"{number:040d}", "same"))
        other = sim.open_merge_request(
            scene.project, scene.developer, title="x", branch=f"b{number}"
        )
        job_in(sim, sim.run_pipeline(other), "same")
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    before = len(sim.requests)
    (made,) = collect_facts(groups, reader, read_diff(reader))
    asked = sim.requests[before:]
    assert sum("/trace" in each.path for each in asked) == LOGS
    assert len(asked) <= 30
    assert isinstance(made.target, Target)
    assert len(made.target.runs) == 6


def test_the_merge_bases_run_is_found_behind_a_long_history(sim: GitLabSim, scene: Scene) -> None:
    scene.job.trace = LOG
    base = bare(scene.project)
    target(sim, scene.mr, (base, "same"))
    target(sim, scene.mr, *((f"{number:040d}", "pass") for number in range(35)))
    (group,) = read_survey(_reader(sim, scene)).groups
    assert group.ruling is not None
    assert "a rebase brings that" in plain(group.ruling.because)


def test_the_siblings_of_a_matrix_that_passed_are_named(sim: GitLabSim, scene: Scene) -> None:
    scene.pipeline.jobs.clear()
    job_in(sim, scene.pipeline, "pass", "unit: [3.12]")
    job_in(sim, scene.pipeline, "same", "unit: [3.10]")
    (group,) = read_survey(_reader(sim, scene)).groups
    assert "of the same matrix unit: [3.12] passed" in group.facts


def test_the_siblings_in_a_child_pipeline_are_named_with_their_trigger_job(
    sim: GitLabSim, scene: Scene
) -> None:
    child = child_pipeline(sim, scene.pipeline, "same")
    child.jobs.clear()
    job_in(sim, child, "pass", "unit: [3.12]")
    job_in(sim, child, "same", "unit: [3.10]")
    facts = [fact for group in read_survey(_reader(sim, scene)).groups for fact in group.facts]
    assert "of the same matrix deploy > unit: [3.12] passed" in facts


def test_a_job_that_is_named_like_one_of_a_child_pipeline_is_none_of_its_matrix(
    sim: GitLabSim, scene: Scene
) -> None:
    child = child_pipeline(sim, scene.pipeline, "same")
    child.jobs.clear()
    job_in(sim, child, "same", "unit: [3.10]")
    job_in(sim, scene.pipeline, "pass", "deploy > unit: [3.12]")
    facts = [fact for group in read_survey(_reader(sim, scene)).groups for fact in group.facts]
    assert not any("of the same matrix" in fact for fact in facts)


def test_a_job_with_fewer_build_errors_is_not_judged_by_the_others_log(
    sim: GitLabSim, scene: Scene
) -> None:
    one = b"./dock/dock.go:12:6: undefined: Store\n"
    two = b"./dock/quay.go:34:2: undefined: Reader\n"
    scene.pipeline.jobs.clear()
    there = [branch_pipeline(sim, scene.mr, scene.mr.base_sha) for _ in range(LOGS)]
    for pipeline in (scene.pipeline, *there):
        for name, log in (("build", one), ("test", one + two)):
            trace = b"$ go build ./...\n" + log + b"ERROR: Job failed: exit code 1\n"
            sim.add_job(pipeline, name, status="failed", trace=trace, failure_reason=None)
    reader = _reader(sim, scene)
    groups = read_survey(reader).groups
    (made,) = collect_facts(groups, reader, read_diff(reader))
    (build,) = made.rest
    assert isinstance(build.target, Target)
    assert not any("Reader" in each for run in build.target.runs for each in run.errors)


def test_the_same_error_in_a_job_that_passed_when_retried_is_told(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.job.trace = LOG
    failed = job_in(sim, scene.pipeline, "same", "integration")
    passed = job_in(sim, scene.pipeline, "pass", "integration")
    (group,) = read_survey(_reader(sim, scene)).groups
    assert (
        f"the same error in integration (job {failed.id}), which passed when it was retried "
        f"(job {passed.id})"
    ) in group.facts


def test_a_run_that_failed_with_some_of_the_errors_is_told_as_such(
    sim: GitLabSim, scene: Scene
) -> None:
    tests = [f"FAILED tests/test_{name}.py::test_{name} - assert 7 == 3" for name in "ab"]
    tests.append("FAILED tests/test_c.py::test_c - expired on 2026-11-15 after 2.5s")
    scene.job.trace = "\n".join([*tests, "ERROR: Job failed: exit code 1", ""]).encode()
    old = job_in(sim, branch_pipeline(sim, scene.mr, scene.mr.base_sha), "same")
    old.trace = "\n".join([*tests[:2], "ERROR: Job failed: exit code 1", ""]).encode()
    (group,) = read_survey(_reader(sim, scene)).groups
    assert any(
        f"1 failed with 2 of the 3 errors of this failure (job {old.id}); not there: {tests[2]}"
        in each
        for each in group.facts
    )
    assert sum(f"job {old.id}" in each for each in group.facts) == 1


def test_what_was_installed_differently_from_the_last_pass_is_told(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.job.trace = b"Successfully installed click-8.2.0 attrs-25.3.0\n" + LOG
    green = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    green.status = "success"
    passed = sim.add_job(
        green, "unit-tests", trace=b"Successfully installed click-8.1.8 attrs-25.3.0\n"
    )
    reader = _reader(sim, scene)
    (group,) = read_survey(reader).groups
    assert (
        f"installed differently from the last run that passed (job {passed.id}): "
        "click 8.1.8 → 8.2.0"
    ) in group.facts
    (found,) = [
        each
        for each in reader.logs.read_log(scene.job.id).make_document().side_files()
        if each.suffix == ".installed"
    ]
    assert b"".join(found.chunks()) == "click 8.1.8 → 8.2.0\n".encode()
