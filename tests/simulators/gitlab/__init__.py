"""The simulated GitLab of the tests: the demo's (`worker/lab/gitlab/`), and what only tests need.

That is faults, a request log, reactions, the endpoints of webhooks and of a token's projects, the
id tokens of jobs, and a ready scene.
"""

from tests.simulators.gitlab.scene import Scene, make_failing_merge_request
from tests.simulators.gitlab.simulator import GitLabSim
from tests.simulators.odd_answers import OddGitLab
from worker.lab.gitlab import Receiver
from worker.lab.gitlab.state import (
    Access,
    Bridge,
    CommitStatus,
    DiffFile,
    Job,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    User,
)

__all__ = [
    "Access",
    "Bridge",
    "CommitStatus",
    "DiffFile",
    "GitLabSim",
    "Job",
    "MergeRequest",
    "Note",
    "OddGitLab",
    "Pipeline",
    "Project",
    "Receiver",
    "Scene",
    "User",
    "make_failing_merge_request",
]
