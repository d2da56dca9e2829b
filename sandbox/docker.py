"""Sandboxes in Docker containers.

    driver = DockerDriver(ContainerSpec(memory="1g"))
    with driver.start("session-id") as sandbox:
        result = sandbox.exec("ls -l", timeout=60, number=1)

Every sandbox has its own connection pool to the engine and may be used from several threads.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, cast

from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from sandbox.base import (
    SandboxError,
    SandboxGone,
    SandboxRefused,
    SandboxTaken,
    SandboxUnavailable,
)
from sandbox.engine import open_engine, translate_engine_errors
from sandbox.framed import FramedSandbox
from sandbox.image.watch import EXCEEDED
from sandbox.spec import (
    CREATED_LABEL,
    DEFAULT_IMAGE,
    SESSION_LABEL,
    USERS_LABEL,
    ContainerSpec,
    Users,
    choose_users,
    compute_process_limits,
    create_container,
    make_owner,
    make_runner_command,
    make_sweeper_command,
)
from sandbox.wire import EngineWire, Silent

_OWN_PROCESSES = 2
"""A container's own processes: docker-init and the main process."""
_PROCESS_SECONDS = 10
_EXIT_SECONDS, _EXIT_PAUSE = 2, 0.02
_RESTART_SECONDS, _RESTART_PAUSE = 5.0, 0.25
"""How long `remove` retries while the engine is down; then `remove_stale_containers` cleans up."""
_NAME = "sandpiper-"
"""Labels cannot be changed, so a container's name says whose it is: its session, and its owner."""
_ROOT = "0:0"

_LIMITS = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpus"}


class DockerContainer:
    """A running Docker container. Implements sandbox.supervised.Container.

    `owner` is a mark of whoever started or adopted it last; only the owner ends what runs in it.
    """

    def __init__(
        self, api: APIClient, container: str, spec: ContainerSpec, users: Users, owner: str
    ) -> None:
        self._api = api
        self.id = container
        self.name = f"the image {spec.image}"
        self._memory = spec.memory
        limits = compute_process_limits(spec) if spec.shared_limits else {}
        self._runner = make_runner_command(limits, users)
        self._sweeper = make_sweeper_command(users)
        self._users, self._owner = users, owner
        self._main_pid = ""

    def connect(self, deadline: float) -> EngineWire:
        return self._run(self._runner, _ROOT)

    def _run(self, argv: list[str], user: str) -> EngineWire:
        """Start a process in the container with its stdin open. Raises SandboxGone."""
        with translate_engine_errors(SandboxGone, "starting a process in the sandbox"):
            created = self._api.exec_create(self.id, argv, stdin=True, user=user, workdir="/")
            file = cast(Any, self._api.exec_start(created["Id"], socket=True))
        response = getattr(file, "_response", None)

        def release() -> None:
            if response is not None:
                response.close()
            file.close()

        # Take the raw socket, not its buffered reader. No data can be lost: the runner is silent
        # until it has a request.
        connected = getattr(file, "_sock", file)
        return EngineWire(connected, lambda: self._get_exit_code(created["Id"]), release)

    def _get_exit_code(self, process: str) -> int | None:
        """Return the exit code of a process whose stream ended; None if the process still runs."""
        until = time.monotonic() + _EXIT_SECONDS
        while True:
            with translate_engine_errors(SandboxGone, "asking for an exit code"):
                code = self._api.exec_inspect(process)["ExitCode"]
            if code is not None or time.monotonic() > until:
                return code if code is None else int(code)
            time.sleep(0.005)

    def is_running(self) -> bool:
        try:
            with translate_engine_errors(SandboxGone, "looking after a container"):
                return bool(self._api.inspect_container(self.id)["State"]["Running"])
        except SandboxGone as error:
            if isinstance(error.__cause__, NotFound):
                return False
            raise

    def explain_end(self) -> str:
        until = time.monotonic() + _EXIT_SECONDS
        with suppress(SandboxError):
            while self.is_running() and time.monotonic() < until:
                time.sleep(_EXIT_PAUSE)
            with translate_engine_errors(SandboxGone, "asking for an exit code"):
                code = self._api.inspect_container(self.id)["State"]["ExitCode"]
            if code == EXCEEDED:
                return f"its processes and files took more than {self._memory} of memory"
        return ""

    def assign_session(self, session: str) -> None:
        with suppress(SandboxError), translate_engine_errors(SandboxGone, "naming a sandbox"):
            self._api.rename(self.id, make_name(session, self._owner))

    def check_owner(self) -> None:
        with translate_engine_errors(SandboxGone, "asking whose a sandbox is"):
            name = str(self._api.inspect_container(self.id)["Name"])
        if not name.endswith(f"-{self._owner}"):
            raise SandboxTaken("another worker has taken this sandbox over")

    def kill_commands(self) -> None:
        with closing(self._run(self._sweeper, _ROOT)) as wire, suppress(Silent):
            wire.drain(time.monotonic() + _PROCESS_SECONDS)

    def count_processes(self) -> int:
        """Count what the engine lists, or else from inside.

        Rootless engines without control groups have no list. A runtime with its own kernel lists
        processes other than the container's.
        """
        if not self._main_pid:
            with translate_engine_errors(SandboxGone, "looking after a container"):
                self._main_pid = str(self._api.inspect_container(self.id)["State"]["Pid"])
        with suppress(DockerException, OSError):
            rows = self._api.top(self.id, "-eo pid")["Processes"] or []
            if [self._main_pid] in rows:
                return len(rows) - _OWN_PROCESSES
        return self._count_inside()

    def _count_inside(self) -> int:
        """Count runners and commands from inside, as a uid that commands cannot signal."""
        users = self._users
        argv = ["pgrep", "-c", "-u", f"{users.commands},{users.runner},{users.sweeper}"]
        with closing(self._run(argv, f"{users.keeper}:{users.keeper}")) as wire:
            try:
                return int(wire.drain(time.monotonic() + _PROCESS_SECONDS))
            except (Silent, ValueError) as error:
                raise SandboxGone("the sandbox's processes cannot be counted") from error

    def kill(self) -> None:
        with suppress(SandboxError), translate_engine_errors(SandboxGone, "killing the container"):
            self._api.kill(self.id)

    def remove(self) -> bool:
        until = time.monotonic() + _RESTART_SECONDS
        while not (removed := self._try_remove()) and time.monotonic() < until:
            time.sleep(_RESTART_PAUSE)
        self._api.close()
        return removed

    def _try_remove(self) -> bool:
        """Try to remove the container. Returns True if it is gone, also if it was gone before or is
        another's, and False if the engine is down or still busy with it (a 5xx), so that it is
        worth a retry."""
        try:
            self.check_owner()
            self._api.remove_container(self.id, force=True, v=True)
        except SandboxTaken:
            return True
        except SandboxGone as error:
            return isinstance(error.__cause__, NotFound)
        except APIError as error:
            return not error.is_server_error()
        except (DockerException, OSError):
            return False
        return True


