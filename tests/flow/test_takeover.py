"""Workers that are killed, at every point that matters: nothing is lost, nothing is said twice."""

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import forks
from tests.flow import crew
from tests.flow.mortal import FROZEN
from tests.flow.product import (
    DOCKER,
    SECRET,
    Process,
    Product,
    containers,
    ending,
    free_port,
    healthy,
    product,
)
from tests.flow.taker import killed_with_a_message
from tests.simulators.gitlab import Note, Receiver
from worker.lab.script import Asked, Call, Say, Scripted
from worker.queue.journal import MOST_BLAME, Entry, State, encode_entry, name_entry
from worker.sessions.folder import FolderStore

pytestmark = pytest.mark.usefixtures("sandbox_image")

HASTE = "worker: {heartbeat: 0.25, lease: 1, grace: 10}\nnote: {progress: 0}\n"
"""What takes half a minute by default takes two seconds here."""

POINTS = [
    "before the claim",
    "after the claim",
    "after the post",
    "in a model call",
    "in a command",
    "before the edit",
    "after the edit",
    "after the commit",
]
TAKEN_OVER = 30.0
"""Seconds, with starting a process, on a machine that is busy; leases are one second."""


@contextmanager
def told(folder: Path, broker: str, chosen: Scripted | None = None) -> Iterator[Product]:
    """The bundled case, on short leases."""
    with product(folder, chosen or crew.script(), broker, driver=DOCKER) as made:
        made.write_settings(HASTE)
        yield made


@contextmanager
def mortal(made: Product, point: str, command: str, *options: str) -> Iterator[Process]:
    """A process of the product that may kill itself at a point."""
    log = made.folder / f"{command}-{time.monotonic_ns()}.log"
    once = str(made.folder / f"{point} once")
    line = ["tests.flow.mortal", point, once, command, *options]
    with log.open("w") as stream:
        popen = forks.start(line, made.env, made.folder, stream, stream)
    with ending(popen):
        yield Process(popen, log)


def killed(process: Process) -> None:
    assert process.popen.wait(60) == -signal.SIGKILL, process.log.read_text()


def done(made: Product, count: int = 1) -> bool:
    return len(made.objects("context.json")) == count and not made.unfinished()


def assert_told_once(made: Product, repeated: int = 0) -> None:
    """Every merge request that was at stake has one note, and nothing is left behind."""
    notes = [
        note for mr in made.scene.mr.project.merge_requests.values() for note in crew.own(made, mr)
    ]
    stored = made.objects("context.json")
    assert len(notes) == len({note.merge_request.iid for note in notes}) == len(stored)
    assert all("The command ran 1 times." in note.body for note in notes)
    assert len(made.model.requests) == 3 * len(stored) + repeated
    assert made.gitlab.unexpected_requests == []
    assert made.model.unexpected_requests == []
    assert not any(containers(path.parent.parent.name) for path in stored)
    left = {path.name for path in (made.folder / "store").rglob("*") if path.is_file()}
    assert not left & {"claim.json", "checkpoint.json"}


def test_killed_workers_are_replaced_wherever_they_die(tmp_path: Path, redis_url: str) -> None:
    with told(tmp_path, redis_url) as made:
        assert_replaced(made, POINTS)


def test_rabbitmq_does_the_same(tmp_path: Path, rabbit_url: str) -> None:
    with told(tmp_path, rabbit_url) as made:
        assert_replaced(made, ["before the claim", "in a model call"])


def assert_replaced(made: Product, points: Sequence[str]) -> None:
    """A worker dies at each of the points, at a merge request of its own; one more does it all."""
    # Those who die must not take each other's work over: they would take the usual half minute.
    # Nor wait for each other's place in the project.
    (made.folder / "patient.yaml").write_text(
        f"note: {{progress: 0}}\nlimits: {{project_concurrency: {len(points)}}}\n"
    )
    made.env["SANDPIPER_CONFIG"] = "patient.yaml"
    for number, point in enumerate(points):
        crew.fails(made, crew.another(made, number, b"ValueError: no %d\n" % number))
        with mortal(made, point, "worker") as one:
            killed(one)
    del made.env["SANDPIPER_CONFIG"]
    began = time.monotonic()
    with made.process("worker", "--concurrency", "4") as heir:
        heir.until(lambda: done(made, len(points)), "nobody went on")
    assert time.monotonic() - began < TAKEN_OVER
    assert_told_once(made, repeated=1)


def test_a_message_whose_worker_dies_before_it_has_noted_it_is_taken_by_another(
    tmp_path: Path, redis_url: str
) -> None:
    with told(tmp_path, redis_url) as made:
        crew.fails(made)
        assert killed_with_a_message(redis_url, "celery")
        with made.process("worker", "--concurrency", "1") as heir:
            heir.until(lambda: done(made), "the message is lost")
        assert_told_once(made)


