"""A strict simulator of GitLab over real HTTP: what an analysis needs of REST API v4, and hooks.

See https://docs.gitlab.com/api/. Unknown routes, and query parameters and fields that GitLab would
silently ignore, are refused and recorded in `GitLabSim.unexpected_requests`, so that a test can
assert that there are none. Tests use `tests/simulators/gitlab/`, which serves more.
"""

from worker.lab.gitlab.simulator import GitLabSim
from worker.lab.gitlab.views import Receiver

__all__ = ["GitLabSim", "Receiver"]
