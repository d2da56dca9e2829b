"""More than one pipeline in the simulated GitLab: what a failure is compared with."""

from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline
from worker.lab.gitlab.state import Bridge, Job, Project

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
    where = ref or mr.target_branch
    return sim.add_pipeline(
        mr.project, mr.author, ref=where, sha=sha, source="push", status="failed"
    )


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
    status = "success" if outcome == "pass" else "failed"
    child = sim.add_pipeline(
        *(where or by.project, by.user),
        ref=by.ref, sha=by.sha, source="parent_pipeline", status=status,
    )  # fmt: skip
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
