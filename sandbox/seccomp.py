"""System call filters: what bubblewrap and pods refuse, and what an engine's container may.

Bubblewrap and pods take a classic BPF program for seccomp(2), which refuses calls that no command
needs; the numbers are those of the kernel's tables. An engine takes a profile, which lists what is
allowed: what the default profile (Docker 28) allows a container without capabilities, less what no
command needs and what has been of use to attackers: io_uring, tracing and reading other processes,
changing their limits, handles of files, and all families of sockets but four. An engine of any
version takes it, and a system call that is not listed fails with EPERM.
See https://docs.docker.com/engine/security/seccomp.
"""

import json
import platform
import struct
from functools import cache
from typing import Any

from sandbox.base import SandboxUnavailable

EPERM, ENOSYS = 1, 38
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _ARGUMENT = 0, 4, 16, 8
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""The CLONE_NEW* flags of clone(2): mount, cgroup, UTS, IPC, user, PID, network namespaces."""

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

REFUSED: dict[str, tuple[int, int]] = {
    # name: its number on x86_64, on aarch64
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
SOCKET = (41, 198)
FAMILIES = (38, 40)
"""AF_ALG and AF_VSOCK, which no namespace isolates."""

OWN: dict[str, tuple[tuple[int, int], int]] = {
    # name: its numbers as above, and which of its arguments names a process
    "ioprio_set": ((251, 30), 1),
    "prlimit64": ((302, 261), 0),
    "sched_setaffinity": ((203, 122), 0),
    "sched_setattr": ((314, 274), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setscheduler": ((144, 119), 0),
    "setpriority": ((141, 140), 1),
}
"""Refused but for the caller itself (0): limits and priorities of others are theirs."""

CLONE = (56, 220)
CLONE3 = (435, 435)


def build_filter(machine: str | None = None) -> bytes:
    """Build the filter for a machine. Raises SandboxUnavailable if its call numbers are unknown."""
    name = machine or platform.machine()
    if name not in ARCHES:
        raise SandboxUnavailable(
            f"no system call filter is known for {name}: without an engine, a sandbox runs on "
            f"{' or '.join(ARCHES)} only"
        )
    column = list(ARCHES).index(name)
    refused = _ERRNO | EPERM
    steps = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, ARCHES[name], yes=1),
        _step(_RETURN, refused),
        _step(_LOAD, _NUMBER),
        # x32 calls (x86_64 only) have other numbers, so the checks below would miss them.
        _step(_AT_LEAST, _X32, no=1),
        _step(_RETURN, _ERRNO | ENOSYS),
        # clone3's flags are in memory, which a filter cannot read; on ENOSYS libc uses clone.
        _step(_EQUAL, CLONE3[column], no=1),
        _step(_RETURN, _ERRNO | ENOSYS),
    ]
    for numbers in REFUSED.values():
        steps += [_step(_EQUAL, numbers[column], no=1), _step(_RETURN, refused)]
    steps += [
        _step(_EQUAL, CLONE[column], no=4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, no=1),
        _step(_RETURN, refused),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, SOCKET[column], no=5),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_EQUAL, FAMILIES[0], yes=1),
        _step(_EQUAL, FAMILIES[1], no=1),
        _step(_RETURN, refused),
        _step(_RETURN, _ALLOW),
    ]
    for numbers, argument in OWN.values():
        steps += [
            _step(_EQUAL, numbers[column], no=4),
            _step(_LOAD, _FIRST_ARGUMENT + argument * _ARGUMENT),
            _step(_EQUAL, 0, yes=1),
            _step(_RETURN, refused),
            _step(_RETURN, _ALLOW),
        ]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Encode one instruction; it skips `yes` instructions if its test holds, else `no`."""
    return struct.pack("=HBBI", code, yes, no, value)


_TAKE, _REFUSE = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"

ALLOWED_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: a network namespace or a file's rights hold them."""

PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")

ALLOWED = """
accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve
execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2
fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs
fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_robust_list
getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid
getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
ioctl ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
lchown lgetxattr link linkat listen listxattr listxattrat llistxattr lremovexattr lseek lsetxattr
lstat madvise map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mknod mknodat mlock
mlock2 mlockall mmap mprotect mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall
munmap nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2
pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 pselect6 pwrite64 pwritev
pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg removexattr
removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg
sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid
setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr
setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat
statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create
timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork
vmsplice wait4 waitid write writev
"""
"""System calls that are allowed with any argument."""


@cache
def make_profile() -> str:
    """Make the profile as JSON, which an engine takes as the value of `seccomp`."""
    calls = [
        _rule(_TAKE, *ALLOWED.split()),
        *(_rule(_TAKE, "socket", args=[_compare("EQ", family)]) for family in ALLOWED_FAMILIES),
        *(_rule(_TAKE, "personality", args=[_compare("EQ", value)]) for value in PERSONALITIES),
        # Its own limits only: those of another process are that process's.
        _rule(_TAKE, "prlimit64", args=[_compare("EQ", 0)]),
        _rule(_TAKE, "clone", args=[_compare("MASKED_EQ", _NEW_NAMESPACES, 0)]),
        # Its flags are in memory, which a filter cannot read; on ENOSYS libc uses clone.
        {**_rule(_REFUSE, "clone3"), "errnoRet": ENOSYS},
    ]
    # Of its machine, the engine takes the native one: programs of 32 bits have other call numbers.
    machines = [{"architecture": name, "subArchitectures": []} for name in ARCHITECTURES]
    return json.dumps({"defaultAction": _REFUSE, "archMap": machines, "syscalls": calls})


def _rule(action: str, *names: str, args: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"names": names, "action": action, "args": args or []}


def _compare(operator: str, value: int, second: int = 0) -> dict[str, Any]:
    """A condition on the first argument; MASKED_EQ: the argument and `value` make `second`."""
    return {"index": 0, "op": f"SCMP_CMP_{operator}", "value": value, "valueTwo": second}
