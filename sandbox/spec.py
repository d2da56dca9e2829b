"""The settings of a container: its limits, its hardening and its caps."""

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.types import LogConfig, Ulimit

COMMAND_USER = "10001:10001"
KEEPER_USER = "10002:10002"
"""The main process has another uid, so that it survives the killing of the commands' uid."""

SESSION_LABEL = "sandpiper.session"
CREATED_LABEL = "sandpiper.created"

PYTHON = ["/opt/sandpiper/python3", "-E", "-s", "-S"]
"""An interpreter that the commands' uid cannot read, so that it cannot trace what runs in it."""

SWEEPER = [*PYTHON, "-c", "import os; os.kill(-1, 9)"]

TERMINATION_LOG = "/opt/sandpiper/node/termination-log"
"""Where a kubelet mounts a world-writable file of the node, in a folder closed to commands."""

FIRST_UID, UIDS = 20_000, 40_000
"""The first uid and the number of uids given to single sandboxes; a rootless engine has 65,536."""

FOLDERS = "umask 0; mkdir -p /tmp/_out /tmp/data"
_KEEPER = f"{FOLDERS}; exec sleep infinity"
_WATCHER = f"{FOLDERS}; exec python3 -E -s -S /opt/sandpiper/sandbox/image/watch.py"
_PROCESS_LIMITS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 4096,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_MEMLOCK": 0,
}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LEAST_HEADROOM = 32 << 20


def parse_size(text: str) -> int:
    """Return the bytes of "512m", "2g" or "1024". Raises ValueError."""
    match = re.fullmatch(r"(\d+)([bkmg]?)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size: write a number and k, m or g, such as 512m")
    return int(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One kind of sandbox.

    `memory` is for processes *and* files, because files in a tmpfs are memory. The workspace has
    the size `disk`, but never takes the last eighth of `memory`: a full disk is then reported as
    such and does not kill the container. The defaults give a workspace of 1.75 GB.

    Caps are in bytes, except `members_cap` (files and folders) and `ratio_cap` (unpacked to
    packed size); times are in seconds. `preview` is how many bytes of an output are shown, at most
    4,096; an output that is up to a quarter longer is shown whole. `grace` is how late a command's
    report may arrive.

    With `shared_limits` the engine is not asked to limit memory, processes and processors, because
    it cannot (rootless, without control groups of its own): the limits of what the engine runs in
    apply to all its sandboxes together. Each process is limited instead, and so is the number of a
    sandbox's processes; a sandbox that uses more than `memory` is ended by its main process.
    """

    image: str = "sandpiper-sandbox:latest"
    runtime: str = "runc"
    memory: str = "2g"
    cpus: float = 1.0
    pids: int = 256
    disk: str = "2g"
    output_cap: int = 64 << 20
    preview: int = 4096
    put_cap: int = 256 << 20
    archive_cap: int = 512 << 20
    unpacked_cap: int = 1 << 30
    members_cap: int = 50_000
    ratio_cap: int = 200
    transfer_timeout: float = 300.0
    grace: float = 10.0
    shared_limits: bool = False

    def __post_init__(self) -> None:
        if self.workspace < _LEAST_HEADROOM:
            raise ValueError(f"memory {self.memory} and disk {self.disk} leave no room to work")

    @property
    def workspace(self) -> int:
        """The size of the writable tmpfs in bytes."""
        memory = parse_size(self.memory)
        return min(parse_size(self.disk), memory - max(memory // 8, _LEAST_HEADROOM))

    @property
    def archive_caps(self) -> dict[str, int | float]:
        """The caps on packing and unpacking inside the container."""
        return {
            "packed": self.archive_cap,
            "raw": self.unpacked_cap,
            "file": self.put_cap,
            "members": self.members_cap,
            "ratio": self.ratio_cap,
            "timeout": self.transfer_timeout,
        }


def compute_process_limits(spec: ContainerSpec) -> dict[str, int]:
    """Compute the limits on each process, for containers without a control group.

    The keys are names of the `resource` module; RLIMIT_NPROC counts all processes of a uid.
    """
    limits = {"RLIMIT_NPROC": spec.pids, "RLIMIT_AS": parse_size(spec.memory)}
    return {**_PROCESS_LIMITS, **limits}


def compute_pod_limits(spec: ContainerSpec) -> dict[str, int]:
    """Compute the limits on each process of a pod, whose control group limits memory.

    When a control group runs out of memory, the kubelet has the kernel kill all of its processes.
    A process that asks for more than `spec.memory` gets an error before that.
    """
    limits = {"RLIMIT_NPROC": spec.pids, "RLIMIT_DATA": parse_size(spec.memory)}
    return {**_PROCESS_LIMITS, **limits}


def make_runner_command(limits: dict[str, int]) -> list[str]:
    """Make the command line of a runner in a container, with limits on each process or none."""
    return [*PYTHON, "/opt/sandpiper/runner.py", *([json.dumps(limits)] if limits else [])]


def choose_command_user(spec: ContainerSpec, container: str) -> str:
    """Choose the uid and gid of the commands in a container.

    With `shared_limits` each container gets its own uid, because the kernel counts the processes
    of a uid over all containers of the engine.
    """
    if not spec.shared_limits:
        return COMMAND_USER
    uid = FIRST_UID + int(container[:8], 16) % UIDS
    return f"{uid}:{uid}"


def create_container(api: APIClient, spec: ContainerSpec, session: str) -> dict[str, Any]:
    """Create the hardened container; returns the engine's Id and Warnings.

    See https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerCreate.
    """
    created: dict[str, Any] = api.create_container(
        image=spec.image,
        entrypoint=["/bin/sh", "-c", _make_main_command(spec)],
        command=[],
        user=KEEPER_USER,
        hostname="sandbox",
        working_dir="/tmp",
        network_disabled=True,
        labels={SESSION_LABEL: session, CREATED_LABEL: str(int(time.time()))},
        host_config=_make_host_config(api, spec),
        use_config_proxy=False,
    )
    return created


def _make_main_command(spec: ContainerSpec) -> str:
    return f"{_WATCHER} {parse_size(spec.memory)}" if spec.shared_limits else _KEEPER


def _make_host_config(api: APIClient, spec: ContainerSpec) -> Any:
    tmpfs = f"rw,exec,nosuid,nodev,mode=1777,nr_inodes=262144,size={spec.workspace}"
    return api.create_host_config(
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": tmpfs},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        **({} if spec.shared_limits else _make_limits(spec)),
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=4096, hard=4096),
        ],
        shm_size=16 << 20,
        init=True,
        ipc_mode="private",
        cgroupns="private",
        log_config=LogConfig(type="none"),
        runtime=spec.runtime,
    )


def _make_limits(spec: ContainerSpec) -> dict[str, Any]:
    memory = parse_size(spec.memory)
    return {
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(spec.cpus * 1_000_000_000),
        "pids_limit": spec.pids,
    }
