"""What the Docker driver promises beyond the contract: isolation, labels, clear refusals."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from sandbox import build
from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxLimit, SandboxUnavailable
from sandbox.docker import DockerDriver, DockerSandbox, remove_stale_containers
from sandbox.engine import open_engine
from sandbox.spec import CREATED_LABEL, SESSION_LABEL, ContainerSpec
from sandbox.tools import TOOLS, list_commands


@pytest.fixture
def engine(sandbox_image: str) -> Iterator[APIClient]:
    with closing(open_engine(None)) as api:
        yield api


def out(sandbox: Sandbox, command: str) -> str:
    """Everything that one command says."""
    result = sandbox.exec(command, timeout=30, number=1)
    return result.stdout.preview + result.stderr.preview


def containers(engine: APIClient, session: str) -> list[Any]:
    """The containers of one session, running or not."""
    label = f"{SESSION_LABEL}={session}"
    found: list[Any] = engine.containers(all=True, filters={"label": label})
    return found


# ------------------------------------------------------------------------------------- isolation


def test_only_loopback_is_there(sandbox: Sandbox) -> None:
    assert out(sandbox, "ls /sys/class/net") == "lo\n"


def test_the_image_has_no_setuid_programs(sandbox: Sandbox) -> None:
    assert out(sandbox, "find / -xdev -type f -perm /6000 2>/dev/null") == ""


def test_only_the_workspace_and_shared_memory_can_be_written(sandbox: Sandbox) -> None:
    writable = out(
        sandbox, "find / -xdev -type d -writable 2>/dev/null; find /dev -writable -type d"
    )
    assert set(writable.split()) <= {"/tmp", "/dev/shm", "/dev/mqueue"}
    assert "nosuid,nodev" in out(sandbox, "grep ' /tmp ' /proc/mounts")


def test_programs_built_in_the_workspace_run(sandbox: Sandbox) -> None:
    assert out(sandbox, "printf '#!/bin/sh\\necho runs' > t; chmod +x t; ./t") == "runs\n"


def test_the_tools_of_the_image_are_there(sandbox: Sandbox) -> None:
    tools = " ".join(list_commands())
    assert out(sandbox, f"for t in {tools}; do command -v $t >/dev/null || echo $t; done") == ""
    assert out(sandbox, "echo 'a: [1, 2]' | yq -c .a; python3 -c 'import yaml'") == "[1,2]\n"


def test_the_image_s_readme_names_the_tools() -> None:
    text = (build.IMAGE_FOLDER / "README.md").read_text()
    rows = [f"| {purpose} | {', '.join(commands)} |" for purpose, commands in TOOLS]
    assert "\n".join(["| for | tools |", "|---|---|", *rows]) in text


def test_the_limits_are_set(sandbox: DockerSandbox, engine: APIClient) -> None:
    host = engine.inspect_container(sandbox.container_id)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (512 << 20, 512 << 20)
    assert (host["PidsLimit"], host["NanoCpus"]) == (128, 1_000_000_000)
    assert (host["NetworkMode"], host["ReadonlyRootfs"]) == ("none", True)
    assert (host["CapDrop"], host["Binds"], host["Privileged"]) == (["ALL"], None, False)
    assert host["LogConfig"]["Type"] == "none"
    assert out(sandbox, "ulimit -c; ulimit -Hn") == "0\n4096\n"


def test_the_workspace_leaves_memory_for_processes(sandbox: Sandbox) -> None:
    assert out(sandbox, "df -B1M --output=size /tmp | tail -1").strip() == "384"
    assert ContainerSpec().workspace == (2 << 30) - (256 << 20)


# ------------------------------------------------------------------------------------- life cycle


def test_a_sandbox_is_labelled_and_removed(driver: DockerDriver, engine: APIClient) -> None:
    sandbox = driver.start("label-me")
    (found,) = containers(engine, "label-me")
    assert found["Labels"][SESSION_LABEL] == "label-me"
    assert abs(int(found["Labels"][CREATED_LABEL]) - time.time()) < 60
    sandbox.close()
    assert containers(engine, "label-me") == []


def test_nothing_is_left_of_a_start_that_failed(driver: DockerDriver, engine: APIClient) -> None:
    with pytest.raises(SandboxError):
        driver.start("fails", [b"no archive"])
    assert containers(engine, "fails") == []


def test_close_ends_a_running_command(driver: DockerDriver, engine: APIClient) -> None:
    sandbox = driver.start("close-me")
    closer = when_started(sandbox, sandbox.close)
    with pytest.raises(SandboxGone):
        sandbox.exec("touch started; sleep 60", timeout=60, number=1)
    closer.join(30)
    assert containers(engine, "close-me") == []


@pytest.mark.parametrize("end", ["kill", "remove"])
def test_a_container_ended_from_outside_is_gone(
    sandbox: DockerSandbox, engine: APIClient, end: str
) -> None:
    def ending() -> None:
        if end == "kill":
            engine.kill(sandbox.container_id)
        else:
            engine.remove_container(sandbox.container_id, force=True)

    killer = when_started(sandbox, ending)
    with pytest.raises(SandboxGone):
        sandbox.exec("touch started; sleep 60", timeout=60, number=1)
    killer.join(30)
    with pytest.raises(SandboxGone):
        sandbox.exec("true", timeout=5, number=2)
    with pytest.raises(SandboxGone):
        sandbox.put("/tmp/x", [b"x"])
    sandbox.close()


def when_started(sandbox: Sandbox, act: Callable[[], None]) -> threading.Thread:
    """Acts as soon as /tmp/started exists."""

    def wait() -> None:
        sandbox.exec("until [ -e started ]; do sleep 0.02; done", timeout=30, number=99)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_old_sandboxes_are_reaped(
    driver: DockerDriver, engine: APIClient, container_spec: ContainerSpec
) -> None:
    labels = {SESSION_LABEL: "ancient", CREATED_LABEL: "1000"}
    engine.create_container(container_spec.image, "true", labels=labels)
    with driver.start("young"):
        assert remove_stale_containers(None, older_than=10 * 365 * 86400) == ["ancient"]
        assert containers(engine, "ancient") == []
        assert len(containers(engine, "young")) == 1


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("base_url", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:9"])
def test_an_engine_that_is_not_there_is_named(container_spec: ContainerSpec, base_url: str) -> None:
    with pytest.raises(SandboxUnavailable, match=f"answers at {base_url}: .*: start one, or set"):
        DockerDriver(container_spec, base_url).start("x")
    with pytest.raises(SandboxUnavailable, match=base_url):
        remove_stale_containers(base_url, 0)


def test_something_that_is_no_engine_is_refused(
    container_spec: ContainerSpec, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(SandboxUnavailable, match="no Docker engine answers"):
            DockerDriver(container_spec, f"unix://{path}").start("x")
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def test_a_missing_image_names_the_build_command(sandbox_image: str) -> None:
    driver = DockerDriver(ContainerSpec(image="sandpiper-none:1"))
    with pytest.raises(SandboxUnavailable, match=r"sandpiper image build --tag sandpiper-none:1"):
        driver.start("x")


def test_an_unknown_runtime_is_named(sandbox_image: str) -> None:
    driver = DockerDriver(ContainerSpec(image=sandbox_image, runtime="warp"))
    with pytest.raises(SandboxUnavailable, match=r"no runtime 'warp'.*sandbox\.runtime"):
        driver.start("x")


def test_the_image_is_built_once(sandbox_image: str) -> None:
    said: list[str] = []
    assert build.ensure_image(say=said.append) == sandbox_image
    assert said == []


def test_an_archive_whose_unpacking_is_killed_is_to_blame(
    sandbox: DockerSandbox, engine: APIClient
) -> None:
    def download() -> Iterator[bytes]:
        yield b"\x1f\x8b"
        # As the kernel does without memory, to the process that has started the decompressor.
        parent = "$(ps -o ppid= -C igzip,gzip)"
        script = f"until kill -9 {parent} 2>/dev/null; do sleep 0.05; done"
        made = engine.exec_create(sandbox.container_id, ["sh", "-c", script], user="0:0")
        engine.exec_start(made["Id"])
        yield from [bytes(1 << 16)] * 20

    with pytest.raises(SandboxLimit, match="cannot be unpacked"):
        sandbox.restore(download())
    assert out(sandbox, "echo on") == "on\n"
