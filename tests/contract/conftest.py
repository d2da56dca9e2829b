"""Fixtures that several contracts use."""

import pytest

from tests.contract.places import PLACES, Place, place_of
from tests.simulators.gitlab import GitLabSim, Scene
from worker.conversation.context import Subject


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """An empty store, on a folder and on S3."""
    return place_of(request.param, request)


@pytest.fixture
def subject(sim: GitLabSim, scene: Scene) -> Subject:
    """The merge request and the pipeline of the scene."""
    project, mr = scene.project, scene.mr
    return Subject(
        sim.url, project.id, project.path, mr.iid, project.id, scene.pipeline.id, mr.sha, mr.web_url
    )
