"""A ready scene: a project, a merge request whose pipeline failed, the people and the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.lab.gitlab.state import Access, DiffFile, Job, MergeRequest, Pipeline, Project, User
from worker.lab.gitlab.world import World

LOG = b"""\
2026-11-20T09:00:01.000000Z 00O Running with gitlab-runner 19.1.0
2026-11-20T09:00:02.000000Z 00O section_start:1763629202:step_script\r\x1b[0K\x1b[0;36mExecuting
2026-11-20T09:00:03.000000Z 01O $ pytest -q
2026-11-20T09:00:04.000000Z 01O E   AssertionError: expected 3, got 4
2026-11-20T09:00:05.000000Z 01O FAILED tests/test_sum.py::test_sum
2026-11-20T09:00:06.000000Z 00O section_end:1763629206:step_script\r\x1b[0K
2026-11-20T09:00:07.000000Z 00O \x1b[31;1mERROR: Job failed: exit code 1\x1b[0;m
"""
DIFF = DiffFile(
    "app/sum.py", "@@ -1,2 +1,2 @@\n def total(xs):\n-    return sum(xs)\n+    return 4\n"
)


@dataclass(frozen=True, slots=True)
class Scene:
    """The people and objects. `read_token` and `write_token` belong to the bot, a Reporter."""

    project: Project
    mr: MergeRequest
    pipeline: Pipeline
    job: Job
    developer: User
    bot: User
    read_token: str
    write_token: str


def make_failing_merge_request(
    world: World,
    *,
    diffs: Sequence[DiffFile] = (DIFF,),
    log: bytes = LOG,
    path: str = "team/service",
) -> Scene:
    """Make a merge request with a passed job `build`, and `unit-tests`, which failed with `log`.

    `path` is the project's.
    """
    developer = world.add_user("mara", "Mara Developer")
    bot = world.add_user("project_501_bot_5f2c", "sandpiper", bot=True)
    files = {"app/sum.py": b"def total(xs):\n    return sum(xs)\n"}
    project = world.add_project(path, files)
    world.add_member(project, developer, Access.DEVELOPER)
    world.add_member(project, bot, Access.REPORTER)
    mr = world.open_merge_request(
        project,
        developer,
        title="Sum faster",
        branch="sum-faster",
        files={"app/sum.py": b"def total(xs):\n    return 4\n"},
        diffs=diffs,
    )
    pipeline = world.run_pipeline(mr)
    world.add_job(pipeline, "build", stage="build", trace=b"Job succeeded\n")
    job = world.add_job(pipeline, "unit-tests", status="failed", trace=log)
    return Scene(
        project=project,
        mr=mr,
        pipeline=pipeline,
        job=job,
        developer=developer,
        bot=bot,
        read_token=world.add_token("read", bot, "read_api"),
        write_token=world.add_token("write", bot, "api"),
    )
