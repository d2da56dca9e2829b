"""Sizes, room to work, and limits that are not enforced."""

import pytest
from docker import APIClient

from sandbox.base import SandboxUnavailable
from sandbox.docker import refuse_unlimited, refuse_warnings
from sandbox.framed import resolve_tmp_path
from sandbox.spec import ContainerSpec, _make_host_config, parse_size

MIB = 1 << 20


ABLE = {"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}
"""What an engine says of itself that can limit a container."""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2g", 2048 * MIB),
        ("512M", 512 * MIB),
        ("10k", 10240),
        ("7", 7),
        ("7b", 7),
        (" 1g ", 1024 * MIB),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "g", "2 g", "2gib", "-1g", "0", "1.5g", "2t"])
def test_anything_else_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("memory", "disk", "workspace"),
    [
        ("2g", "2g", 1792 * MIB),
        ("2g", "1g", 1024 * MIB),
        ("4g", "2g", 2048 * MIB),
        ("128m", "1g", 96 * MIB),
    ],
)
def test_the_workspace_leaves_an_eighth_of_the_memory(
    memory: str, disk: str, workspace: int
) -> None:
    assert ContainerSpec(memory=memory, disk=disk).workspace == workspace


@pytest.mark.parametrize(("memory", "disk"), [("48m", "1g"), ("2g", "16m")])
def test_no_room_to_work_is_refused(memory: str, disk: str) -> None:
    with pytest.raises(ValueError, match="leave no room to work"):
        ContainerSpec(memory=memory, disk=disk)


@pytest.mark.parametrize(
    ("key", "limit"), [("MemoryLimit", "memory"), ("PidsLimit", "pids"), ("CpuCfsQuota", "cpus")]
)
def test_an_engine_that_cannot_limit_is_refused(key: str, limit: str) -> None:
    with pytest.raises(SandboxUnavailable, match=f"cannot limit {limit}: "):
        refuse_unlimited({**ABLE, key: False})


def test_an_engine_that_can_limit_is_taken() -> None:
    refuse_unlimited(ABLE)


def test_shared_limits_ask_the_engine_for_none_of_its_own() -> None:
    api = APIClient(base_url="tcp://127.0.0.1:1", version="1.41")
    limits = {"Memory", "MemorySwap", "NanoCpus", "PidsLimit"}
    assert limits <= {
        key for key, value in _make_host_config(api, ContainerSpec()).items() if value
    }
    shared = _make_host_config(api, ContainerSpec(shared_limits=True))
    assert not limits & {key for key, value in shared.items() if value}
    assert shared["NetworkMode"] == "none"
    assert shared["CapDrop"] == ["ALL"]
    assert "size=" in shared["Tmpfs"]["/tmp"]
    api.close()


def test_a_warning_of_the_engine_is_a_refusal() -> None:
    words = "Your kernel does not support pids limit capabilities. PIDs limit discarded."
    with pytest.raises(SandboxUnavailable, match="PIDs limit discarded"):
        refuse_warnings({"Id": "1", "Warnings": [words]})
    refuse_warnings({"Id": "1", "Warnings": None})
    refuse_warnings({"Id": "1", "Warnings": []})


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/tmp/a", "/tmp/a"),
        ("/tmp//data/./b", "/tmp/data/b"),
        ("//tmp/a", "/tmp/a"),
        ("/tmp/new\nline", "/tmp/new\nline"),
    ],
)
def test_a_path_is_taken_without_detours(path: str, clean: str) -> None:
    assert resolve_tmp_path(path) == clean
