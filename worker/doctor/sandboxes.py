"""Checks that a sandbox starts, and its hardening from inside."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.base import Sandbox, SandboxError
from sandbox.spec import TERMINATION_LOG, parse_size
from worker.doctor.base import CheckLine, Installation, report_failed, report_good, report_warning

SESSION = "doctor"
SECONDS = 8.0

_LOOK = r"""
import json, os, resource, socket
def read(path):
    try:
        with open(path) as file:
            return file.read(200000)
    except OSError:
        return ""
def first(*paths):
    return next((text.strip() for text in map(read, paths) if text), "")
def writes():
    found = []
    for path in ("/", "/usr", "/etc", "/opt", "/var", "/root"):
        try:
            name = os.path.join(path, ".sandpiper-doctor")
            os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(name)
            found.append(path)
        except OSError:
            pass
    return found
def reaches():
    for host in ("1.1.1.1", "169.254.169.254", "172.17.0.1"):
        try:
            with socket.create_connection((host, 80), 0.5):
                return host
        except OSError:
            pass
    return ""
def sockets():
    names = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
    return [name for name in names if os.path.exists(name)]
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "status": dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines()
                   if line.startswith(("Cap", "NoNewPrivs", "Seccomp:"))),
    "interfaces": [line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:]],
    "reaches": reaches(), "writes": writes(), "sockets": sockets(),
    "mounts": [[part[4], part[5].split(",")[0], rest.split(" ")[0]] for part, rest in (
        (line.split(" - ")[0].split(" "), line.split(" - ")[1])
        for line in read("/proc/self/mountinfo").splitlines() if " - " in line)],
    "memory": first("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "pids": first("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "nproc": resource.getrlimit(resource.RLIMIT_NPROC)[0],
}))
"""

_VIRTUAL = {
    *("tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "devtmpfs", "overlay"),
    *("9p", "gofer", "none", "dev", "erofs"),
}
_EXPECTED = {
    *("/", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf"),
    *("/usr/sbin/docker-init", "/sbin/docker-init", "/dev/init"),
}

_KUBELET = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", TERMINATION_LOG}
"""Files that the kubelet mounts: they belong to root, or are in a folder closed to commands."""


def check_engine(installation: Installation) -> Iterator[CheckLine]:
    """Check that the engine or cluster answers; a Docker engine needs the configured runtime."""
    chosen = installation.settings.sandbox
    if chosen.driver == "bubblewrap":
        yield report_good("engine", "none: bubblewrap starts sandboxes without one")
        return
    if chosen.driver == "kubernetes":
        cluster = installation.cluster()
        finding = f"pods of Kubernetes {cluster.version} at {cluster.server}"
        yield report_good("engine", f"{finding}, namespace {cluster.namespace}")
        return
    engine = installation.engine()
    rootless = ", rootless" if engine.rootless else ""
    yield report_good(
        "engine", f"Docker {engine.version} at {engine.address}{rootless}, cgroup v{engine.cgroups}"
    )
    if chosen.runtime not in engine.runtimes:
        advice = f"install it there, or set sandbox.runtime to one of {', '.join(engine.runtimes)}"
        yield report_failed("runtime", f"the engine has no runtime {chosen.runtime!r}", advice)


def check_hardening(installation: Installation) -> Iterator[CheckLine]:
    """Start a sandbox and check from inside that its hardening is in force."""
    try:
        sandbox = installation.driver().start(SESSION)
    except SandboxError as error:
        yield report_failed("sandbox", str(error))
        return
    try:
        report = _look_inside(sandbox)
    finally:
        sandbox.close()
    chosen = installation.settings.sandbox
    what = "bubblewrap" if chosen.driver == "bubblewrap" else chosen.image
    yield report_good("sandbox", f"{what} starts, and runs commands")
    faults = [
        *_find_rights_faults(installation, report),
        *_find_host_faults(installation, report),
    ]
    for finding in faults:
        advice = "do not run Sandpiper here: see the README on the sandbox, and the engine's setup"
        yield report_failed("hardening", finding, advice)
    if not faults:
        yield report_good(
            "hardening",
            "seen from inside: nothing is reached, no rights, a call filter, nothing of the host "
            "writable",
        )
    yield _check_limits(installation, report)


def _look_inside(sandbox: Sandbox) -> Mapping[str, Any]:
    """Return what a probe inside the sandbox reports. Raises SandboxError."""
    command = f"python3 -I -c {shlex.quote(_LOOK)} > /tmp/doctor.json"
    result = sandbox.exec(command, timeout=SECONDS, number=1)
    if result.exit_code != 0:
        reason = result.stderr.preview[:200] or "it ran into its time-out"
        raise SandboxError(f"the sandbox's image runs no python3: {reason}: build the image anew")
    try:
        report = json.loads(sandbox.get("doctor.json", limit=1 << 20))
    except (ValueError, RecursionError) as error:
        raise SandboxError("the sandbox reports nothing of itself: build the image anew") from error
    return report if isinstance(report, dict) else {}


def _find_rights_faults(installation: Installation, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of the network's isolation, and of what commands may do."""
    interfaces = [each for each in _get_list(report, "interfaces") if each != "lo"]
    # A pod has an interface, but a policy must close it.
    if interfaces and installation.settings.sandbox.driver != "kubernetes":
        yield f"there is a network interface ({', '.join(map(str, interfaces))})"
    if report.get("reaches"):
        yield f"{report['reaches']} can be reached over the network"
    if not report.get("uid") or not report.get("gid"):
        yield "commands run as root"
    value = report.get("status")
    status = value if isinstance(value, dict) else {}
    rights = [name for name in status if name.startswith("Cap") and _parse_number(status[name], 16)]
    if rights:
        yield f"commands have capabilities ({', '.join(sorted(rights))})"
    if str(status.get("NoNewPrivs", "1")).strip() != "1":
        yield "no_new_privs is off: set-uid programs give rights"
    if str(status.get("Seccomp", "2")).strip() != "2":
        yield "there is no seccomp filter"


