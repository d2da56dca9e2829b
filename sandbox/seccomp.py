"""A system call filter for bubblewrap and pods: it refuses calls that no command needs.

An engine takes a profile instead: see call_profile.py.

The filter is a classic BPF program for seccomp(2). The numbers are those of the kernel's tables.
"""

import base64
import platform
import struct
from functools import cache

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


@cache
def encode_filters() -> dict[str, str]:
    """Return the filter of each known machine in Base64, for a runner that installs it itself."""
    return {name: base64.b64encode(build_filter(name)).decode() for name in ARCHES}


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Encode one instruction; it skips `yes` instructions if its test holds, else `no`."""
    return struct.pack("=HBBI", code, yes, no, value)
