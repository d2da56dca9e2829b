"""Pods as Docker containers, as a kubelet would start them."""

import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from docker import APIClient
from docker.errors import DockerException
from docker.types import LogConfig

from sandbox.engine import open_engine

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_CONTAINER_LABEL = "sandpiper.test.pod"


@dataclass(slots=True)
class PodRecord:
    """A pod and the container behind it."""

    manifest: dict[str, Any]
    container: str = ""
    waiting: dict[str, str] | None = field(default_factory=lambda: {"reason": "ContainerCreating"})

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.manifest["metadata"].setdefault("labels", {})
        return found


class Node:
    """Starts and removes the containers of pods. One engine client for all threads."""

    def __init__(self) -> None:
        self.api: APIClient = open_engine(None)
        self._removers: list[threading.Thread] = []

    def close(self) -> None:
        """Wait for what is being removed, and close the client."""
        for thread in self._removers:
            thread.join(60)
        self.api.close()

    def start(self, pod: PodRecord) -> None:
        """Create and start the pod's container; what goes wrong becomes its waiting reason."""
        spec = pod.manifest["spec"]
        if not self._has_image(spec["containers"][0]["image"]):
            image = spec["containers"][0]["image"]
            pod.waiting = {"reason": "ErrImagePull", "message": f"{image}: not found"}
            return
        created = self.api.create_container(
            image=spec["containers"][0]["image"],
            entrypoint=spec["containers"][0]["command"],
            command=[],
            user="{runAsUser}:{runAsGroup}".format(**spec["securityContext"]),
            hostname=spec["hostname"],
            working_dir=spec["containers"][0]["workingDir"],
            network_disabled=True,
            environment={"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            labels={_CONTAINER_LABEL: pod.name},
            host_config=self._make_host_config(spec),
            use_config_proxy=False,
        )
        pod.container = created["Id"]
        self.api.start(pod.container)
        pod.waiting = None

    def _has_image(self, image: str) -> bool:
        with suppress(DockerException):
            self.api.inspect_image(image)  # type: ignore[no-untyped-call]
            return True
        return False

    def _make_host_config(self, spec: dict[str, Any]) -> Any:
        container = spec["containers"][0]
        limits = container["resources"]["limits"]
        size = spec["volumes"][0]["emptyDir"]["sizeLimit"]
        return self.api.create_host_config(
            network_mode="none",
            read_only=container["securityContext"]["readOnlyRootFilesystem"],
            tmpfs={"/tmp": f"rw,exec,nosuid,nodev,mode=777,size={size}"},
            cap_drop=container["securityContext"]["capabilities"]["drop"],
            security_opt=["no-new-privileges:true"],
            mem_limit=int(limits["memory"]),
            memswap_limit=int(limits["memory"]),
            nano_cpus=int(limits["cpu"].removesuffix("m")) * 1_000_000,
            ipc_mode="private",
            cgroupns="private",
            log_config=LogConfig(type="none"),
            runtime=spec.get("runtimeClassName", "runc"),
        )

    def remove(self, pod: PodRecord) -> None:
        """End the container behind the caller's back, as a kubelet does after the deletion."""

        def end() -> None:
            with suppress(DockerException, OSError):
                self.api.remove_container(pod.container, force=True, v=True)

        if pod.container:
            self._removers.append(threading.Thread(target=end))
            self._removers[-1].start()

    def describe_status(self, pod: PodRecord) -> dict[str, Any]:
        """The pod's status as the kubelet reports it."""
        state: dict[str, Any] = {"waiting": pod.waiting}
        phase = "Pending"
        if pod.waiting is None:
            found = self.api.inspect_container(pod.container)["State"]
            state, phase = {"running": {"startedAt": _now()}}, "Running"
            if not found["Running"]:
                reason = "OOMKilled" if found["OOMKilled"] else "Error"
                state = {"terminated": {"exitCode": found["ExitCode"], "reason": reason}}
                phase = "Failed"
        status = {
            "name": "sandbox",
            "state": state,
            "image": pod.manifest["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
        }
        return {"phase": phase, "containerStatuses": [status]}


def complete_manifest(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The manifest with what the API server adds: a name, a time, a uid."""
    metadata = manifest["metadata"]
    suffix = "".join(secrets.choice(_SUFFIX) for _ in range(5))
    added = {
        "name": metadata["generateName"] + suffix,
        "namespace": namespace,
        "uid": secrets.token_hex(16),
        "creationTimestamp": _now(),
    }
    return {**manifest, "metadata": {**metadata, **added}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
