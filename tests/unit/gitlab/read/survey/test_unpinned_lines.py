"""The line of the repository that let a version drift, as the survey tells it."""

import pytest

from tests.simulators.gitlab import DiffFile, GitLabSim, Scene
from tests.unit.conftest import subject_of
from tests.worlds import branch_pipeline
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.change import FILES
from worker.gitlab.read.survey.reader import read_survey

TESTING = b"pytest==8.1.0\nruff\n"
DRIFT = b"$ pip install -r requirements/testing.txt\nSuccessfully installed ruff-%b pytest-8.1.0\n"


@pytest.mark.parametrize(
    ("files", "changed", "told"),
    [
        ({"requirements/testing.txt": TESTING}, "app/sum.py",
         ["not pinned: requirements/testing.txt:2 says ruff"]),
        ({"requirements/testing.txt": TESTING}, "requirements/testing.txt", []),
        ({"requirements/testing.txt": b"ruff==0.4.2\n", "pyproject.toml": b'  "ruff>=0.4",\n'},
         "app/sum.py", ['not pinned: pyproject.toml:1 says "ruff>=0.4"']),
        ({".gitlab-ci.yml": b"lint:\n  script:\n    - pip install ruff\n"}, "app/sum.py",
         ["not pinned: .gitlab-ci.yml:3 says pip install ruff"]),
        ({}, "app/sum.py", []),
    ],
    ids=["unpinned", "the change touches it", "elsewhere", "in the CI file", "no such line"],
)  # fmt: skip
def test_the_line_that_let_a_version_drift_is_named_with_few_requests(
    sim: GitLabSim, scene: Scene, files: dict[str, bytes], changed: str, told: list[str]
) -> None:
    scene.mr.diffs[:] = [DiffFile(changed, "@@ -1 +1 @@\n-a\n+b\n")]
    scene.project.commits[scene.pipeline.sha] = files
    scene.job.trace = DRIFT % b"0.5.0" + b"app/x.py:3:1: F999 a new rule\n"
    green = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    green.status = "success"
    sim.add_job(green, "unit-tests", trace=DRIFT % b"0.4.2")
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    reader = Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)
    (group,) = read_survey(reader).groups
    assert [each for each in group.facts if each.startswith("not pinned")] == told
    asked = [each.path for each in sim.requests if "/repository/files/" in each.path]
    assert len(asked) == len(set(asked)) <= FILES
