"""Sandboxes that a dead worker has left, taken on by another one (sandbox.base.Driver.adopt)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from sandbox.background import (
    Pool,
    PoolableDriver,
    replace_in_background,
    start_in_background,
)
from sandbox.base import DATA, Sandbox, SandboxError, SandboxGone
from sandbox.spec import ContainerSpec

SESSION = "adopted-session"

_LEAVE = """
import sys, threading, time
from importlib import import_module
from sandbox.spec import ContainerSpec
driver = getattr(import_module(sys.argv[3]), sys.argv[4])
sandbox = driver(ContainerSpec(image=sys.argv[2], memory="512m")).start(sys.argv[1])
sandbox.put("/tmp/elsewhere", [b"kept"])
def run():
    sandbox.exec("echo $$ > /tmp/pid; echo begun > /tmp/begun; sleep 600", timeout=600, number=1)
threading.Thread(target=run, daemon=True).start()
while True:
    try:
        sandbox.get("/tmp/begun", limit=9)
        break
    except FileNotFoundError:
        time.sleep(0.02)
print("left", flush=True)
time.sleep(600)
"""


def said(sandbox: Sandbox, command: str) -> str:
    return sandbox.exec(command, timeout=20, number=1).stdout.preview.strip()


@pytest.fixture
def driver(lasting_driver: PoolableDriver) -> PoolableDriver:
    """Each kind in turn."""
    return lasting_driver


@contextmanager
def left_by_a_dead_process(image: str, driver: PoolableDriver) -> Iterator[None]:
    """A container whose worker was killed while a command ran in it."""
    kind = type(driver)
    line = [sys.executable, "-c", _LEAVE, SESSION, image, kind.__module__, kind.__name__]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "left\n"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    yield


def test_the_files_are_there_and_what_ran_is_dead(
    driver: PoolableDriver, container_spec: ContainerSpec
) -> None:
    with left_by_a_dead_process(container_spec.image, driver):
        sandbox = driver.adopt(SESSION)
        assert sandbox is not None
        with closing(sandbox):
            assert said(sandbox, "cat /tmp/elsewhere") == "kept"
            assert said(sandbox, "kill -0 $(cat /tmp/pid) || echo dead") == "dead"
            assert sandbox.put(f"{DATA}/more", [b"more"]) == 4
    assert driver.adopt(SESSION) is None


def test_of_several_the_newest_is_taken_and_the_dead_are_removed(driver: PoolableDriver) -> None:
    old, new = driver.start(SESSION), driver.start(SESSION)
    old.container.kill()
    sandbox = driver.adopt(SESSION)
    assert sandbox is not None
    for each in (sandbox, new, old):
        each.close()
    assert driver.adopt(SESSION) is None


def test_one_from_a_pool_is_found_by_its_session(driver: PoolableDriver) -> None:
    pool = Pool(driver, 1)
    pool.fill()
    while not pool.count_ready():
        pass
    taken = pool.start(SESSION)
    try:
        taken.put("/tmp/mine", [b"mine"])
        adopted = pool.adopt(SESSION)
        assert adopted is not None
        assert said(adopted, "cat /tmp/mine") == "mine"
        adopted.close()
    finally:
        taken.close()
        pool.close()


def test_an_archive_that_is_damaged_costs_the_files_and_not_the_sandbox(
    driver: PoolableDriver,
) -> None:
    with driver.start(SESSION) as first:
        first.put(f"{DATA}/kept", [os.urandom(200_000)])
        whole = b"".join(first.export())

    @contextmanager
    def torn(data: bytes) -> Iterator[Iterable[bytes]]:
        yield [data]

    @contextmanager
    def missing() -> Iterator[Iterable[bytes]]:
        if whole:
            raise SandboxError("the store has lost it")
        yield []

    with closing(
        start_in_background(driver, SESSION, [torn(whole[:1000]), missing(), torn(whole)])
    ) as one:
        began = one.get_start_state(wait=True)
        assert began is not None
        assert (began.archive_number, len(began.failures)) == (3, 2)
        assert len(one.get(f"{DATA}/kept", limit=300_000)) == 200_000
    with closing(start_in_background(driver, SESSION, [torn(b"no archive")])) as one:
        began = one.get_start_state(wait=True)
        assert began is not None
        assert (began.archive_number, len(began.failures)) == (0, 1)
        assert said(one, "ls /tmp/data") == ""


@pytest.mark.attack("sandbox")
def test_a_worker_that_wakes_up_leaves_its_successor_s_commands_alone(
    driver: PoolableDriver, record_property: Callable[[str, object], None]
) -> None:
    """It was taken for dead, and its sandbox was taken over; whatever it tries ends nothing."""
    old = driver.start(SESSION)
    starting = Starting(old, driver.start("another-session"))
    waking = start_in_background(starting, SESSION)
    assert said(waking, "echo begun") == "begun"
    new = driver.adopt(SESSION)
    assert new is not None
    attempts: list[Callable[[], object]] = [
        lambda: said(old, "kill -9 -1"),
        old.kill_commands,
        lambda: old.put("/tmp/data/x", [b"x"]),
        lambda: list(old.export()),
    ]
    record_property("tried", len(attempts) + 2)
    waits = "touch /tmp/begun; until [ -e /tmp/go ]; do sleep 0.02; done; echo whole"
    with closing(new), ThreadPoolExecutor(1) as pool:
        running = pool.submit(new.exec, waits, timeout=60, number=1)
        new.exec("until [ -e /tmp/begun ]; do sleep 0.02; done", timeout=60, number=2)
        for attempt in attempts:
            with pytest.raises(SandboxGone):
                attempt()
        replace_in_background(waking, starting, SESSION, list)
        assert waking.get_start_state(wait=True)
        waking.close()
        new.put("/tmp/go", [])
        result = running.result(60)
    assert (result.exit_code, result.stdout.preview) == (0, "whole\n")


class Starting:
    """A driver of these sandboxes, one after the other."""

    def __init__(self, *sandboxes: Sandbox) -> None:
        self._sandboxes = list(sandboxes)

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        return self._sandboxes.pop(0)

    def adopt(self, session: str) -> Sandbox | None:
        raise AssertionError("a waking worker has taken its successor's sandbox over")


@pytest.fixture(autouse=True)
def nothing_left(driver: PoolableDriver) -> Iterator[None]:
    yield
    left = driver.adopt(SESSION)
    if left is not None:
        left.close()
    assert left is None
