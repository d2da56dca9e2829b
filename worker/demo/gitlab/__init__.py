"""A strict simulator of GitLab over real HTTP: REST API v4, webhooks and quick actions.

See https://docs.gitlab.com/api/. What GitLab would silently ignore (an unknown route, query
parameter or field) is refused here and recorded in `GitLabSim.unexpected_requests`, so that a test
can assert that it is empty.
"""

from worker.demo.gitlab.hooks import Receiver
from worker.demo.gitlab.scene import Scene, make_failing_merge_request
from worker.demo.gitlab.simulator import Delivery, GitLabSim, SeenRequest
from worker.demo.gitlab.state import (
    Access,
    Bridge,
    DiffFile,
    Discussion,
    Job,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    QuickAction,
    Status,
    Token,
    User,
)

__all__ = [
    "Access",
    "Bridge",
    "Delivery",
    "DiffFile",
    "Discussion",
    "GitLabSim",
    "Job",
    "MergeRequest",
    "Note",
    "Pipeline",
    "Project",
    "QuickAction",
    "Receiver",
    "Scene",
    "SeenRequest",
    "Status",
    "Token",
    "User",
    "make_failing_merge_request",
]