@pytest.mark.parametrize("point", ["in a later model call", "in a command", "before the edit"])
def test_a_frozen_worker_that_thaws_finds_its_run_ended_by_another_and_says_nothing(
    tmp_path: Path, redis_url: str, point: str
) -> None:
    with told(tmp_path, redis_url) as made:
        # Its progress would be told the moment it thaws. More often, and it would freeze while it
        # edits the note, and that edit would arrive when it thaws.
        made.write_settings(HASTE.replace("progress: 0", "progress: 1"))
        crew.fails(made)
        with mortal(made, FROZEN + point, "worker") as frozen:
            frozen.until(lambda: stopped(frozen), "it did not freeze")
            with made.process("worker", "--concurrency", "1") as heir:
                heir.until(lambda: done(made), "nobody went on")
            (note,) = made.notes()
            asked, said = len(made.model.requests), body(note)
            frozen.popen.send_signal(signal.SIGCONT)
            frozen.until(lambda: "another worker has taken over" in frozen.log.read_text(), "?")
            # It is a worker as any other again.
            crew.fails(made, crew.another(made, 1))
            frozen.until(lambda: done(made, 2), "it does nothing any more")
        assert made.notes() == [note]
        assert body(note) == said
        assert len(made.model.requests) == asked + 3
        assert not any(containers(path.parent.parent.name) for path in made.objects("context.json"))
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []


def body(note: Note) -> str:
    """A note without its footer: an edit that was on its way cannot be called back, and says how
    long it took."""
    return note.body.partition("<sub>")[0]


def stopped(process: Process) -> bool:
    """Whether it is stopped by a signal."""
    status = Path(f"/proc/{process.popen.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "T"


def test_the_embedded_worker_goes_on_after_a_restart(tmp_path: Path) -> None:
    with told(tmp_path, "memory://") as made:
        port = free_port()
        with mortal(made, "after the post", "serve", str(port)) as first:
            url = f"http://127.0.0.1:{port}"
            first.until(lambda: healthy(url), "serve does not answer")
            made.gitlab.receiver = Receiver(f"{url}/webhooks/gitlab", SECRET)
            assert made.pipeline_failed().status_code == 202
            killed(first)
        with made.serve() as second:
            second.until(lambda: done(made), "nobody went on")
        assert_told_once(made)


def test_a_trigger_that_kills_a_third_worker_is_told_of_and_parked(
    tmp_path: Path, redis_url: str
) -> None:
    with told(tmp_path, redis_url) as made:
        trigger = crew.failure(made)
        before = Entry(trigger, State.OPEN, deaths=2, blame=MOST_BLAME - 1)
        FolderStore(made.folder / "store").records.create(name_entry(trigger), encode_entry(before))
        crew.fails(made)
        with mortal(made, "in a model call", "worker") as third:
            killed(third)
        with made.process("worker", "--concurrency", "1") as last:
            last.until(lambda: parked(made), "not parked")
        (note,) = made.notes()
        assert "3 workers died" in note.body
        assert "3 workers died" in made.run("sweep", "--parked").stdout
        assert len(made.model.requests) == 1
        (stored,) = made.objects("context.json")
        assert containers(stored.parent.parent.name) == []


def parked(made: Product) -> bool:
    return any('"parked"' in path.read_text() for path in made.unfinished())


@dataclass
class Slow:
    """The script, whose second answer takes until `go`."""

    go: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    seen: list[str] = field(default_factory=list)

    def script(self) -> Scripted:
        def second(asked: Asked) -> Call:
            self.asked.set()
            self.go.wait(30)
            return Call([("sandbox_exec", {"command": "wc -l < /tmp/data/count"})])

        def last(asked: Asked) -> Say:
            self.seen.append(json.dumps(asked.body["messages"][-1]))
            return crew.conclude(asked)

        return crew.script(second, last)


def test_a_worker_that_is_told_to_end_hands_its_run_over_between_two_steps(
    tmp_path: Path, redis_url: str
) -> None:
    slow = Slow()
    with told(tmp_path, redis_url, slow.script()) as made:
        crew.fails(made)
        with made.process("worker", "--concurrency", "2") as first:
            first.until(slow.asked.is_set, "the model was not asked")
            first.popen.terminate()
            first.until(lambda: "shutdown" in first.log.read_text().lower(), "no end in sight")
            slow.go.set()
            assert first.popen.wait(10) == 0, first.log.read_text()
        assert "handed over" in (made.folder / "worker.log").read_text()
        assert not list((made.folder / "store" / "workers").glob("*.json"))
        with made.process("worker", "--concurrency", "2") as second:
            second.until(lambda: done(made), "nobody went on")
        assert_told_once(made)
        # The command of the answer was not begun before the end, nor after it without being said.
        assert "/tmp/data and /tmp/_out have been restored" in slow.seen[-1]


def test_the_embedded_worker_hands_over_to_the_next_process(tmp_path: Path) -> None:
    slow = Slow()
    with told(tmp_path, "memory://", slow.script()) as made:
        with made.serve() as first:
            made.pipeline_failed()
            first.until(slow.asked.is_set, "the model was not asked")
            first.popen.terminate()
            first.until(lambda: not healthy(made.url), "the door stays open")
            slow.go.set()
            assert first.popen.wait(10) == 0, first.log.read_text()
        with made.serve() as second:
            second.until(lambda: done(made), "nobody went on")
        assert_told_once(made)


def test_what_does_not_end_in_the_grace_is_left_and_taken_over_at_once(
    tmp_path: Path, redis_url: str
) -> None:
    slow = Slow()
    with told(tmp_path, redis_url, slow.script()) as made:
        made.write_settings("worker: {grace: 0.5}\n")
        crew.fails(made)
        with made.process("worker", "--concurrency", "2") as first:
            first.until(slow.asked.is_set, "the model was not asked")
            first.popen.terminate()
            assert first.popen.wait(10) == 1, first.log.read_text()
        slow.go.set()
        # The lease is the usual half minute: it is the worker's farewell that frees its run.
        with made.process("worker", "--concurrency", "2") as second:
            second.until(lambda: done(made), "nobody went on")
        assert_told_once(made, repeated=1)
