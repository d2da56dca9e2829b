"""The escape suite: from inside, one tries and must fail. Over every kind of sandbox.

An attempt is a script that ends with 0, or says something, only where it got what it wanted.
"""

import platform
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import Sandbox
from sandbox.framed import FramedSandbox
from sandbox.seccomp import ARCHES, REFUSED
from sandbox.spec import TERMINATION_LOG
from tests.sandboxes import CLUSTER

SECRET = "a-token-of-the-worker-d41d8cd98f00"
OURS = "docker-init|tini|sleep|sandpiper|bash|ps|grep|python3|sh"
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
NEW_USER, NEW_NET, NEW_MOUNTS, NEW_PIDS = 0x10000000, 0x40000000, 0x00020000, 0x20000000


@pytest.fixture(scope="module")
def cell(any_driver: PoolableDriver) -> Iterator[FramedSandbox]:
    """One for all attempts: none of them leaves a trace, or another one would find it.

    The worker's environment holds a secret when it is started.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITLAB_TOKEN", SECRET)
        with any_driver.start("cell") as running:
            yield running


def python(program: str) -> str:
    return f"python3 -c {shlex.quote(program)}"


def syscall(name: str, *arguments: int) -> str:
    """A system call by its number; ends with 0 unless it is forbidden (EPERM, EACCES, ENOSYS).

    Wrong arguments are thus no proof: the kernel must refuse before it looks at them.
    """
    number = REFUSED[name][list(ARCHES).index(platform.machine())]
    call = ", ".join(map(str, (number, *arguments)))
    return python(
        "import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"done = libc.syscall({call.replace('-2', 'os.getppid()')})\n"
        "sys.exit(done < 0 and ctypes.get_errno() in (1, 13, 38))"
    )


def sending(family: str, kind: str, address: str, *, answer: bool = False) -> str:
    query = "b'ZZ\\x01\\0\\0\\x01' + bytes(8) + b'\\x02\\0\\x01'"
    return python(
        "import socket as s\n"
        f"x = s.socket(s.{family}, s.{kind})\nx.settimeout(2)\nx.connect({address})\n"
        f"x.send({query})" + ("\nx.recv(512)" if answer else "")
    )


NETWORK = {
    "loopback": "cat < /dev/tcp/127.0.0.1/22",
    "loopback 6": "cat < /dev/tcp/::1/22",
    "the metadata address": "cat < /dev/tcp/169.254.169.254/80",
    "the metadata address 6": sending("AF_INET6", "SOCK_STREAM", "('fd00:ec2::254', 80)"),
    "the engine over tcp": "cat < /dev/tcp/172.17.0.1/2375",
    "the internet": "cat < /dev/tcp/1.1.1.1/443",
    "a name": "getent hosts gitlab.com",
    "a name server": sending("AF_INET", "SOCK_DGRAM", "('8.8.8.8', 53)", answer=True),
    "broadcast": python(
        "import socket as s\nx = s.socket(s.AF_INET, s.SOCK_DGRAM)\n"
        "x.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1)\nx.sendto(b'x', ('255.255.255.255', 67))"
    ),
    "raw packets": python("import socket as s; s.socket(s.AF_PACKET, s.SOCK_RAW, 768)"),
    "raw ip": python("import socket as s; s.socket(s.AF_INET, s.SOCK_RAW, 1)"),
    "the hypervisor": python(
        "import socket as s\nx = s.socket(s.AF_VSOCK, s.SOCK_STREAM)\n"
        "x.bind((s.VMADDR_CID_ANY, 4711))"
    ),
    "the hypervisor's datagrams": python("import socket as s; s.socket(s.AF_VSOCK, s.SOCK_DGRAM)"),
    "the kernel's ciphers": python("import socket as s; s.socket(s.AF_ALG, s.SOCK_SEQPACKET)"),
    "a bus": python("import socket as s; s.socket(s.AF_CAN, s.SOCK_RAW, 1)"),
    "another kernel's messages": python("import socket as s; s.socket(s.AF_TIPC, s.SOCK_STREAM)"),
    "an abstract socket": sending("AF_UNIX", "SOCK_STREAM", r"b'\0/org/freedesktop/systemd1'"),
    "the engine's socket": "ls /var/run/docker.sock || ls /run/docker.sock",
    "containerd's socket": "ls /run/containerd/containerd.sock",
    "any socket": "find / -xdev -type s 2>/dev/null | grep .",
    "an interface": "grep -v -e lo: -e '|' /proc/net/dev",
    "a route": "tail -n +2 /proc/net/route | grep .",
}

FILES = {
    "the root": "touch /file",
    "programs": "touch /usr/bin/file",
    "the runner": "find /opt/ -writable | grep . || touch /opt/file",
    "accounts": "echo x >> /etc/passwd",
    "a device": "mknod /tmp/node c 1 1",
    "a disk": "echo > /dev/sda || echo > /dev/vda",
    "memory": "head -c 1 /dev/mem || head -c 1 /dev/kmem",
    "the devices": "touch /dev/file",
    "a link out": "ln /usr/bin/env /tmp/hard && echo >> /tmp/hard",
    "a host path": "ls /host /mnt/* /media/* /home/* /root",
    "another sandbox's door": "ls -d /tmp/sandpiper*",
    "the mounts' sources": "grep -E ' (ext4|xfs|btrfs|overlay) rw' /proc/mounts "
    f"| grep -v -E ' (/etc/hosts|{TERMINATION_LOG}) '",
    "a kubelet's files": f"echo >> /etc/hosts || echo >> {TERMINATION_LOG}",
    "remounting": "mount -o remount,rw /",
}

RIGHTS = {
    "becoming root": python("import os; os.setuid(0)"),
    "another group": python("import os; os.setgroups([0])"),
    "giving files away": "chown 0 /tmp/data",
    "a set-uid copy": "cp /bin/bash /tmp/b; chmod 4755 /tmp/b; /tmp/b -p -c 'id -u' | grep -x 0",
    "set-uid programs": "find / -xdev -type f -perm /6000 -user 0 2>/dev/null | grep .",
    "su": "su -c id < /dev/null",
    "file capabilities": python(
        "import os; open('/tmp/c', 'w').close()\n"
        "os.setxattr('/tmp/c', 'security.capability', bytes(20))"
    ),
    "a user map": "echo 0 0 1 > /proc/self/uid_map",
    "a higher limit": "ulimit -n 100000 || ulimit -u 100000",
    "a better priority": python("import os; os.nice(-5)"),
    "chroot": "chroot / true",
    "mounting": "mount -t tmpfs none /mnt || mount -t proc none /proc",
    "mounting by hand": syscall("mount", 0, 0, 0, 0, 0),
    "a new mount": syscall("fsopen", 0, 0),
    "unmounting": "umount /tmp || umount -l /proc",
    "unshare": "unshare --user --map-root-user true",
    "unshare users": syscall("unshare", NEW_USER),
    "unshare network": syscall("unshare", NEW_NET),
    "unshare mounts": syscall("unshare", NEW_MOUNTS),
    "clone into a new user": python(
        "import ctypes, os, platform, sys\n"
        "number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
        f"pid = ctypes.CDLL(None).syscall(number, {NEW_USER} | 17, 0, 0, 0, 0)\n"
        "sys.exit(pid < 0)"
    ),
    "another's namespace": "nsenter --target 1 --mount true || nsenter --target 1 --net true",
    "keyctl": syscall("keyctl", 0, -3, 1),
    "a key": syscall("add_key", 0, 0, 0, 0, -3),
    "bpf": syscall("bpf", 0, 0, 0),
    "perf": syscall("perf_event_open", 0, 0, -1, -1, 0),
    "userfaultfd": syscall("userfaultfd", 0),
    "io_uring": syscall("io_uring_setup", 1, 0),
    "io_uring by another door": syscall("io_uring_register", -1, 0, 0, 0),
    "another's memory": syscall("process_vm_readv", -2, 0, 0, 0, 0, 0),
    "a file by its handle": syscall("name_to_handle_at", -100, 0, 0, 0, 0),
    "another's limits": python(
        "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (4096, 4096))"
    ),
    "a module": syscall("finit_module", 0, 0, 0),
    "the clock": "date -s 2030-01-01 > /dev/null",
    "the host's name": "hostname elsewhere || echo x > /proc/sys/kernel/hostname",
    "ptrace of process 1": syscall("ptrace", PTRACE_ATTACH, 1, 0, 0),
    "ptrace of the runner": syscall("ptrace", PTRACE_SEIZE, -2, 0, 0),
    "the runner's memory": "head -c 1 /proc/$PPID/mem || cat /proc/$PPID/maps",
    "process 1's memory": "head -c 1 /proc/1/mem || cat /proc/1/maps",
    "the runner's streams": "echo x > /proc/$PPID/fd/1 || ls /proc/$PPID/fd",
}

KERNEL = {
    "the runner's environment": "cat /proc/$PPID/environ",
    "process 1's environment": "tr '\\0' '\\n' < /proc/1/environ | grep -v -E '^(PATH|PWD|HOME)='",
    "keys": "head -c 1 /proc/keys | grep .",
    "the kernel's memory": "head -c 1 /proc/kcore | grep .",
    "the kernel's addresses": "grep -v '^00000000' /proc/kallsyms",
    "the kernel's messages": "dmesg",
    "timers": "head -c 1 /proc/timer_list | grep .",
    "the scheduler": "head -c 1 /proc/sched_debug | grep .",
    "sysrq": "echo h > /proc/sysrq-trigger",
    "a panic": "echo 1 > /proc/sys/kernel/panic",
    "a core pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
    "a control group": "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x",
    "a limit": "find /sys/fs/cgroup /sys/kernel -writable -type f 2>/dev/null | grep .",
    "firmware": "ls /sys/firmware/* 2>/dev/null | grep .",
    "other processes": f"ps -e -o comm= | grep -v -x -E '{OURS}'",
    "a worker's secret": f"grep -r -s -l '[a]{SECRET[1:]}' "
    "/proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc /run /var/run /opt; env | grep GITLAB",
}


NETLESS = {"an interface", "a route", "broadcast"}
"""A pod has a network; that nothing on it answers is what can be seen from inside."""


@pytest.mark.parametrize("goal", NETWORK)
def test_nothing_is_reached(cell: Sandbox, goal: str) -> None:
    if CLUSTER and goal in NETLESS:
        pytest.skip("a pod has a network, which a policy closes")
    attempt(cell, f"timeout 5 bash -c {shlex.quote(NETWORK[goal])}")


@pytest.mark.parametrize("goal", FILES)
def test_nothing_else_is_written_or_seen(cell: Sandbox, goal: str) -> None:
    attempt(cell, FILES[goal])


@pytest.mark.parametrize("goal", RIGHTS)
def test_no_rights_are_gained(cell: Sandbox, goal: str) -> None:
    attempt(cell, RIGHTS[goal])


@pytest.mark.parametrize("goal", KERNEL)
def test_the_host_is_not_looked_into(cell: Sandbox, goal: str) -> None:
    attempt(cell, KERNEL[goal])


def attempt(cell: Sandbox, script: str) -> None:
    """Fails where the script reached its goal. A script that cannot run would prove nothing."""
    result = cell.exec(script, timeout=20, number=1)
    assert result.exit_code not in (0, None), result.stdout.preview
    assert result.stdout.preview == ""
    assert "SyntaxError" not in result.stderr.preview
    assert "NameError" not in result.stderr.preview


def test_commands_have_no_capabilities_and_gain_none(cell: Sandbox) -> None:
    asked = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; id -u; id -G"
    lines = cell.exec(asked, timeout=20, number=1).stdout.preview.split("\n")
    words = dict(line.split(":\t") for line in lines if ":" in line)
    assert {words.pop("NoNewPrivs"), words.pop("Seccomp")} == {"1", "2"}
    assert set(words.values()) == {"0" * 16}
    assert len(words) == 5
    uid, *groups = lines[-3:]
    assert groups == [uid, ""]
    assert uid == "10001" or int(uid) >= 20_000  # of its own; bubblewrap's is another outside


def test_process_1_survives_everybody(cell: Sandbox) -> None:
    cell.exec("kill -9 1; kill -STOP 1; kill -9 -1", timeout=20, number=1)
    assert cell.exec("kill -CONT 1; echo alive", timeout=20, number=2).stdout.preview == "alive\n"


LEAVE = """
cp /dev/stdin /dev/shm/secret <<< mine-6c1f; cp /dev/shm/secret data/
exec -a mine-6c1f python3 -c 'import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("\\0mine-6c1f"); s.listen()
open("/tmp/ready", "w"); time.sleep(30)'
"""
SEEK = """
grep -r -s -l [m]ine-6c1f /tmp /dev/shm /proc/[0-9]*/cmdline /proc/net/unix
ipcs -a | grep -w "$(id -u)"
"""


def test_another_session_s_sandbox_is_out_of_sight(
    any_driver: PoolableDriver, cell: Sandbox
) -> None:
    with any_driver.start("other") as other, ThreadPoolExecutor(1) as beside:
        left = beside.submit(lambda: other.exec(LEAVE, timeout=3, number=1))
        other.exec("until [ -e ready ]; do sleep 0.02; done", timeout=20, number=2)
        assert other.exec(SEEK, timeout=20, number=3).stdout.lines == 4
        assert cell.exec(SEEK, timeout=20, number=3).stdout.preview == ""
        assert left.result(30).timed_out


def test_limits_hold_for_all_processes_together(cell: Sandbox) -> None:
    program = (
        "import os, time\nn = 0\ntry:\n"
        "    while os.fork():\n        n += 1\n    time.sleep(5)\n"
        "except OSError:\n    print(n)"
    )
    made = cell.exec(python(program), timeout=20, number=1).stdout.preview
    assert 50 < int(made) < 128
