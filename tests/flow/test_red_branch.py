"""A red branch, through the whole product: webhooks, the door, the queue, workers that die."""

import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.flow.product import (
    BUBBLEWRAP,
    KEY,
    SECRET,
    Process,
    Product,
    ending,
    free_port,
    healthy,
    make_environment,
)
from tests.flow.test_takeover import HASTE
from tests.played_branches import DRIFTED, ERROR, LANDED
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.branches import StoryPlayer
from tests.simulators.gitlab import GitLabSim, Receiver
from worker.lab.script import Asked, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

ANSWER = "## Verdict\nunknown\n\n## Cause\nThe log does not say more.\n"
ASKED = 2
"""An answer that quotes nothing is asked for once more."""


@dataclass
class World:
    """The simulators, the story of a branch, and the processes that hear of it."""

    product: Product
    player: StoryPlayer
    doors: list[str] = field(default_factory=list)

    def play(self, until: str) -> None:
        """Let GitLab go on, and deliver what happens to every door."""
        for each in self.player.play(until):
            for hook in each.hooks:
                for door in self.doors:
                    self.player.sim.post(f"{door}/webhooks/gitlab", hook)

    @contextmanager
    def start(self, *words: str) -> Iterator[Process]:
        """A process in the background."""
        made = self.product
        log = made.folder / f"{time.monotonic_ns()}.log"
        with log.open("w") as stream:
            popen = forks.start(words, made.env, made.folder, stream, stream)
        with ending(popen):
            yield Process(popen, log)

    @contextmanager
    def serve(self, *mortal: str) -> Iterator[Process]:
        """`sandpiper serve`, with a worker in it if the queue is in its memory; `mortal` are a
        point of `tests.flow.mortal` and a file."""
        port = str(free_port())
        words = [forks.SANDPIPER, "serve", "--port", port]
        if mortal:
            words = ["tests.flow.mortal", *mortal, "serve", port]
        url = f"http://127.0.0.1:{port}"
        with self.start(*words) as process:
            process.until(lambda: healthy(url), "serve does not answer")
            self.doors.append(url)
            yield process
            self.doors.remove(url)

    def notes(self) -> dict[int, list[str]]:
        """The bot's notes on each merge request."""
        return {
            iid: [note.body for note in mr.list_notes() if note.author is self.player.bot]
            for iid, mr in self.player.requests.items()
        }

    def incidents(self) -> list[dict[str, Any]]:
        """What `sandpiper incidents --json` prints."""
        done = self.product.run("incidents", "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def settled(self, state: str, notes: int) -> Callable[[], bool]:
        """Whether the incident is at this, so many notes are there, and nothing is left to do."""

        def is_settled() -> bool:
            records = list((self.product.folder / "store" / "incidents").glob("*/*.json"))
            return (
                not self.product.unfinished()
                and sum(map(len, self.notes().values())) == notes
                and any(f'"state": "{state}"' in path.read_text() for path in records)
            )

        return is_settled

    def analyses(self) -> int:
        """How many sessions of the branch were committed."""
        return sum("branch-main" in path.parts for path in self.product.objects("context.json"))


@contextmanager
def branch(
    folder: Path, events: list[Any], more: str = "", broker: str = "memory://"
) -> Iterator[World]:
    """The story of a branch, an hour ago, and the environment for the product."""
    story = {"errors": {"E": ERROR}, "events": events, "expect": []}

    def answer(asked: Asked) -> Say:
        return Say(ANSWER)

    with (
        GitLabSim() as gitlab,
        AnthropicSim(answer, key=KEY) as model,
        tempfile.TemporaryDirectory(prefix="sp-") as temporary,
    ):
        gitlab.receiver = Receiver("http://127.0.0.1:9/", SECRET)
        player = StoryPlayer(gitlab, story, datetime.now(UTC) - timedelta(hours=1))
        made = Product(gitlab, model, None, folder, driver=BUBBLEWRAP)  # type: ignore[arg-type]
        tokens = player.read_token, player.write_token
        made.env = make_environment(made, broker, *tokens) | {"TMPDIR": temporary}
        made.write_settings(f"{HASTE}gitlab: {{debounce: 0}}\n{more}")
        yield World(made, player)
        assert gitlab.unexpected_requests == []
        assert model.unexpected_requests == []


def test_two_processes_tell_one_story_of_a_red_branch(tmp_path: Path) -> None:
    """Each has its own door, queue and worker, and hears of everything."""
    with branch(tmp_path, LANDED) as world, ExitStack() as stack:
        first, _ = (stack.enter_context(world.serve()) for _ in range(2))
        assert_one_story(world, first)


def test_two_workers_on_one_queue_tell_one_story(tmp_path: Path, redis_url: str) -> None:
    with branch(tmp_path, LANDED, broker=redis_url) as world, ExitStack() as stack:
        for _ in range(2):
            words = ("worker", "--concurrency", "2", "--metrics-port", "0")
            stack.enter_context(world.start(forks.SANDPIPER, *words))
        door = stack.enter_context(world.serve())
        world.doors *= 2  # GitLab delivers twice
        assert_one_story(world, door)


def assert_one_story(world: World, process: Process) -> None:
    """`main` turns red, hits two merge requests, and is mended."""
    world.play("16m")
    process.until(lambda: world.settled("open", 0)() and world.analyses(), "no incident")
    world.play("25m")
    process.until(world.settled("open", 2), "no notes")
    (red,) = world.incidents()
    world.play("40m")
    process.until(world.settled("closed", 2), "it is not closed")
    (over,) = world.incidents()
    assert (red["state"], over["state"]) == ("open", "closed")
    assert red["incident"] == over["incident"]
    assert [each["since_pipeline"] for each in over["failures"]] == [102]
    assert [each["until_pipeline"] for each in over["failures"]] == [103]
    notes = world.notes()
    assert [len(notes[iid]) for iid in (21, 22)] == [1, 1]
    assert all("**Green again:** `main`" in notes[iid][0] for iid in (21, 22))
    assert world.analyses() == 1
    assert len(world.product.model.answers) == ASKED
    assert world.player.sim.retried == []


@pytest.mark.parametrize("point", ["after the branch is stored", "in a model call"])
def test_a_branchs_worker_that_is_killed_is_replaced(tmp_path: Path, point: str) -> None:
    with branch(tmp_path, LANDED) as world:
        with world.serve(point, str(tmp_path / "once")) as first:
            world.play("16m")
            assert first.popen.wait(60) == -signal.SIGKILL, first.log.read_text()
        with world.serve() as second:
            second.until(lambda: world.settled("open", 0)() and world.analyses(), "nobody went on")
            world.play("25m")
            second.until(world.settled("open", 2), "no notes")
            world.play("40m")
            second.until(world.settled("closed", 2), "it is not closed")
        (over,) = world.incidents()
        notes = world.notes()
    assert over["state"] == "closed"
    assert [len(notes[iid]) for iid in (21, 22)] == [1, 1]
    assert world.analyses() == 1
    assert len(world.product.model.answers) == ASKED + (point == "in a model call")


def test_a_worker_that_is_killed_before_it_runs_a_job_again_runs_none_twice(tmp_path: Path) -> None:
    with branch(tmp_path, DRIFTED, "incidents: {rerun: 2, issue: true}\n") as world:
        with world.serve("before a run again", str(tmp_path / "once")) as first:
            world.play("16m")
            first.until(world.settled("suspected", 0), "no incident")
            world.play("25m")
            first.until(world.settled("open", 2), "no notes")
            world.play("40m")
            assert first.popen.wait(60) == -signal.SIGKILL, first.log.read_text()
        with world.serve() as second:
            second.until(world.settled("closed", 2), "nobody went on")
    assert len(world.player.sim.retried) == 1
    (issue,) = next(iter(world.player.sim.issues.issues.values()))
    assert issue.state == "closed"
    assert world.analyses() == 1
