"""Sandboxes that are started ahead: behind something else, or kept waiting in a pool."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from secrets import token_hex

import pytest

from sandbox.background import Pool, replace_in_background, start_in_background
from sandbox.base import (
    DATA,
    OUT,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxRefused,
    SandboxUnavailable,
)
from sandbox.docker import DockerDriver
from sandbox.framed import FramedSandbox
from sandbox.spec import ContainerSpec
from tests.flow.product import containers


class Counting:
    """A driver that counts its starts, and waits for `open` before each."""

    def __init__(self, driver: DockerDriver) -> None:
        self._driver = driver
        self.started: list[FramedSandbox] = []
        self.open = threading.Event()
        self.open.set()

    def check(self) -> None:
        self._driver.check()

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        self.open.wait(30)
        self.started.append(self._driver.start(session, archive))
        return self.started[-1]

    def adopt(self, session: str) -> Sandbox | None:
        return self._driver.adopt(session)


class Broken(Counting):
    """A driver that cannot start anything."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        raise SandboxUnavailable("no engine today")


class Refusing(Counting):
    """A driver that can start nothing until somebody changes the installation."""

    asked = 0

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        self.asked += 1
        raise SandboxRefused("no such image")


class Struck(Counting):
    """A driver whose containers die as soon as they run."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        sandbox = super().start(session, archive)
        sandbox.container.kill()
        return sandbox


@pytest.fixture
def counting(driver: DockerDriver) -> Iterator[Counting]:
    made = Counting(driver)
    yield made
    for sandbox in made.started:
        sandbox.close()


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def said(sandbox: Sandbox, command: str) -> str:
    return sandbox.exec(command, timeout=20, number=1).stdout.preview


# ------------------------------------------------------------------------------------------ soon


def test_a_start_is_not_waited_for_before_the_first_use(counting: Counting) -> None:
    counting.open.clear()
    with closing(start_in_background(counting, "soon")) as sandbox:
        assert counting.started == []
        counting.open.set()
        assert said(sandbox, "echo here") == "here\n"
        sandbox.put("/tmp/data/x", [b"content"])
        assert sandbox.get("/tmp/data/x", limit=9) == b"content"
        assert b"".join(sandbox.export())
    with pytest.raises(SandboxGone, match="closed"):
        said(sandbox, "true")


def test_a_sandbox_for_its_first_use_is_started_by_that_alone(counting: Counting) -> None:
    unused = start_in_background(counting, "soon", at_first_use=True)
    assert unused.get_start_state() is None
    unused.close()
    with closing(start_in_background(counting, "soon", at_first_use=True)) as sandbox:
        assert counting.started == []
        assert said(sandbox, "echo here") == "here\n"
        assert len(counting.started) == 1


def test_the_archive_is_open_while_it_is_restored_and_closed_after(counting: Counting) -> None:
    with counting.start("first") as first:
        first.put(f"{DATA}/kept", [b"kept"])
        saved = list(first.export())
    state: list[str] = []

    @contextmanager
    def stored() -> Iterator[Iterable[bytes]]:
        state.append("open")
        yield iter(saved)
        state.append("closed")

    with closing(start_in_background(counting, "soon", [stored()])) as sandbox:
        sandbox.begin().result(60)
        assert state == ["open", "closed"]
        assert sandbox.get(f"{DATA}/kept", limit=9) == b"kept"


def test_a_start_that_fails_is_gone_at_the_first_use(driver: DockerDriver) -> None:
    sandbox = start_in_background(Broken(driver), "soon")
    with pytest.raises(SandboxUnavailable, match=r"^no engine today$"):
        sandbox.begin().result(60)
    with pytest.raises(SandboxGone, match=r"could not be started: no engine today"):
        said(sandbox, "true")
    sandbox.close()


def test_a_refusal_is_not_waited_out(driver: DockerDriver) -> None:
    refusing = Refusing(driver)
    sandbox = start_in_background(refusing, "soon")
    replace_in_background(sandbox, refusing, "soon", list)
    with pytest.raises(SandboxRefused, match="no such image"):
        sandbox.begin().result(60)
    assert refusing.asked == 2


def test_a_container_that_dies_before_its_first_use_is_not_left_behind(
    driver: DockerDriver,
) -> None:
    struck = Struck(driver)
    session = token_hex(8)
    sandbox = start_in_background(struck, session)
    with pytest.raises(SandboxGone):
        sandbox.begin().result(60)
    assert struck.started
    assert containers(session) == []


def test_a_store_that_fails_is_gone_at_the_first_use(counting: Counting) -> None:
    @contextmanager
    def stored() -> Iterator[Iterable[bytes]]:
        if not counting.started:
            raise LookupError("the store is away")
        yield []

    sandbox = start_in_background(counting, "soon", [stored()])
    with pytest.raises(LookupError):
        sandbox.begin().result(60)
    with pytest.raises(SandboxGone, match="the store is away"):
        said(sandbox, "true")
    sandbox.close()
    assert counting.started == []


# ------------------------------------------------------------------------------------------ pool


def test_a_sandbox_that_waited_is_taken_and_replaced(counting: Counting) -> None:
    with closing(Pool(counting, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        waited = counting.started[0]
        taken = pool.start("one")
        assert taken is waited
        assert said(taken, "echo fine") == "fine\n"
        until(lambda: pool.count_ready() == 1)
        assert len(counting.started) == 2


def test_an_empty_pool_starts_a_sandbox_as_ever(counting: Counting) -> None:
    with closing(Pool(counting, 0)) as pool:
        assert said(pool.start("one"), "echo fine") == "fine\n"
        pool.fill()
        assert pool.count_ready() == 0
    assert len(counting.started) == 1


def test_files_are_restored_into_one_that_waited(counting: Counting) -> None:
    with counting.start("first") as first:
        said(first, "seq 1 2000")
        saved = list(first.export())
    with closing(Pool(counting, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        again = pool.start("again", saved)
        assert again is counting.started[1]
        assert again.get(f"{OUT}/1.txt", limit=4) == b"1\n2\n"


def test_a_bad_archive_costs_the_sandbox_that_waited(counting: Counting) -> None:
    with closing(Pool(counting, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        with pytest.raises(SandboxError, match="not a whole gzip"):
            pool.start("again", [b"no archive"])
        with pytest.raises(SandboxGone):
            said(counting.started[0], "true")


def test_a_store_that_fails_in_the_middle_costs_the_sandbox_that_waited(
    counting: Counting,
) -> None:
    def download() -> Iterator[bytes]:
        yield b"\x1f\x8b"
        raise LookupError("the store is away")

    with closing(Pool(counting, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        with pytest.raises(LookupError):
            pool.start("again", download())
        with pytest.raises(SandboxGone, match="closed"):
            said(counting.started[0], "true")


def test_one_that_died_waiting_is_not_given_out(counting: Counting) -> None:
    with closing(Pool(counting, 1)) as pool:
        pool.fill()
        until(lambda: pool.count_ready() == 1)
        counting.started[0].container.kill()
        until(lambda: not counting.started[0].has_session())
        assert said(pool.start("one"), "echo fine") == "fine\n"


def test_one_that_waited_too_long_is_replaced(counting: Counting) -> None:
    with closing(Pool(counting, 1, lifetime=1.5)) as pool:
        pool.fill()
        until(lambda: len(counting.started) == 2 and pool.count_ready() == 1)
        with pytest.raises(SandboxGone):
            said(counting.started[0], "true")
        assert pool.start("one") is counting.started[1]


def test_closing_ends_what_waits_and_not_what_was_taken(counting: Counting) -> None:
    pool = Pool(counting, 1)
    pool.fill()
    until(lambda: pool.count_ready() == 1)
    taken = pool.start("one")
    until(lambda: pool.count_ready() == 1)
    pool.close()
    assert said(taken, "echo fine") == "fine\n"
    with pytest.raises(SandboxGone):
        said(counting.started[1], "true")
    pool.fill()
    assert pool.count_ready() == 0


def test_a_pool_that_cannot_be_filled_still_tries_to_start(
    driver: DockerDriver, container_spec: ContainerSpec
) -> None:
    with closing(Pool(Broken(driver), 1)) as pool:
        pool.fill()
        with pytest.raises(SandboxUnavailable, match="no engine today"):
            pool.start("one")
