"""Who knows the webhook's secret can forge events: of their contents only ids are used, and what
belongs together is asked of GitLab. The product's own processes, the default settings."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flow.product import Product, product
from tests.flow.test_strangers import failed, fooled, opened, skipped
from tests.flow.test_survey import TICK, fail, seen
from tests.simulators.gitlab import Access, MergeRequest, Pipeline
from worker.lab.script import Scripted

pytestmark = [pytest.mark.usefixtures("bubblewrap"), pytest.mark.attack("events")]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, Scripted([fooled]), "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []


def run_elsewhere(told: Product, mr: MergeRequest, **changes: Any) -> Pipeline:
    """A pipeline of the forger's own project, which the bot serves, on the commit of `mr`."""
    name = f"mallory/farm-{len(told.gitlab.projects)}"
    farm = told.gitlab.add_project(name, public=True)
    mallory = told.gitlab.add_user("mallory")
    told.gitlab.add_member(farm, mallory, Access.MAINTAINER)
    told.gitlab.add_member(farm, told.scene.bot, Access.REPORTER)
    fields = {"ref": mr.source_branch, "sha": mr.sha, "source": "push", "status": "failed"}
    pipeline = told.gitlab.add_pipeline(farm, mallory, **(fields | changes))
    told.gitlab.add_job(pipeline, "clock", status="failed", trace=TICK % (31, pipeline.id % 100))
    return pipeline


def deliver_forged(told: Product, pipeline: Pipeline, mr: MergeRequest, **changes: Any) -> None:
    """Deliver a pipeline's event that names somebody else's merge request."""
    pipeline.mr = mr
    headers, body = told.gitlab.make_pipeline_event(pipeline)
    pipeline.mr = None
    event = json.loads(body)
    event["object_attributes"] |= changes
    answer = told.gitlab.deliver((headers, json.dumps(event).encode()))
    assert answer.status_code == httpx.codes.ACCEPTED


def test_a_pipeline_of_another_project_makes_no_note_and_teaches_no_cause(
    told: Product, record_property: Any
) -> None:
    mrs = [told.scene.mr, opened(told, "two")]
    with told.serve() as serve:
        for times, mr in enumerate(mrs, 1):
            deliver_forged(told, run_elsewhere(told, mr), mr)
            skipped(serve, "is not one of merge request", times)
        honest = opened(told, "honest")
        fail(told, serve, failed(told, honest))
        serve.until(partial(seen, told, 1), "the finding was not kept")
        deliver_forged(told, run_elsewhere(told, honest, status="success"), honest)
        skipped(serve, "is not one of merge request", 3)
        body = fail(told, serve, failed(told, opened(told, "third")))
    bot = told.scene.bot
    assert [note for mr in mrs for note in mr.list_notes() if note.author is bot] == []
    assert len(told.objects("context.json")) == 2
    assert "no model was asked" not in body
    record_property("tried", 3)


def test_logs_for_members_of_a_public_project_are_not_told_on_the_forgers_merge_request(
    told: Product,
) -> None:
    project = told.scene.mr.project
    project.public, project.public_jobs = True, False
    victim = failed(told, told.scene.mr)
    sha, mallory = victim.sha, told.gitlab.add_user("mallory")
    farm = told.gitlab.add_project("mallory/farm", public=True)
    told.gitlab.add_member(farm, mallory, Access.MAINTAINER)
    told.gitlab.add_member(farm, told.scene.bot, Access.REPORTER)
    mr = told.gitlab.open_merge_request(farm, mallory, title="Mine", branch="mine")
    mr.sha = sha  # as anybody can push a commit of a public project
    with told.serve() as serve:
        deliver_forged(told, victim, mr)
        skipped(serve, "is not one of merge request", 1)
    assert mr.list_notes() == []
    assert told.model.requests == []


def test_what_an_event_says_of_branch_commit_and_source_is_not_believed(
    told: Product, record_property: Any
) -> None:
    mr = told.scene.mr
    odd: list[tuple[Pipeline, dict[str, Any]]] = []
    for fields in ({"source": "schedule"}, {"ref": "other"}, {"sha": "0" * 40}):
        values = {"ref": mr.source_branch, "sha": mr.sha, "source": "push", "status": "failed"}
        pipeline = told.gitlab.add_pipeline(mr.project, mr.author, **(values | fields))
        told.gitlab.add_job(pipeline, "clock", status="failed", trace=TICK % (31, 5))
        odd.append((pipeline, values | {"status": "failed"}))
    with told.serve() as serve:
        for pipeline, said in odd:
            headers, body = told.gitlab.make_pipeline_event(pipeline)
            event = json.loads(body)
            event["object_attributes"] |= said
            forged = (headers, json.dumps(event).encode())
            assert told.gitlab.deliver(forged).status_code == httpx.codes.ACCEPTED
        skipped(serve, "was started by schedule, not by a change", 1)
        skipped(serve, "no open merge request for branch", 2)
        serve.until(lambda: not told.unfinished(), "a trigger has not ended")
    assert told.notes() == []
    assert told.model.requests == []
    record_property("tried", len(odd))
