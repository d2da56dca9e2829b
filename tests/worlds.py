"""More than one pipeline in the simulated GitLab: what a failure is compared with."""

from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline
from worker.demo.gitlab.state import Bridge, Job, Project

LOG = b"""\
$ pytest -q
E   AssertionError: expected 3, got 4
FAILED tests/test_sum.py::test_sum - AssertionError: expected 3, got 4
ERROR: Job failed: exit code 1
"""
OTHER_LOG = b"""\
$ pytest -q
E   ModuleNotFoundError: No module named 'yaml'
ERROR tests/test_io.py - ModuleNotFoundError: No module named 'yaml'
ERROR: Job failed: exit code 1
"""


def branch_pipeline(sim: GitLabSim, mr: MergeRequest, sha: str, ref: str = "") -> Pipeline:
    """A pipeline of a branch (by default the target branch) of the merge request's project."""
    pipeline = Pipeline(
        id=sim.make_id("pipeline"),
        iid=len(sim.pipelines) + 1,
        project=mr.project,
        ref=ref or mr.target_branch,
        sha=sha,
        source="push",
        status="failed",
        user=mr.author,
        created_at=sim.advance_clock(),
    )
    sim.pipelines[pipeline.id] = pipeline
    return pipeline


def again(sim: GitLabSim, of: Pipeline, mr: MergeRequest, source: str = "") -> Pipeline:
    """Another pipeline of the merge request on the same commit; its newest stays what it was."""
    newest = mr.head_pipeline
    made = sim.run_pipeline(mr, kind="head")
    made.sha, made.ref, made.source = of.sha, of.ref, source or of.source
    mr.head_pipeline = newest
    return made


def job_in(
    sim: GitLabSim,
    pipeline: Pipeline,
    outcome: str,
    name: str = "unit-tests",
    reason: str | None = None,
) -> Job:
    """A run of a job: "same" error as `LOG`, "other" error, "pass", or "gone": failed, no log."""
    log = {"same": LOG, "other": OTHER_LOG}.get(outcome, b"")
    status = "success" if outcome == "pass" else "failed"
    return sim.add_job(pipeline, name, status=status, trace=log, failure_reason=reason)


def child_pipeline(
    sim: GitLabSim, by: Pipeline, outcome: str, where: Project | None = None
) -> Pipeline:
    """A child pipeline whose one job ran so, behind the trigger job `deploy`."""
    child = Pipeline(
        id=sim.make_id("pipeline"), iid=len(sim.pipelines) + 1, project=where or by.project,
        ref=by.ref, sha=by.sha, source="parent_pipeline",
        status="success" if outcome == "pass" else "failed", user=by.user,
        created_at=sim.advance_clock(),
    )  # fmt: skip
    sim.pipelines[child.id] = child
    by.bridges.append(Bridge(len(by.bridges) + 1, "deploy", child.status, child))
    job_in(sim, child, outcome)
    return child


def target(sim: GitLabSim, mr: MergeRequest, *runs: tuple[str, str]) -> None:
    """Pipelines of the target branch, the oldest first: (commit, outcome of unit-tests). All of
    them ran before the merge request's."""
    for day, (sha, outcome) in enumerate(runs, 1):
        pipeline = branch_pipeline(sim, mr, sha)
        job = job_in(sim, pipeline, outcome)
        pipeline.created_at = job.created_at = f"2026-11-{14 + day}T09:00:00.000Z"


def bare(project: Project) -> str:
    """The commit at the head of the default branch."""
    return project.refs[project.default_branch]
