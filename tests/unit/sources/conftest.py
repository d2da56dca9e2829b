"""A running GitLab with one failed merge request, and a reader bound to it."""

from collections.abc import Iterator

import pytest

from worker.core.context import Subject
from worker.demo.gitlab import GitLabSim, MergeRequest, Pipeline, Scene, failing_merge_request
from worker.sources.client import ReadClient
from worker.sources.reader import Reader


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected == []


@pytest.fixture
def scene(sim: GitLabSim) -> Scene:
    return failing_merge_request(sim)


def subject_of(sim: GitLabSim, mr: MergeRequest, pipeline: Pipeline) -> Subject:
    return Subject(
        gitlab_url=sim.url,
        project_id=mr.project.id,
        project=mr.project.path,
        mr_iid=mr.iid,
        pipeline_project_id=pipeline.project.id,
        pipeline_id=pipeline.id,
        sha=pipeline.sha,
        web_url=mr.web_url,
    )


@pytest.fixture
def client(sim: GitLabSim, scene: Scene) -> ReadClient:
    return ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene, client: ReadClient) -> Reader:
    return Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)
