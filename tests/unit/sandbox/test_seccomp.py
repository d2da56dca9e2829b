"""The call filter, run step by step as the kernel does."""

import struct

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.seccomp import ARCHES, CLONE, CLONE3, OWN, REFUSED, SOCKET, build_filter

ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
READ, EXECVE = (0, 63), (59, 221)
FORK = 0x01200011


def decide(filtered: bytes, arch: int, number: int, argument: int = 0, second: int = 0) -> int:
    """What the kernel is told of one call (struct seccomp_data: number, arch, ip, arguments)."""
    data = struct.pack("=IIQQQ", number, arch, 0, argument, second)
    accumulator, at = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", filtered, at * 8)
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if accumulator == value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no
            case _:
                assert code == 0x06
                return int(value)


@pytest.fixture(params=ARCHES)
def machine(request: pytest.FixtureRequest) -> tuple[bytes, int, int]:
    """A filter, its architecture's mark, and the column of its numbers."""
    name = request.param
    return build_filter(name), ARCHES[name], list(ARCHES).index(name)


def test_ordinary_calls_pass(machine: tuple[bytes, int, int]) -> None:
    filtered, arch, column = machine
    for call in (READ, EXECVE):
        assert decide(filtered, arch, call[column]) == ALLOW
    assert decide(filtered, arch, CLONE[column], FORK) == ALLOW
    assert decide(filtered, arch, SOCKET[column], 1) == ALLOW


@pytest.mark.parametrize("name", REFUSED)
def test_a_listed_call_is_refused(machine: tuple[bytes, int, int], name: str) -> None:
    filtered, arch, column = machine
    assert decide(filtered, arch, REFUSED[name][column]) == EPERM


@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
def test_a_new_namespace_is_refused(machine: tuple[bytes, int, int], bit: int) -> None:
    filtered, arch, column = machine
    assert decide(filtered, arch, CLONE[column], FORK | 1 << bit) == EPERM


def test_clone3_does_not_exist(machine: tuple[bytes, int, int]) -> None:
    filtered, arch, column = machine
    assert decide(filtered, arch, CLONE3[column]) == ENOSYS


@pytest.mark.parametrize("family", [38, 40])
def test_sockets_that_no_namespace_holds_are_refused(
    machine: tuple[bytes, int, int], family: int
) -> None:
    filtered, arch, column = machine
    assert decide(filtered, arch, SOCKET[column], family) == EPERM


@pytest.mark.attack("sandbox")
@pytest.mark.parametrize("name", OWN)
def test_only_a_process_s_own_limits_and_priority_change(
    machine: tuple[bytes, int, int], name: str
) -> None:
    filtered, arch, column = machine
    numbers, argument = OWN[name]
    for whose, answer in ((0, ALLOW), (1, EPERM), (4711, EPERM)):
        arguments = [0, 0]
        arguments[argument] = whose
        assert decide(filtered, arch, numbers[column], *arguments) == answer


def test_another_architecture_s_numbers_are_refused(machine: tuple[bytes, int, int]) -> None:
    filtered, arch, column = machine
    assert decide(filtered, 0x40000003, READ[column]) == EPERM
    assert decide(filtered, arch, 0x40000000 | READ[column]) == ENOSYS


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="no system call filter is known for s390x"):
        build_filter("s390x")
