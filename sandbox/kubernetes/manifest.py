"""The pod of a sandbox: its limits and its hardening.

It conforms to the Pod Security Standard `restricted`. Every process started in a pod has the
container's uid, so process 1 cannot have another one. Commands cannot read process 1 because its
interpreter is unreadable. The kernel lets no process of a PID namespace end or stop process 1 of
that namespace.
"""

from dataclasses import dataclass
from typing import Any

from sandbox.spec import (
    FOLDERS,
    OWNER_LABEL,
    PYTHON,
    SESSION_LABEL,
    TERMINATION_LOG,
    ContainerSpec,
    choose_users,
    parse_size,
)

CONTAINER = "sandbox"
LABELS = {"app.kubernetes.io/name": "sandpiper", "app.kubernetes.io/component": "sandbox"}
"""The labels of every sandbox's pod; the chart's network policy and quota select by them."""

_MAIN = f"{FOLDERS}; exec {' '.join(PYTHON)} /opt/sandpiper/sandbox/image/pod.py"

_CPU_SHARE, _MEMORY_SHARE = 10, 4
"""The limits divided by these are the requests, because a sandbox mostly waits for the model."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The settings of a pod besides its container's spec.

    `pull_secrets` are names of Secrets in the namespace. Times are in seconds: the cluster ends the
    pod after `lifetime`; within `start_seconds` it must be scheduled, its image pulled and its
    container running; a network policy must take effect within `policy_seconds`.
    """

    pull_secrets: tuple[str, ...] = ()
    lifetime: int = 6 * 3600
    start_seconds: int = 180
    policy_seconds: int = 15


def make_manifest(
    spec: ContainerSpec, settings: PodSettings, session: str, owner: str
) -> dict[str, Any]:
    """Make the manifest of a sandbox's pod.

    The kernel counts the processes of a uid over the whole node, so each pod has a uid of its own.
    """
    uid = choose_users().commands
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": settings.lifetime,
        "hostname": "sandbox",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": uid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_make_container(spec)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": str(spec.workspace)}}
        ],
    }
    if spec.runtime != "runc":
        pod["runtimeClassName"] = spec.runtime
    if settings.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    labels = {**LABELS, SESSION_LABEL: session, OWNER_LABEL: owner}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "sandpiper-sandbox-", "labels": labels},
        "spec": pod,
    }


def _make_container(spec: ContainerSpec) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", _MAIN],
        "workingDir": "/tmp",
        "terminationMessagePath": TERMINATION_LOG,
        "resources": {
            "requests": _make_resources(
                parse_size(spec.memory) // _MEMORY_SHARE, spec.cpus / _CPU_SHARE
            ),
            "limits": _make_resources(parse_size(spec.memory), spec.cpus),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _make_resources(memory: int, cpus: float) -> dict[str, str]:
    cpu = f"{max(1, int(cpus * 1000))}m"
    return {"memory": str(memory), "cpu": cpu, "ephemeral-storage": "16Mi"}
