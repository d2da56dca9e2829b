"""A strict simulator of GitLab over real HTTP: what an analysis needs of REST API v4, and hooks.

See https://docs.gitlab.com/api/. What GitLab would silently ignore (an unknown route, query
parameter or field) is refused here and recorded in `GitLabSim.unexpected_requests`, so that a test
can assert that it is empty. Tests use `tests/simulators/gitlab/`, which serves more.
"""

from worker.demo.gitlab.hooks import Receiver
from worker.demo.gitlab.simulator import GitLabSim

__all__ = ["GitLabSim", "Receiver"]
