"""Sandboxes without an engine: bubblewrap (bwrap), for laptops and CI jobs.

    with BubblewrapDriver(ContainerSpec(memory="1g")).start("session-id") as sandbox:
        result = sandbox.exec("ls -l", timeout=60, number=1)

The sandbox sees this machine's /usr, read-only, and a /tmp of its own: no network and nothing else
of the machine. `list_missing_limits` names the limits that cannot be enforced here.
"""

import io
import json
import logging
import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sandbox.base import SandboxGone, SandboxUnavailable
from sandbox.bubblewrap_options import (
    RUNNER,
    ControlGroup,
    find_group,
    make_file_options,
    make_group,
    make_isolation_options,
    make_user_options,
)
from sandbox.framed import FramedSandbox
from sandbox.image.command import list_descendants
from sandbox.spec import ContainerSpec, compute_process_limits
from sandbox.wire import Session, SocketWire, StreamBroken

log = logging.getLogger("sandpiper.sandbox")

_PREFIX = "sandpiper-box-"
_OLDEST = (0, 8)
_START_SECONDS = 20
_SWEEP_SECONDS = 10

Groups = Callable[[str, ContainerSpec], ControlGroup | None]

UNLIMITED = (
    "the memory of all processes together (each one is limited)",
    "the share of the processors",
)
"""The limits that need a control group."""


class BubblewrapContainer:
    """Processes in namespaces of their own. Implements sandbox.supervised.Container.

    `lifeline` is the keeper's standard input. The kernel closes it when this process dies for any
    reason; the keeper then exits, and with it every process of the sandbox.
    """

    name = "this sandbox"

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: Path,
        lifeline: int,
        group: ControlGroup | None,
    ) -> None:
        self._process, self._folder, self._group = process, folder, group
        self._lifeline: int | None = lifeline
        self._lock = threading.Lock()
        self.keeper = 0
        """The pid of process 1 of the namespace, as this process sees it."""

    def connect(self, deadline: float) -> SocketWire:
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.settimeout(max(0.1, deadline - time.monotonic()))
            connected.connect(str(self._folder / "door"))
        except OSError as error:
            connected.close()
            raise SandboxGone(f"the sandbox's process is dead ({error})") from error
        return SocketWire(connected)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def explain_end(self) -> str:
        return ""

    def kill_commands(self) -> None:
        """Kill all commands. If that fails, try once more: the process table may have been full."""
        for _ in range(2):
            if self.is_responsive():
                return

    def is_responsive(self) -> bool:
        """Whether the keeper starts a session that answers. The session also kills all commands."""
        deadline = time.monotonic() + _SWEEP_SECONDS
        wire = self.connect(deadline)
        session = Session(wire)
        try:
            session.send_request({"verb": "sweep", "timeout": _SWEEP_SECONDS}, deadline)
            session.read_report()
        except StreamBroken:
            return False
        finally:
            wire.close()
        return True

    def count_processes(self) -> int:
        """Count in the control group, which misses none, or else among this machine's processes."""
        if not self.is_running():
            raise SandboxGone("the sandbox's process is dead")
        counted = self._group.count_processes() if self._group else None
        return len(list_descendants(self.keeper)) if counted is None else counted - 1

    def assign_session(self, session: str) -> None:
        pass

    def check_owner(self) -> None:
        """It is always ours: nobody else can find it, and it dies with this process."""

    def kill(self) -> None:
        with self._lock:  # a second close could close another file, which got the same number
            lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SWEEP_SECONDS)
        self._process.kill()
        self._process.wait()

    def remove(self) -> bool:
        self.kill()
        if self._group:
            self._group.remove()
        shutil.rmtree(self._folder, ignore_errors=True)
        return True


class BubblewrapDriver:
    """Starts sandboxes of one spec; see sandbox.base.Driver for the contract.

    The spec's `image` and `runtime` are ignored. Sandboxes have no label, because they die with
    this process. `groups` makes a control group, or returns None if it cannot.
    """

    def __init__(self, spec: ContainerSpec, groups: Groups = make_group) -> None:
        self._spec = spec
        self._groups = groups
        self._has_warned = False

    def check(self) -> None:
        """Raise SandboxUnavailable unless a sandbox can be started here."""
        self.start("check").close()

    def list_missing_limits(self) -> tuple[str, ...]:
        """List the limits that cannot be enforced here, as phrases for a message."""
        group = self._groups(f"{_PREFIX}{secrets.token_hex(8)}", self._spec)
        if group is None:
            return UNLIMITED
        group.remove()
        return ()

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        bwrap = _find_bwrap()
        with ExitStack() as undo:
            with _explain_folder_error():
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            group = self._groups(folder.name, self._spec)
            if group:
                undo.callback(group.remove)
            elif not self._has_warned:
                self._has_warned = True
                missing = "; ".join(UNLIMITED)
                log.warning("no control group can be made here; not limited: %s", missing)
            container = _launch(bwrap, self._spec, folder, group)
            sandbox = FramedSandbox(container, self._spec)
            undo.callback(sandbox.close)
            if archive is not None:
                sandbox.restore(archive)
            undo.pop_all()
        return sandbox

    def adopt(self, session: str) -> None:
        """Return None: no sandbox outlives the process that started it."""


