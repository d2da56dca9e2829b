import pytest

from tests.jobs import FINDING, Job
from worker.turns.parts import Finished


@pytest.fixture
def told(at: Job) -> Job:
    """A failure that has been looked at."""
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)
    return at
