"""The part of the Kubernetes API that sandboxes need, as a strict simulator over real HTTP.

Pods are Docker containers. What the API refuses is refused here in its own words; what no client of
ours should ask is kept in `KubernetesSim.unexpected_requests`.
"""

from tests.simulators.kubernetes.simulator import KubernetesSim

__all__ = ["KubernetesSim"]
