"""A thousand events, doubled and out of order, through the real door, reader, writer and store."""

import queue
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from starlette.testclient import TestClient

from tests.accepting import one_by_one
from tests.fakes import says
from tests.jobs import Job, run_trigger
from tests.simulators.gitlab import GitLabSim, MergeRequest, Note, Receiver
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import Trigger
from worker.errors import SandpiperError
from worker.lab.gitlab.views import Event
from worker.safety.markdown import find_marker
from worker.webhook import http

SECRET = "burst"
WORKERS = 6
FAILING, GREEN = 8, 8
PATIENCE = 500


@dataclass
class Steady:
    """A model that has one answer, for any number of threads."""

    name: str = "test/model"
    context_tokens: int = 100_000
    binds_thinking: bool = False
    keeps_cache_without_tools: bool = True

    def reply(self, request: Request) -> Reply:
        return says("## Verdict\nflaky\n\n## Cause\nA race.\n")


@dataclass
class Crew:
    """Workers on one queue; what may be tried again goes back to its end."""

    at: Job
    todo: "queue.Queue[tuple[Trigger, int]]" = field(default_factory=queue.Queue)
    ends: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def put(self, trigger: Trigger) -> None:
        self.todo.put((trigger, 0))

    def work(self) -> None:
        """Until the queue is empty and nobody may fill it any more."""
        threads = [threading.Thread(target=self._one, args=(n,)) for n in range(WORKERS)]
        for thread in threads:
            thread.start()
        self.todo.join()
        for _ in threads:
            self.todo.put((self.at.make_trigger(), -1))
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()

    def _one(self, number: int) -> None:
        deps = self.at.build_deps(model=Steady, owner=f"worker-{number}")
        while (taken := self.todo.get())[1] >= 0:
            trigger, tries = taken
            try:
                self.ends[type(run_trigger(trigger, deps)).__name__] += 1
            except SandpiperError as error:
                if error.transient and tries < PATIENCE:
                    threading.Event().wait(0.01)
                    self.todo.put((trigger, tries + 1))
                else:
                    self.errors.append(str(error))
            finally:
                self.todo.task_done()
        self.todo.task_done()


class Burst:
    """The merge requests, and the events that tell of them."""

    def __init__(self, sim: GitLabSim, folder: Path) -> None:
        self.sim, self.chance = sim, random.Random(5)
        self.at = Job(sim, folder)
        self.crew = Crew(self.at)
        self.stranger = sim.add_user("stranger")
        self.sent = 0
        sim.receiver = Receiver("http://127.0.0.1:9/", SECRET)
        sim.note_listeners.clear()
        self.failing = [self._opened(f"red-{number}") for number in range(FAILING)]
        self.green = [self._opened(f"green-{number}") for number in range(GREEN)]
        self.door = TestClient(
            http.build_app(SECRET, one_by_one(self.crew.put), (), lambda: 0.0, lambda: None),
            raise_server_exceptions=True,
        )

    def _opened(self, branch: str) -> MergeRequest:
        scene = self.at.scene
        return self.sim.open_merge_request(
            scene.project, scene.developer, title=branch, branch=branch, files={branch: b"1"}
        )

    def deliver(self, events: list[Event]) -> Counter[int]:
        """Send them all, shuffled, then let the workers finish."""
        self.chance.shuffle(events)
        self.sent += len(events)
        answers = [
            self.door.post(http.PATH, headers=head, content=body).status_code
            for head, body in events
        ]
        self.crew.work()
        return Counter(answers)

    def pipelines(self) -> list[Event]:
        """Every transition of every pipeline; the last ones more than once."""
        events: list[Event] = []
        for mr in self.failing + self.green:
            status = "failed" if mr in self.failing else "success"
            pipeline = self.sim.run_pipeline(mr, status=status)
            self.sim.add_job(pipeline, "test", status=status)
            for state in ("created", "pending", "running"):
                events += [self.sim.make_pipeline_event(pipeline, state) for _ in range(8)]
            events += [self.sim.make_pipeline_event(pipeline) for _ in range(10)]
            events += [self.sim.make_pipeline_event(pipeline)] * 5
        return events

    def comments(self) -> list[Event]:
        """Replies, commands, chatter, and strangers, each told more than once."""
        events: list[Event] = []
        for mr in self.failing:
            (root,) = self.own(mr)
            thread = root.discussion_id
            said = [self._said(mr, f"Why, {number}?", thread) for number in range(2)]
            said += [self._said(mr, words) for words in ("/sandpiper help", "/sandpiper status")]
            said += [self._said(mr, "And you?", thread, stranger=True), self._said(mr, "LGTM")]
            said += self.own(mr)
            for note in said:
                events += [self.sim.make_note_event(note) for _ in range(5)]
                events += [self.sim.make_note_event(note, "update")] * 2
        return events

    def _said(
        self, mr: MergeRequest, text: str, thread: str = "", *, stranger: bool = False
    ) -> Note:
        author = self.stranger if stranger else self.at.scene.developer
        note = self.sim.comment(mr, author, text, thread)
        assert note is not None
        return note

    def own(self, mr: MergeRequest) -> list[Note]:
        """The bot's notes."""
        return [note for note in mr.list_notes() if note.author is self.at.scene.bot]


def test_a_thousand_mixed_events_end_in_exactly_the_expected_notes(
    sim: GitLabSim, tmp_path: Path
) -> None:
    burst = Burst(sim, tmp_path)
    assert set(burst.deliver(burst.pipelines())) == {200, 202}
    for mr in burst.failing:
        (note,) = burst.own(mr)
        assert "A race." in note.body
    assert burst.crew.ends["Finished"] == FAILING

    assert set(burst.deliver(burst.comments())) == {200, 202}
    assert burst.sent >= 1000
    assert burst.crew.errors == []
    assert not any(burst.own(mr) for mr in burst.green)
    for mr in burst.failing:
        _, *answers = burst.own(mr)
        assert len(answers) == 4
        assert len({find_marker(note.body) for note in answers}) == 4
        assert not any(note.awards for note in mr.list_notes())
    assert len(burst.at.list_sessions()) == FAILING
    assert {burst.at.load_context(key).turn for key in burst.at.list_sessions()} == {2}
