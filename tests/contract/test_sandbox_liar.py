"""A runner that was subverted: the host believes nothing, survives everything, and says "gone"."""

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing

import pytest
from docker import APIClient

from sandbox.base import SandboxError, SandboxGone
from sandbox.docker import DockerDriver
from sandbox.engine import open_engine
from sandbox.spec import ContainerSpec

LIAR = r"""
import itertools, json, os, struct, sys, time

def frame(payload):
    return struct.pack(">I", len(payload)) + payload

def say(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def read():
    (size,) = struct.unpack(">I", sys.stdin.buffer.read(4))
    return sys.stdin.buffer.read(size)

stream = {"preview": "believed", "binary": False, "size": 8, "lines": 0, "kept": 0}
good = {"exit_code": 0, "timed_out": False, "stdout": stream, "stderr": stream}

while True:
    request = json.loads(read())
    while read():
        pass
    report = {"id": request["id"], **good}
    match request.get("command") or request.get("path"):
        case "honest":
            say(frame(b"") + frame(json.dumps(report).encode()))
        case "twice":
            say((frame(b"") + frame(json.dumps(report).encode())) * 2)
        case "stale":
            report["id"] -= 1
            say(frame(b"") + frame(json.dumps(report).encode()))
        case "refused":
            said = {"id": request["id"], "error": "missing", "message": "no process" + "!" * 999}
            say(frame(b"") + frame(json.dumps(said).encode()))
        case "huge":
            say(b"\xff\xff\xff\xff")
        case "text":
            say(b"Traceback (most recent call last):\n" * 1000)
        case "deep":
            say(frame(b"") + frame(b"[" * 60000))
        case "wrong":
            say(frame(b"") + frame(json.dumps({**report, "exit_code": "0"}).encode()))
        case "data":
            say(frame(b"x") + frame(b"") + frame(json.dumps(report).encode()))
        case "/tmp/flood":
            for _ in itertools.repeat(None):
                say(frame(b"x" * 65536))
        case "stderr":
            while True:
                os.write(2, b"y" * 65536)
        case "silent":
            time.sleep(60)
        case "fails":
            sys.exit("no such module")
        case _:
            say(b"\0" * 3)
            sys.exit(0)
"""

REPLACE = f"open('/opt/sandpiper/runner.py', 'w').write({LIAR!r})"


@pytest.fixture(scope="module")
def liar(sandbox_image: str) -> Iterator[DockerDriver]:
    """A driver of an image whose runner lies."""
    with closing(open_engine(None)) as engine:
        tag = changed(engine, sandbox_image)
        try:
            yield DockerDriver(ContainerSpec(image=tag, memory="256m", disk="64m", grace=0.5))
        finally:
            engine.remove_image(tag)


def changed(engine: APIClient, image: str, change: str = REPLACE, tag: str = "liar") -> str:
    """The image after `change`, in Python: with another runner."""
    made = engine.create_container(
        image,
        ["python3", "-c", change],
        user="0",
        entrypoint=[],
        host_config=engine.create_host_config(network_mode="none"),
    )
    try:
        engine.start(made)
        assert engine.wait(made, timeout=60)["StatusCode"] == 0
        engine.commit(made, "sandpiper-test", tag)
    finally:
        engine.remove_container(made, force=True)
    return f"sandpiper-test:{tag}"


def test_an_honest_word_of_a_liar_is_believed(liar: DockerDriver) -> None:
    with liar.start("liar") as sandbox:
        assert sandbox.exec("honest", timeout=5, number=1).stdout.preview == "believed"


@pytest.mark.parametrize("lie", ["stale", "huge", "text", "deep", "wrong", "data"])
def test_a_lie_ends_the_sandbox_and_is_not_shown(liar: DockerDriver, lie: str) -> None:
    with liar.start("liar") as sandbox:
        with pytest.raises(SandboxGone, match="sent what no runner sends") as caught:
            sandbox.exec(lie, timeout=5, number=1)
        assert "Traceback" not in str(caught.value)
        with pytest.raises(SandboxGone):
            sandbox.exec("honest", timeout=5, number=2)


def test_a_command_that_could_not_begin_is_an_error_and_no_end(liar: DockerDriver) -> None:
    with liar.start("liar") as sandbox:
        with pytest.raises(SandboxError, match=r"^the command was not begun: no process!{290}$"):
            sandbox.exec("refused", timeout=5, number=1)
        assert sandbox.exec("honest", timeout=5, number=1).stdout.preview == "believed"


def test_a_session_that_spoke_unasked_is_not_listened_to(liar: DockerDriver) -> None:
    with liar.start("liar") as sandbox:
        for number in (1, 2):
            result = sandbox.exec("twice", timeout=5, number=number)
            assert result.stdout.preview == "believed"


def test_a_flood_costs_the_host_nothing(liar: DockerDriver) -> None:
    tracemalloc.start()
    try:
        with liar.start("liar") as sandbox, pytest.raises(Exception, match="more than 1,000,000"):
            sandbox.get("/tmp/flood", limit=1_000_000)
        with liar.start("liar") as sandbox:
            began = time.monotonic()
            assert sandbox.exec("stderr", timeout=0.2, number=1).timed_out
            assert time.monotonic() - began < 5
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_silence_ends_at_the_deadline(liar: DockerDriver) -> None:
    with liar.start("liar") as sandbox:
        assert sandbox.exec("silent", timeout=0.2, number=1).timed_out


def test_a_runner_that_fails_is_gone_and_not_a_failing_command(liar: DockerDriver) -> None:
    why = "runner in the image sandpiper-test:liar failed: no such module"
    with liar.start("liar") as sandbox, pytest.raises(SandboxGone, match=why):
        sandbox.exec("fails", timeout=5, number=1)


def test_a_runner_that_only_ends_costs_the_output(liar: DockerDriver) -> None:
    with liar.start("liar") as sandbox:
        assert sandbox.exec("ends", timeout=5, number=1).exit_code == 137
        assert sandbox.exec("honest", timeout=5, number=2).stdout.preview == "believed"


def test_an_image_that_has_no_runner_is_to_be_built_anew(sandbox_image: str) -> None:
    with closing(open_engine(None)) as engine:
        tag = changed(
            engine, sandbox_image, "import os; os.unlink('/opt/sandpiper/python3')", "bare"
        )
        try:
            with (
                DockerDriver(ContainerSpec(image=tag)).start("none") as sandbox,
                pytest.raises(SandboxGone, match=r"sandpiper-test:bare has no runner .*build it"),
            ):
                sandbox.exec("true", timeout=20, number=1)
        finally:
            engine.remove_image(tag)
