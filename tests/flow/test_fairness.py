"""One project's storm of failures, and another project's single one behind it."""

from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import Product, product
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import MergeRequest
from worker.lab.gitlab.state import Access, Project
from worker.lab.script import Asked, Say

STORM = 200
HANDFUL = 6
THINKS = 1.0


def thinking(*arguments: Any, **options: Any) -> AnthropicSim:
    return AnthropicSim(*arguments, think=THINKS, **options)


def puzzled(asked: Asked) -> Say:
    return Say("## Verdict\nunknown\n\n## Cause\nIt could not be told.\n")


def fail(told: Product, project: Project, number: int) -> MergeRequest:
    mr = told.gitlab.open_merge_request(
        *(project, told.scene.author),
        title=f"Change {number}",
        branch=f"change-{number}",
        files={f"file-{number}": b"1"},
    )
    pipeline = told.gitlab.run_pipeline(mr)
    told.gitlab.add_job(pipeline, "test", trace=b"it failed\n")
    assert told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline)).status_code == 202
    return mr


def another_project(told: Product) -> Project:
    project = told.gitlab.add_project("quiet/service", {"README.md": b"hello\n"})
    for who in (told.scene.author, told.scene.bot):
        told.gitlab.add_member(project, who, Access.DEVELOPER)
    return project


def explained(mrs: list[MergeRequest]) -> int:
    return sum("could not" in note.body for mr in mrs for note in mr.list_notes())


@pytest.mark.usefixtures("bubblewrap")
def test_two_hundred_failures_of_one_project_do_not_starve_anothers_one(
    tmp_path: Path, redis_url: str
) -> None:
    with product(tmp_path, puzzled, redis_url, thinking) as told:
        quiet = another_project(told)
        with told.serve():
            storm = [fail(told, told.scene.mr.project, number) for number in range(STORM)]
            lone = fail(told, quiet, 0)
            with told.process("worker", "--concurrency", "2") as worker:
                worker.until(lambda: explained([lone]), "the lone failure was not looked at")
                before = explained(storm)
                worker.until(lambda: explained(storm) > before, "the storm was forgotten")
        assert before <= HANDFUL
        assert told.gitlab.unexpected_requests == []