class DockerSandbox(FramedSandbox):
    """A sandbox in a container, made by DockerDriver.start."""

    def __init__(self, container: DockerContainer, spec: ContainerSpec) -> None:
        super().__init__(container, spec)
        self.container_id = container.id


class DockerDriver:
    """Starts containers of one spec at one engine; see sandbox.base.Driver for the contract.

    `base_url` is, for example, unix:///run/docker.sock or tcp://host:2375; without it, Docker's
    default engine is used. The constructor makes no connection.
    """

    def __init__(self, spec: ContainerSpec, base_url: str | None = None) -> None:
        self._spec = spec
        self._base_url = base_url

    def check(self) -> None:
        """Raise SandboxUnavailable unless the engine answers, enforces limits and has the image."""
        with closing(open_engine(self._base_url)) as api:
            self._examine_engine(api)
            with self._explain_refusal("looking for the sandbox image"):
                api.inspect_image(self._spec.image)  # type: ignore[no-untyped-call]

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> DockerSandbox:
        with ExitStack() as undo:
            api = open_engine(self._base_url)
            undo.callback(api.close)
            users, owner = choose_users(mapped=self._examine_engine(api)), make_owner()
            with self._explain_refusal("creating the sandbox"):
                created = create_container(
                    api, self._spec, session, make_name(session, owner), users
                )
            container = DockerContainer(api, created["Id"], self._spec, users, owner)
            sandbox = DockerSandbox(container, self._spec)
            undo.callback(sandbox.close)
            refuse_warnings(created)
            with self._explain_refusal("starting the sandbox"):
                api.start(sandbox.container_id)
            if archive is not None:
                sandbox.restore(archive)
            undo.pop_all()
        return sandbox

    def _examine_engine(self, api: APIClient) -> bool:
        """Refuse an engine without limits; returns whether it works in a user namespace."""
        with translate_engine_errors(SandboxUnavailable, "asking the engine for its limits"):
            info = api.info()
        if not self._spec.shared_limits:
            refuse_unlimited(info)
        options = " ".join(map(str, info.get("SecurityOptions") or ()))
        return "name=rootless" in options or "name=userns" in options

    def adopt(self, session: str) -> DockerSandbox | None:
        with closing(open_engine(self._base_url)) as api:
            containers: dict[str, dict[str, Any]] = {}
            label, name = f"{SESSION_LABEL}={session}", f"^/{_NAME}{session}-"
            for filters in ({"label": label}, {"name": name}):
                with translate_engine_errors(
                    SandboxUnavailable, "looking for the session's sandbox"
                ):
                    for each in api.containers(all=True, filters=filters):
                        containers[each["Id"]] = each
        # The newest first.
        found = sorted(containers.values(), key=lambda each: float(each["Created"]), reverse=True)
        for each in found[1:]:
            self._take_over(each, session).close()
        if not found:
            return None
        sandbox = self._take_over(found[0], session)
        try:
            if USERS_LABEL not in found[0]["Labels"]:
                raise SandboxGone("it was started by an earlier version")
            sandbox.kill_commands()
            sandbox.open_session()
        except SandboxError:
            sandbox.close()
            return None
        return sandbox

    def _take_over(self, found: dict[str, Any], session: str) -> DockerSandbox:
        """Take a container over: from now on no other process ends what runs in it."""
        first = str(found["Labels"].get(USERS_LABEL, ""))
        users = Users(int(first)) if first.isdigit() else choose_users()
        api = open_engine(self._base_url)
        container = DockerContainer(api, found["Id"], self._spec, users, make_owner())
        container.assign_session(session)
        return DockerSandbox(container, self._spec)

    @contextmanager
    def _explain_refusal(self, doing: str) -> Iterator[None]:
        """Turn a missing image or an unknown runtime into SandboxRefused that says what to do."""
        try:
            with translate_engine_errors(SandboxUnavailable, doing):
                yield
        except SandboxUnavailable as error:
            if isinstance(error.__cause__, ImageNotFound):
                raise SandboxRefused(explain_missing_image(self._spec.image)) from error
            if re.search(r"(unknown|invalid)[^:]* runtime", str(error), re.IGNORECASE):
                raise SandboxRefused(
                    f"the Docker engine has no runtime {self._spec.runtime!r}: install it there, "
                    f"or set sandbox.runtime to one it has ({error})"
                ) from error
            raise


