"""What the API server checks before it takes a pod: its schema, and Pod Security `restricted`."""

from collections.abc import Iterator
from typing import Any

from tests.simulators.kubernetes.schema import find_fault

VERSION = "1.34.0"
_DROPPED = {"drop": ["ALL"]}


class Rejected(Exception):
    """The pod is refused. `code` is the HTTP status, `reason` the Status's."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


def check_pod(pod: dict[str, Any], namespace: str) -> None:
    """Raises Rejected."""
    if fault := find_fault(pod, VERSION):
        raise Rejected(400, "BadRequest", f"strict decoding error: {fault}")
    broken = list(_find_violations(pod["spec"]))
    if broken:
        told = f'violates PodSecurity "restricted:latest": {", ".join(broken)}'
        name = pod["metadata"]["generateName"]
        raise Rejected(403, "Forbidden", f'pods "{name}" is forbidden: {told} ({namespace})')


def _find_violations(spec: dict[str, Any]) -> Iterator[str]:
    """See https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted."""
    whole = spec.get("securityContext", {})
    if not whole.get("runAsNonRoot") or not whole.get("runAsUser"):
        yield "runAsNonRoot != true"
    if whole.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "seccompProfile"
    for volume in spec.get("volumes", []):
        if set(volume) - {"name", "emptyDir", "configMap", "secret", "projected"}:
            yield "restricted volume types"
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if spec.get(name):
            yield name
    for container in spec["containers"]:
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation != false"
        if own.get("capabilities") != _DROPPED:
            yield "unrestricted capabilities"
        if own.get("privileged"):
            yield "privileged"
