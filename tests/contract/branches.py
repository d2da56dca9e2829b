"""Builds pipelines and landings of a branch in the simulated GitLab, and finds them in a record."""

from collections import Counter
from dataclasses import replace

from tests.simulators.gitlab import GitLabSim, Job, MergeRequest, Pipeline, Scene
from worker.incidents.record import BranchPipeline, BranchRecord, JobEnd, Landing


def write_log(*errors: str) -> bytes:
    lines = [
        'Executing "step_script" stage of the job script',
        "$ make test",
        *errors,
        "Cleaning up project directory and file based variables",
        "ERROR: Job failed: exit code 1",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


ERROR = "tests/test_sum.py::test_sum: AssertionError: assert 4 == 3"


def land(sim: GitLabSim, scene: Scene, path: str, title: str = "Work", message: str = "") -> str:
    """Let a commit land on the default branch."""
    sim.advance_clock()
    sha = sim.commit(scene.project, "main", {path: title.encode()}, title)
    scene.project.records[sha] = replace(
        scene.project.records[sha], created_at=sim.advance_clock(), message=message
    )
    return sha


def run(sim: GitLabSim, scene: Scene, sha: str, source: str = "push") -> Pipeline:
    return sim.add_pipeline(
        scene.project, scene.developer, ref="main", sha=sha, source=source, status="running"
    )


def end(sim: GitLabSim, pipeline: Pipeline, **jobs: str) -> Pipeline:
    """End the pipeline with these jobs: `ok`, or their error."""
    for name, error in jobs.items():
        if error == "ok":
            sim.add_job(pipeline, name)
        else:
            sim.add_job(pipeline, name, status="failed", trace=write_log(error))
    sim.end_pipeline(pipeline)
    return pipeline


def get_paths(sim: GitLabSim) -> Counter[str]:
    """What was asked for, by its last word."""
    return Counter(seen.path.rpartition("/")[2] for seen in sim.requests)


def get_pipeline(record: BranchRecord, pipeline: Pipeline) -> BranchPipeline:
    return next(each for each in record.pipelines if each.pipeline_id == pipeline.id)


def get_job(record: BranchRecord, job: Job) -> JobEnd:
    ends = (each for pipeline in record.pipelines for each in pipeline.jobs)
    return next(each for each in ends if each.job_id == job.id)


def get_landing(record: BranchRecord, sha: str) -> Landing:
    return next(each for each in record.landings if each.sha == sha)


def merge(mr: MergeRequest, sha: str) -> None:
    mr.state, mr.merge_commit_sha = "merged", sha