def explain_missing_image(image: str) -> str:
    """Say that the engine has no such image, and how to get it: a digest can only be pulled."""
    ways = [f"pull it with `docker pull {image}`"] if image != DEFAULT_IMAGE else []
    if "@" not in image:
        name = "" if image == DEFAULT_IMAGE else f" --tag {image}"
        ways.append(f"build it with `sandpiper image build{name}`")
    return f"the sandbox image {image} is not on the Docker engine: {', or '.join(ways)}"


def make_name(session: str, owner: str) -> str:
    """Make the name of a session's container."""
    return f"{_NAME}{session}-{owner}"


def refuse_unlimited(info: dict[str, Any]) -> None:
    """Raise SandboxRefused if the engine says in its `info` that it cannot enforce a limit."""
    missing = [limit for key, limit in _LIMITS.items() if info.get(key) is False]
    if missing:
        raise SandboxRefused(
            f"the Docker engine cannot limit {', '.join(missing)}: a sandbox needs it. A rootless "
            "engine needs cgroup v2 with the controllers delegated to its user; or set "
            "sandbox.shared_limits, if what the engine runs in is limited"
        )


def refuse_warnings(created: dict[str, Any]) -> None:
    """Raise SandboxRefused if the engine created the container without all of its limits."""
    warnings = created.get("Warnings") or []
    if warnings:
        raise SandboxRefused(
            f"the Docker engine would not enforce a limit of the sandbox: {'; '.join(warnings)}"
        )


def remove_stale_containers(
    base_url: str | None, older_than: float, session: str | None = None
) -> list[str]:
    """Remove containers of killed workers, if they were made more than `older_than` seconds ago.

    With `session`, remove only that session's containers. Returns the sessions of the removed
    containers. Raises SandboxUnavailable.
    """
    sessions = []
    with closing(open_engine(base_url)) as api:
        with translate_engine_errors(SandboxUnavailable, "looking for old sandboxes"):
            label = f"{SESSION_LABEL}={session}" if session else SESSION_LABEL
            containers = api.containers(all=True, filters={"label": label})
        for container in containers:
            labels = container["Labels"]
            created = labels.get(CREATED_LABEL, "")
            age = time.time() - (int(created) if created.isdigit() else container["Created"])
            if age <= older_than:
                continue
            # Another process may be removing it at the same time.
            with (
                suppress(SandboxError),
                translate_engine_errors(SandboxGone, "removing an old sandbox"),
            ):
                api.remove_container(container["Id"], force=True, v=True)
                sessions.append(labels[SESSION_LABEL])
    return sessions
