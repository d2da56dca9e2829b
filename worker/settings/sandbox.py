"""`sandbox:`: what commands run in, and how much one sandbox may use."""

from typing import Annotated, Literal

from pydantic import Field

from worker.settings.base import Part, say_form

_Size = Annotated[
    str,
    Field(
        pattern=r"^\d+[bkmg]?$",
        json_schema_extra=say_form("expected a size such as 2g: bytes, or with k, m or g"),
    ),
]
_NAME = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"


class SandboxSettings(Part):
    """`sandbox:`. Sizes have the engine's form ("2g")."""

    driver: Literal["docker", "bubblewrap", "kubernetes"] = Field(
        default="docker",
        description="`kubernetes`: a pod for each sandbox, in the cluster of the worker's own pod "
        "or of `KUBECONFIG`. `bubblewrap` where no engine can run.",
    )
    namespace: str = Field(
        default="",
        pattern=_NAME,
        json_schema_extra=say_form("expected the name of a namespace"),
        description="With `kubernetes`: the namespace of sandboxes; by default the worker's own.",
    )
    pull_secrets: tuple[str, ...] = Field(
        default=(),
        description="With `kubernetes`: Secrets in that namespace to pull the image with.",
    )
    pool: int = Field(
        default=0, ge=0, le=32, description="Sandboxes that are kept started ahead of need."
    )
    image: str = Field(
        default="sandpiper-sandbox:latest",
        description="What containers are made of; pin a digest in production. `bubblewrap` has the "
        "machine's own tools.",
    )
    runtime: str = Field(
        default="runc",
        description="The engine's runtime; `runsc` where gVisor is installed. With `kubernetes`, a "
        "RuntimeClass, where it is not `runc`.",
    )
    memory: _Size = Field(
        default="2g", description="Memory of one sandbox: bytes, or with k, m, g."
    )
    cpus: float = Field(default=1.0, gt=0, description="Processors of one sandbox.")
    pids: int = Field(default=256, ge=16, description="Processes of one sandbox.")
    shared_limits: bool = Field(
        default=False,
        description="Take an engine that cannot limit single sandboxes (rootless in a pod); the "
        "engine's own limits hold for all of them together.",
    )
    disk: _Size = Field(default="2g", description="Size of the files of one sandbox.")
    exec_timeout: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds that one command may take."
    )