def _find_host_faults(installation: Installation, report: Mapping[str, Any]) -> Iterator[str]:
    if report.get("writes"):
        written = ", ".join(map(str, _get_list(report, "writes")))
        yield f"{written} can be written: the root is not fixed"
    if report.get("sockets"):
        yield f"an engine's socket is there ({', '.join(map(str, _get_list(report, 'sockets')))})"
    driver = installation.settings.sandbox.driver
    is_bubblewrap = driver == "bubblewrap"
    for mount in _get_list(report, "mounts"):
        if not (isinstance(mount, list) and len(mount) == 3):
            continue
        where, mode, kind = map(str, mount)
        if where == "/" and mode != "ro":
            yield "the root is not mounted read-only"
        if kind in _VIRTUAL or (mode == "ro" and (is_bubblewrap or where in _EXPECTED)):
            continue
        if driver == "kubernetes" and where in _KUBELET:
            continue
        if mode != "ro" or where not in _EXPECTED:
            yield f"a path of the host is mounted at {where} ({kind}, {mode})"


def _check_limits(installation: Installation, report: Mapping[str, Any]) -> CheckLine:
    chosen = installation.settings.sandbox
    if chosen.driver == "bubblewrap":
        missing = list(installation.missing_limits())
        advice = "give this process a control group of its own to write (cgroup v2, delegated)"
    else:
        # gVisor shows no control group, and is trusted. Each pod has a uid of its own, so the uid's
        # process limit is the pod's limit.
        memory = _parse_number(report.get("memory"))
        source = "nproc" if chosen.driver == "kubernetes" else "pids"
        limits = {
            "memory": 0 < memory <= parse_size(chosen.memory),
            "processes": 0 < _parse_number(report.get(source)) <= chosen.pids,
        }
        shows_none = chosen.runtime != "runc" and not report.get("memory")
        missing = [name for name in limits if not limits[name] and not shows_none]
        advice = "let the engine limit each sandbox (cgroup v2, delegated), not only all together"
    if missing:
        is_known = chosen.shared_limits or chosen.driver == "bubblewrap"
        make_line = report_warning if is_known else report_failed
        return make_line("limits", f"not limited for each sandbox: {', '.join(missing)}", advice)
    return report_good(
        "limits", f"memory {chosen.memory}, {chosen.pids} processes, {chosen.cpus:g} cpus"
    )


def _parse_number(text: object, base: int = 10) -> int:
    """Parse a number; 0 for anything else, such as "max"."""
    try:
        return int(str(text).strip()[:30], base)
    except ValueError:
        return 0


def _get_list(report: Mapping[str, Any], name: str) -> list[Any]:
    value = report.get(name)
    return value[:100] if isinstance(value, list) else []
