"""Ctrl-C at a command in the foreground: it ends between two steps, and leaves nothing behind."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.flow.product import DEADLINE, Driver, Process, Product, product
from worker.lab import story
from worker.lab.script import Answer, Asked, Script
from worker.safety.markdown import find_marker

STOPPING = "sandpiper: stopping after this step; Ctrl-C again stops at once"


@dataclass
class Held:
    """A script that answers its request number `at` only once it is let go."""

    script: Script = field(default_factory=story.make_script)
    at: int = 2
    asked: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)

    def __call__(self, asked: Asked) -> Answer:
        self.asked += 1
        if self.asked == self.at:
            self.reached.set()
            self.free.wait(DEADLINE)
        return self.script(asked)


@contextmanager
def held_product(
    folder: Path, driver: Driver = "bubblewrap", at: int = 2
) -> Iterator[tuple[Product, Held]]:
    held = Held(at=at)
    with product(folder, held, "memory://", driver=driver) as told:
        try:
            yield told, held
        finally:
            held.free.set()


@pytest.fixture
def told(tmp_path: Path, bubblewrap: None) -> Iterator[tuple[Product, Held]]:
    with held_product(tmp_path) as both:
        yield both


def mr(told: Product) -> str:
    return f"{told.scene.mr.project.path}!{told.scene.mr.iid}"


def find_session(note: str) -> str:
    """Return the session that a note names."""
    marker = find_marker(note)
    assert marker
    return marker.session_id


def press(process: Process, number: int = signal.SIGINT) -> None:
    """Send the signal, and wait until the command has said that it ends."""
    said = process.log.read_text().count(STOPPING)
    os.kill(process.popen.pid, number)
    process.until(
        lambda: process.log.read_text().count(STOPPING) > said or process.popen.poll() is not None,
        "the signal was not heard",
    )


def end(process: Process) -> tuple[int, list[str]]:
    """Return the exit status and the lines on the terminal."""
    return process.popen.wait(DEADLINE), process.log.read_text().splitlines()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.usefixtures("sandbox_image")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_analysis_ends_after_its_step_says_so_in_its_note_and_can_go_on(
    tmp_path: Path, number: int, status: int
) -> None:
    with held_product(tmp_path, "docker") as (told, held):
        with told.process("analyze", mr(told)) as process:
            process.until(held.reached.is_set, "the model was not asked")
            (note,) = told.notes()
            assert "will replace this note" in note.body
            session = find_session(note.body)
            press(process, number)
            assert process.popen.poll() is None  # the model's answer is paid for
            held.free.set()
            ended, lines = end(process)
        assert (ended, lines[-1]) == (
            status,
            "sandpiper: stopped; its note says so, and the same command goes on from here",
        )
        assert [line for line in lines if "Traceback" in line] == []
        (note,) = told.notes()
        assert "It was stopped by the one who ran it in a terminal" in note.body
        assert told.list_sandboxes(session) == []
        asked = held.asked
        done = told.run("analyze", mr(told))
        assert done.returncode == 0, done.stderr
        (note,) = told.notes()
        assert "Caused by this change" in note.body
        assert held.asked < 2 * asked + 2  # it has gone on, not begun anew


@pytest.mark.usefixtures("sandbox_image")
def test_a_second_signal_ends_an_analysis_at_once_and_removes_its_sandbox(tmp_path: Path) -> None:
    with held_product(tmp_path, "docker") as (told, held):
        with told.process("analyze", mr(told)) as process:
            process.until(held.reached.is_set, "the model was not asked")
            (note,) = told.notes()
            session = find_session(note.body)
            process.until(lambda: told.list_sandboxes(session), "no sandbox has started")
            press(process)
            os.kill(process.popen.pid, signal.SIGINT)
            ended, _ = end(process)
        assert ended == 130
        assert not held.free.is_set()
        assert told.list_sandboxes(session) == []
        (note,) = told.notes()
        assert "It was stopped by the one who ran it in a terminal" in note.body


@pytest.mark.usefixtures("sandbox_image")
def test_a_command_that_nobody_reads_ends_and_leaves_nothing(tmp_path: Path) -> None:
    with held_product(tmp_path, "docker") as (told, held):
        with told.piped("analyze", mr(told)) as (popen, stream):
            wait_until(held.reached.is_set)
            session = find_session(told.notes()[0].body)
            wait_until(lambda: told.list_sandboxes(session))
            stream.close()
            held.free.set()
            assert popen.wait(DEADLINE) != 0
        assert told.list_sandboxes(session) == []
        (note,) = told.notes()
        assert "It was stopped by the one who ran it in a terminal" in note.body


def test_a_dry_run_that_is_stopped_posts_nothing_and_nobody_goes_on_with_it(
    told: tuple[Product, Held],
) -> None:
    made, held = told
    with made.process("analyze", mr(made), "--dry-run") as process:
        process.until(held.reached.is_set, "the model was not asked")
        press(process)
        held.free.set()
        ended, lines = end(process)
    assert (ended, lines[-1]) == (130, "sandpiper: stopped; nothing was posted")
    assert made.list_sandboxes("") == []
    assert {seen.method for seen in made.gitlab.requests} == {"GET"}
    asked = held.asked
    swept = made.run("sweep", "--hours", "0.01")
    assert swept.returncode == 0, swept.stderr
    assert (swept.stdout, made.notes(), held.asked) == ("", [], asked)


def test_a_stopped_second_look_leaves_the_note_as_it_was(told: tuple[Product, Held]) -> None:
    made, held = told
    held.at = 0
    assert made.run("analyze", mr(made)).returncode == 0
    (before,) = [note.body for note in made.notes()]
    held.at = held.asked + 1
    with made.process("analyze", mr(made), "--again") as process:
        process.until(held.reached.is_set, "the model was not asked")
        assert "will replace this note" in made.notes()[0].body
        press(process)
        held.free.set()
        ended, _ = end(process)
    assert ended == 130
    assert [note.body for note in made.notes()] == [before]


@pytest.mark.parametrize("command", ["reply", "replay"])
def test_what_goes_on_with_a_session_ends_after_its_step(
    told: tuple[Product, Held], command: str
) -> None:
    made, held = told
    held.at = 0
    begun = made.run("analyze", mr(made), "--dry-run", "--json")
    session = begun.stdout.partition('"session": "')[2][:20]
    words = [story.QUESTION] if command == "reply" else []
    held.at = held.asked + 1
    with made.process(command, session, *words) as process:
        process.until(held.reached.is_set, "the model was not asked")
        press(process)
        held.free.set()
        ended, lines = end(process)
    assert ended == 130
    said = "; nothing is stored of this question" if command == "reply" else ""
    assert lines[-1] == f"sandpiper: stopped{said}"
    assert made.list_sandboxes("") == []
    assert len(made.objects("context.json")) == 1


@pytest.mark.parametrize("presses", [1, 2])
def test_an_evaluation_ends_after_its_step_and_removes_its_sandbox(
    told: tuple[Product, Held], presses: int
) -> None:
    made, held = told
    with made.process("eval", "run", str(story.CASE)) as process:
        process.until(held.reached.is_set, "the model was not asked")
        press(process)
        if presses == 2:
            os.kill(process.popen.pid, signal.SIGINT)
        else:
            held.free.set()
        ended, lines = end(process)
    assert ended == 130
    if presses == 1:
        assert lines[-1] == "sandpiper: stopped"
        assert made.list_sandboxes("") == []
        assert list(Path(made.env["TMPDIR"]).glob("sandpiper-eval-*")) == []
