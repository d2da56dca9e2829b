from pathlib import Path

import pytest

from tests.jobs import FINDING, Job
from tests.played_branches import DRIFTED, LANDED, Branch
from tests.simulators.gitlab import GitLabSim
from worker.turns.parts import Finished


@pytest.fixture
def told(at: Job) -> Job:
    """A failure that has been looked at."""
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)
    return at


@pytest.fixture
def landed(sim: GitLabSim, tmp_path: Path) -> Branch:
    return Branch(sim, tmp_path, LANDED)


@pytest.fixture
def drifted(sim: GitLabSim, tmp_path: Path) -> Branch:
    return Branch(sim, tmp_path, DRIFTED)
