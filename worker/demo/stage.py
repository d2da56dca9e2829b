"""The bundled case on the simulated GitLab."""

from dataclasses import dataclass

from worker.demo import case
from worker.demo.gitlab.state import Access, DiffFile, MergeRequest, Pipeline, User
from worker.demo.gitlab.world import World


@dataclass(frozen=True, slots=True)
class Stage:
    """The people and objects of the story. The tokens belong to the bot."""

    mr: MergeRequest
    pipeline: Pipeline
    author: User
    bot: User
    read_token: str
    write_token: str


def build_stage(world: World, bundled: case.Case) -> Stage:
    """Put the case into `world`: its project, merge request, failed pipeline and job logs."""
    author = world.add_user(
        bundled.merge_request.author.username, bundled.merge_request.author.name
    )
    bot = world.add_user("project_501_bot_4c2e", "Sandpiper", bot=True)
    project = world.add_project(bundled.project_path, dict(bundled.base_files))
    world.add_member(project, author, Access.DEVELOPER)
    world.add_member(project, bot, Access.DEVELOPER)
    mr = world.open_merge_request(
        project,
        author,
        title=bundled.merge_request.title,
        branch=bundled.merge_request.source_branch,
        files={change.path: bundled.head_files[change.path] for change in bundled.changes},
        diffs=[DiffFile(change.path, change.diff) for change in bundled.changes],
        description=bundled.merge_request.description,
    )
    world.start = min(job.started_at for job in bundled.pipeline.jobs if job.started_at)
    pipeline = world.run_pipeline(mr)
    for job in bundled.pipeline.jobs:
        world.add_job(
            pipeline,
            job.name,
            stage=job.stage,
            status=job.status,
            trace=job.trace,
            allow_failure=job.allow_failure,
        )
    return Stage(
        mr=mr,
        pipeline=pipeline,
        author=author,
        bot=bot,
        read_token=world.add_token("read", bot, "read_api"),
        write_token=world.add_token("write", bot, "api"),
    )
