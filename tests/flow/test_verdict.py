"""GitLab's record in the posted note: what it proves stands, whatever the model says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.worlds import again, branch_pipeline
from worker.lab import story

pytestmark = pytest.mark.usefixtures("bubblewrap")


def _note(folder: Path, prepare: Callable[[Product], None]) -> tuple[str, str]:
    """The note on the bundled case's merge request in a prepared world, and the first request."""
    with product(folder, story.make_script(), "memory://") as told:
        prepare(told)
        with told.serve() as serve:
            told.pipeline_failed()
            serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        (note,) = told.notes()
        assert told.gitlab.unexpected_requests == []
        assert told.model.unexpected_requests == []
        return note.body, told.model.raw[0].decode()


def test_a_pass_on_the_same_commit_overrules_a_model_that_blames_the_change(tmp_path: Path) -> None:
    passed = []

    def prepare(told: Product) -> None:
        retried = again(told.gitlab, told.scene.pipeline, told.scene.mr)
        passed.append(told.gitlab.add_job(retried, "unit-tests"))

    body, asked = _note(tmp_path, prepare)
    (job,) = passed
    assert "**Flaky: not caused by this change**" in body
    assert "The model said “caused by this change”, but `unit-tests` failed in" in body
    assert f"passed on the same commit in [job {job.id}]({job.web_url})" in body
    assert "**Cause in the model's view:**" in body
    assert "What GitLab and the logs show" in body.partition("<details>")[2]
    assert 'fact: settled as \\"flaky\\"' in asked


def test_the_same_failure_on_the_target_branch_is_linked_and_the_facts_are_folded(
    tmp_path: Path,
) -> None:
    red = []

    def prepare(told: Product) -> None:
        told.write_settings("incidents: {branches: []}\n")  # an incident would explain it all
        mr = told.scene.mr
        failed = next(job for job in told.scene.pipeline.jobs if job.name == "unit-tests")
        pipeline = branch_pipeline(told.gitlab, mr, mr.base_sha)
        told.gitlab.add_job(pipeline, "unit-tests", status="failed", trace=failed.trace)
        red.append(pipeline)

    body, _ = _note(tmp_path, prepare)
    (pipeline,) = red
    (job,) = pipeline.jobs
    assert "**Already failing on the target branch**\n\nThe model said" in body
    assert f"[job {job.id}]({job.web_url})" in body.partition("<details>")[0]
    folded = body.partition("<details>")[2]
    assert f"same failure on `main`: [pipeline {pipeline.id}]({pipeline.web_url})" in folded
    assert "without this change" in folded
    assert "on the commit this pipeline is built on: 1 failed in the same way" in folded
    assert "the error names" not in folded  # only a table of coverage names a changed file


def test_where_the_record_proves_nothing_the_models_verdict_stands(tmp_path: Path) -> None:
    body, asked = _note(tmp_path, lambda told: None)
    assert "**Caused by this change**" in body
    assert "The model said" not in body
    assert "`main` has no pipeline to compare with" in body
    assert "settled as" not in asked