def remove_leftovers(older_than: float) -> list[str]:
    """Remove the folders and control groups of killed workers; returns their names.

    The processes ended with their worker. A folder is removed if it belongs to this user, is older
    than `older_than` seconds, and nobody listens on its socket.
    """
    removed = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            age = time.time() - folder.stat().st_mtime
            if age <= older_than or folder.stat().st_uid != os.geteuid():
                continue
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                if probe.connect_ex(str(folder / "door")) == 0:
                    continue
            find_group(folder.name).remove()
            shutil.rmtree(folder)
            removed.append(folder.name)
    return removed


def _find_bwrap() -> str:
    """Return the path of bwrap. Raises SandboxUnavailable if it is missing or too old."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed: apt-get install bubblewrap, or use sandbox.driver docker"
        )
    if not Path("/usr/bin/python3").exists():
        raise SandboxUnavailable("bubblewrap's sandbox needs /usr/bin/python3: install python3")
    output = subprocess.run([bwrap, "--version"], capture_output=True, text=True, timeout=20).stdout
    version = re.search(r"(\d+)\.(\d+)", output)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise SandboxUnavailable(
            f"bubblewrap 0.8 or newer is needed; {bwrap} is {output.strip()!r}"
        )
    return bwrap


# ------------------------------------------------------------------------------------- launching


def _launch(
    bwrap: str, spec: ContainerSpec, folder: Path, group: ControlGroup | None
) -> BubblewrapContainer:
    """Start bwrap, put its first process into the control group, and let it run.

    bwrap reports that process over one pipe (`--info-fd`), and waits for a byte from another one
    (`--block-fd`) before it goes on.
    """
    info_read, info_write = os.pipe()
    block_read, block_write = os.pipe()
    with os.fdopen(info_read, "rb") as info, os.fdopen(block_write, "wb", 0) as block:
        try:
            with _explain_folder_error():
                process, lifeline = _spawn(bwrap, spec, folder, info_write, block_read)
        finally:
            os.close(info_write)
            os.close(block_read)
        container = BubblewrapContainer(process, folder, lifeline, group)
        try:
            container.keeper = _read_child_pid(info)
            if group:
                group.add(container.keeper)
            block.write(b"x")
            if not container.is_responsive():
                raise SandboxGone("it does not answer")
        except (OSError, ValueError, SandboxGone) as error:
            container.kill()
            reason = (folder / "errors").read_text(errors="replace").strip()[-300:] or str(error)
            container.remove()
            raise SandboxUnavailable(
                f"bubblewrap could not start a sandbox ({reason}): it needs user namespaces for "
                "ordinary users (sysctl kernel.unprivileged_userns_clone, "
                "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces)"
            ) from error
    return container


def _spawn(
    bwrap: str, spec: ContainerSpec, folder: Path, info_write: int, block_read: int
) -> tuple[subprocess.Popen[bytes], int]:
    """Start bwrap; returns its process and the write end of its standard input.

    Afterwards only bwrap has the listening socket open.
    """
    with ExitStack() as files, ExitStack() as undo:
        door = files.enter_context(socket.socket(socket.AF_UNIX))
        door.bind(str(folder / "door"))
        door.listen(64)
        inside, lifeline = os.pipe()
        files.callback(os.close, inside)
        undo.callback(os.close, lifeline)
        inherited = [info_write, block_read, door.fileno()]
        command = [bwrap, "--info-fd", str(info_write), "--block-fd", str(block_read)]
        command += [*make_isolation_options(spec), *make_file_options(files, inherited)]
        command += ["/usr/bin/python3", "-E", "-s", "-S", "-B", RUNNER]
        command += [str(door.fileno()), json.dumps(compute_process_limits(spec))]
        process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=subprocess.DEVNULL,
            stderr=files.enter_context((folder / "errors").open("wb")),
            cwd="/",
            env={},
            pass_fds=inherited,
            start_new_session=True,
            **make_user_options(),
        )
        undo.pop_all()
    return process, lifeline


@contextmanager
def _explain_folder_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = "if a path is at fault, set TMPDIR to a short, writable folder"
        message = f"bubblewrap could not be started: {error}; {advice}"
        raise SandboxUnavailable(message) from error


def _read_child_pid(info: io.BufferedReader) -> int:
    """Read the pid of the sandbox's first process, which bwrap reports."""
    report = b""
    deadline = time.monotonic() + _START_SECONDS
    while not report.rstrip().endswith(b"}"):
        ready, _, _ = select.select([info], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(info.fileno(), 4096) if ready else b""
        if not data:
            raise OSError("bwrap did not say what it started")
        report += data
    return int(json.loads(report)["child-pid"])
