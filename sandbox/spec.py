"""The settings of a container: its limits, its hardening and its caps."""

import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.types import LogConfig, Ulimit

from sandbox.seccomp import make_profile

DEFAULT_IMAGE = "sandpiper-sandbox:latest"

SESSION_LABEL = "sandpiper.session"
CREATED_LABEL = "sandpiper.created"
USERS_LABEL = "sandpiper.users"
OWNER_LABEL = "sandpiper.owner"

PYTHON = ["/opt/sandpiper/python3", "-E", "-s", "-S"]
"""An interpreter that the commands' uid cannot read, so that it cannot trace what runs in it."""

TERMINATION_LOG = "/opt/sandpiper/node/termination-log"
"""Where a kubelet mounts a world-writable file of the node, in a folder closed to commands."""

_FIRST_USER, _LAST_USER = 0x7000_0000, 0x7FFE_FFF0
"""The uids that sandboxes are given. By convention nothing else on a Linux host has one of them."""
_FIRST_MAPPED, _LAST_MAPPED = 20_000, 60_000
"""The same for engines in a user namespace, which has uids up to 65,535."""

FOLDERS = "umask 0; mkdir -p /tmp/_out /tmp/data"
_KEEPER = f"{FOLDERS}; exec sleep infinity"
_WATCHER = f"{FOLDERS}; exec python3 -E -s -S /opt/sandpiper/sandbox/image/watch.py"
_PROCESS_LIMITS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 4096,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_MEMLOCK": 0,
}
_RUNNER_CAPABILITIES = ("KILL", "SETGID", "SETPCAP", "SETUID")
"""What a runner begins with, as root: to take its own uid, and the commands', and to end these.
The main process gives them up at once."""

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

    image: str = DEFAULT_IMAGE
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


def compute_process_limits(spec: ContainerSpec, memory: str = "RLIMIT_AS") -> dict[str, int]:
    """Compute the limits on each process, of which `memory` limits its memory.

    The keys are names of the `resource` module; RLIMIT_NPROC counts all processes of a uid.
    """
    return {**_PROCESS_LIMITS, "RLIMIT_NPROC": spec.pids, memory: parse_size(spec.memory)}


@dataclass(frozen=True, slots=True)
class Users:
    """The uids and gids of one sandbox.

    The kernel counts signals, pipes and watches of files by uid, so no two sandboxes share one; and
    it compares uids where one process signals, limits or traces another, so commands, runners and
    the main process have different ones.
    """

    commands: int

    @property
    def runner(self) -> int:
        """What runners have. They begin as root with four capabilities."""
        return self.commands + 1

    @property
    def keeper(self) -> int:
        """What the main process has, so that it survives the killing of the others."""
        return self.commands + 2

    @property
    def sweeper(self) -> int:
        """What a process has that kills all of another's, so that these cannot stop it."""
        return self.commands + 3


def choose_users(*, mapped: bool = False) -> Users:
    """Choose the uids of a new sandbox at random; `mapped`: for an engine in a user namespace."""
    first, last = (_FIRST_MAPPED, _LAST_MAPPED) if mapped else (_FIRST_USER, _LAST_USER)
    return Users(first + 4 * secrets.randbelow((last - first) // 4))


def make_owner() -> str:
    """Make the mark of a process that starts a container or takes it over, fit for a label."""
    return secrets.token_hex(8)


def make_runner_command(
    limits: dict[str, int],
    users: Users | None = None,
    filters: dict[str, str] | None = None,
) -> list[str]:
    """Make the command line of a runner in a container.

    `limits` hold for each process; `filters` are system call filters in Base64, by machine.
    Without `users`, the runner and the commands keep the uid that it is started with.
    """
    settings: dict[str, object] = {}
    if limits:
        settings["limits"] = limits
    if users:
        settings["users"] = [users.commands, users.runner, users.sweeper]
    if filters:
        settings["filters"] = filters
    return [*PYTHON, "/opt/sandpiper/runner.py", json.dumps(settings)]


def make_sweeper_command(users: Users | None = None) -> list[str]:
    """Make the command line that ends all commands and runners; for `users` see above."""
    ids = [str(uid) for uid in (users.commands, users.runner, users.sweeper)] if users else []
    code = "import sys; sys.path.insert(0, '/opt/sandpiper')"
    return [*PYTHON, "-c", f"{code}; from sandbox.image.users import main; main()", *ids]


def create_container(
    api: APIClient, spec: ContainerSpec, session: str, name: str, users: Users
) -> dict[str, Any]:
    """Create the hardened container; returns the engine's Id and Warnings.

    See https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerCreate.
    """
    # The main process gives up root, and every capability for good. An engine gives a process no
    # more capabilities than the main process began with.
    ids = [f"--reuid={users.keeper}", f"--regid={users.keeper}", "--clear-groups"]
    main = f"{_WATCHER} {parse_size(spec.memory)}" if spec.shared_limits else _KEEPER
    created: dict[str, Any] = api.create_container(
        image=spec.image,
        entrypoint=["setpriv", *ids, "--bounding-set=-all", "--", "/bin/sh", "-c", main],
        command=[],
        user="0:0",
        name=name,
        hostname="sandbox",
        working_dir="/tmp",
        network_disabled=True,
        labels={
            SESSION_LABEL: session,
            CREATED_LABEL: str(int(time.time())),
            USERS_LABEL: str(users.commands),
        },
        host_config=_make_host_config(api, spec),
        use_config_proxy=False,
    )
    return created


def _make_host_config(api: APIClient, spec: ContainerSpec) -> Any:
    memory = parse_size(spec.memory)
    limits: dict[str, Any] = {
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(spec.cpus * 1_000_000_000),
        "pids_limit": spec.pids,
    }
    tmpfs = f"rw,exec,nosuid,nodev,mode=1777,nr_inodes=262144,size={spec.workspace}"
    return api.create_host_config(
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": tmpfs},
        cap_drop=["ALL"],
        cap_add=list(_RUNNER_CAPABILITIES),
        security_opt=["no-new-privileges:true", f"seccomp={make_profile()}"],
        **({} if spec.shared_limits else limits),
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=4096, hard=4096),
            Ulimit(name="msgqueue", soft=0, hard=0),  # POSIX queues would outlive their command
        ],
        shm_size=16 << 20,
        init=True,
        ipc_mode="private",
        cgroupns="private",
        log_config=LogConfig(type="none"),
        runtime=spec.runtime,
    )
