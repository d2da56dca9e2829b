"""The seccomp profile of a container, for the engine: an allow-list, where bubblewrap's refuses.

It is what the engine's default profile (Docker 28) allows a container without capabilities, less
what no command needs and what has been of use to attackers: io_uring, tracing and reading other
processes, changing their limits, handles of files, and all families of sockets but four. An engine
of any version takes it, and a system call that is not listed fails with EPERM.
See https://docs.docker.com/engine/security/seccomp.
"""

import json
from functools import cache
from typing import Any

_ALLOW, _REFUSE = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
_ENOSYS = 38
_NEW_NAMESPACES = 0x7E020000

FAMILIES = (1, 2, 10, 16)
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
        _rule(_ALLOW, *ALLOWED.split()),
        *(_rule(_ALLOW, "socket", args=[_compare("EQ", family)]) for family in FAMILIES),
        *(_rule(_ALLOW, "personality", args=[_compare("EQ", value)]) for value in PERSONALITIES),
        # Its own limits only: those of another process are that process's.
        _rule(_ALLOW, "prlimit64", args=[_compare("EQ", 0)]),
        _rule(_ALLOW, "clone", args=[_compare("MASKED_EQ", _NEW_NAMESPACES, 0)]),
        # Its flags are in memory, which a filter cannot read; on ENOSYS libc uses clone.
        {**_rule(_REFUSE, "clone3"), "errnoRet": _ENOSYS},
    ]
    # Of its machine, the engine takes the native one: programs of 32 bits have other call numbers.
    machines = [{"architecture": name, "subArchitectures": []} for name in ARCHITECTURES]
    return json.dumps({"defaultAction": _REFUSE, "archMap": machines, "syscalls": calls})


def _rule(action: str, *names: str, args: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"names": names, "action": action, "args": args or []}


def _compare(operator: str, value: int, second: int = 0) -> dict[str, Any]:
    """A condition on the first argument; MASKED_EQ: the argument and `value` make `second`."""
    return {"index": 0, "op": f"SCMP_CMP_{operator}", "value": value, "valueTwo": second}
