"""Fixtures over a simulated GitLab; a test file may define its own in their place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs import Job
from tests.law.house import none
from tests.simulators.gitlab import GitLabSim, Scene, make_failing_merge_request

SERVED = (
    "ask for what GitLab has; or let the simulated one serve it: a record in "
    "worker/lab/gitlab/state.py, a route in evidence.py or reads.py beside it"
)


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    """A GitLab over HTTP; an unknown request fails the test, and so does a quick action."""
    with GitLabSim() as running:
        yield running
        assert none(running.unexpected_requests, SERVED)
        assert running.quick_actions == []


@pytest.fixture
def scene(sim: GitLabSim) -> Scene:
    """A merge request whose pipeline failed."""
    return make_failing_merge_request(sim)


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> Job:
    """A worker's jobs on that GitLab, with a store in a folder."""
    return Job(sim, tmp_path)
