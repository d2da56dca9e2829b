"""A provider that is overloaded or away for a while: runs wait for it, and each gets one note.

Time is a clock that is moved by hand; GitLab, HTTP, the journal and the store are real.
"""

import heapq
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.fakes import HandClock
from tests.jobs import START, Job
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import GitLabSim, Note, Pipeline
from worker.conversation.context import Status
from worker.conversation.context_json import load_context
from worker.conversation.events import ignore_event
from worker.conversation.limits import Limits
from worker.conversation.model import Model
from worker.conversation.triggers import Trigger
from worker.jobs import delivery
from worker.lab.script import Call, Say, Scripted
from worker.models.table import build_model
from worker.models.wrapper import Breakers, FallbackModel

REFUSED = 0
"""Stands for a port on which nobody listens."""

FINDING = "## Verdict\nunknown\n\n## Cause\nA race in the test.\n"
RUNS = 8
APART = 0.5
"""Seconds between two triggers."""

TROUBLES = [
    pytest.param([(0, 25, 529)], id="529 for 25 s"),
    pytest.param([(0, 400, 529)], id="529 for seven minutes"),
    pytest.param([(0, 300, 429)], id="429 for five minutes"),
    pytest.param([(0, 120, REFUSED)], id="nobody listens for two minutes"),
    pytest.param([(0, 40, 529), (41, 1500, 503), (1520, 1600, REFUSED)], id="on and off"),
]


class Outage(httpx.BaseTransport):
    """HTTP to the simulator, except while nobody listens there."""

    def __init__(self, sim: AnthropicSim, clock: HandClock, spans: list[tuple[int, int, int]]):
        self._clock, self._spans = clock, spans
        self._http = httpx.HTTPTransport()
        sim.fail_while(lambda: self._find_status() or 0)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._find_status() == REFUSED:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)
        return self._http.handle_request(request)

    def close(self) -> None:
        self._http.close()

    def _find_status(self) -> int | None:
        passed = self._clock.time - START
        found = (status for begin, end, status in self._spans if begin <= passed < end)
        return next(found, None)


class Queue:
    """Delivers triggers in the order in which they are due, and moves the clock to it."""

    def __init__(self, clock: HandClock) -> None:
        self.clock, self.delivered = clock, 0
        self._due: list[tuple[float, int, Trigger]] = []
        self._numbers = count()

    def add(self, trigger: Trigger, seconds: float) -> None:
        due = self.clock.time + seconds
        heapq.heappush(self._due, (due, next(self._numbers), trigger))

    def deliver_all(self, at: Job, model: Model) -> None:
        deps = at.build_deps(
            model=lambda: FallbackModel([model], at.clock),
            limits=Limits(wall_clock=900.0, context_tokens=100_000),
        )
        while self._due:
            due, _, trigger = heapq.heappop(self._due)
            self.clock.time = max(self.clock.time, due)
            delivery.deliver_trigger(trigger, deps, ignore_event, self.add)
            self.delivered += 1


@pytest.fixture
def gitlab_job(tmp_path: Path) -> Iterator[Job]:
    with GitLabSim() as gitlab:
        yield Job(gitlab, tmp_path)


@pytest.fixture
def sim() -> Iterator[AnthropicSim]:
    with AnthropicSim(Scripted([Call([("look", {})]), Say(FINDING)])) as running:
        yield running


def open_failures(at: Job) -> list[Pipeline]:
    """The scene's failed pipeline, and more of other merge requests."""
    pipelines = [at.scene.pipeline]
    for number in range(1, RUNS):
        mr = at.sim.open_merge_request(
            *(at.scene.project, at.scene.developer),
            title=f"Change {number}",
            branch=f"change-{number}",
            files={f"file-{number}": b"1"},
        )
        pipelines.append(at.sim.run_pipeline(mr))
        at.sim.add_job(pipelines[-1], "test", status="failed", trace=b"it failed\n")
    return pipelines


def run_all(at: Job, sim: AnthropicSim, queue: Queue, spans: list[tuple[int, int, int]]) -> None:
    transport = Outage(sim, at.clock, spans)
    model = build_model(
        "anthropic/claude-sonnet-5-5", sim.url, "any", clock=at.clock, transport=transport
    )
    with closing(model):
        queue.deliver_all(at, Breakers(at.clock).guard(model))


def list_own_notes(at: Job, pipeline: Pipeline) -> list[Note]:
    assert pipeline.mr is not None
    return [note for note in pipeline.mr.list_notes() if note.author is at.scene.bot]


@pytest.mark.slow
@pytest.mark.attack("odd answers")
@pytest.mark.parametrize("spans", TROUBLES)
def test_eight_runs_outlast_a_provider_in_trouble_and_end_in_one_note_each(
    gitlab_job: Job, sim: AnthropicSim, spans: list[tuple[int, int, int]]
) -> None:
    at = gitlab_job
    pipelines, queue = open_failures(at), Queue(at.clock)
    for number, pipeline in enumerate(pipelines):
        queue.add(at.make_trigger(pipeline), number * APART)
    run_all(at, sim, queue, spans)
    for pipeline in pipelines:
        (note,) = list_own_notes(at, pipeline)
        assert "A race in the test." in note.body
        assert "no model answers now" not in note.body
    outcomes = [load_context(at.store.read_context(key, 0)).outcome for key in at.list_sessions()]
    assert [each and each.status for each in outcomes] == [Status.DONE] * RUNS
    assert list(at.store.records.list_names("journal/")) == []
    assert sim.unexpected_requests == []


@pytest.mark.attack("odd answers")
def test_a_wait_longer_than_the_wall_clock_in_the_middle_of_a_run_takes_nothing_from_it(
    gitlab_job: Job, sim: AnthropicSim
) -> None:
    at = gitlab_job
    queue, moved = Queue(at.clock), at.build_deps().runtime.limits.wall_clock * 1.5
    queue.add(at.make_trigger(), 0.0)
    # The first answer, a tool call, comes at once.
    sim.fail_while(lambda: 0 if not sim.answers or at.clock.time > START + moved else 529)
    model = build_model("anthropic/claude-sonnet-5-5", sim.url, "any", clock=at.clock)
    with closing(model):
        queue.deliver_all(at, Breakers(at.clock).guard(model))
    context = at.load_context()
    assert context.outcome is not None
    assert (context.outcome.status, context.outcome.reason) == (Status.DONE, "")
    assert at.clock.time - START > moved
    assert context.turn_usage.paused_at == 0.0
    assert at.clock.time - context.turn_usage.started_at < 60.0


def test_a_provider_that_stays_away_is_told_of_once_with_what_it_said(
    gitlab_job: Job, sim: AnthropicSim
) -> None:
    at, queue = gitlab_job, Queue(gitlab_job.clock)
    queue.add(at.make_trigger(), 0.0)
    run_all(at, sim, queue, [(0, 86_400, 529)])
    (note,) = list_own_notes(at, at.scene.pipeline)
    assert "No analysis this time" in note.body
    assert "verload" in note.body or "has not answered for a while" in note.body
    assert 2400 < at.clock.time - START < 5400
    assert list(at.store.records.list_names("journal/")) == []


def test_a_provider_that_says_when_to_come_again_is_left_alone_until_then(
    gitlab_job: Job, sim: AnthropicSim
) -> None:
    at, queue = gitlab_job, Queue(gitlab_job.clock)
    queue.add(at.make_trigger(), 0.0)
    sim.fail_next(429, headers={"retry-after": "400"})
    model = build_model("anthropic/claude-sonnet-5-5", sim.url, "any", clock=at.clock)
    with closing(model):
        queue.deliver_all(at, Breakers(at.clock).guard(model))
    assert (queue.delivered, len(sim.requests)) == (2, 3)
    assert at.clock.time - START == pytest.approx(400.0, abs=5.0)
    (note,) = list_own_notes(at, at.scene.pipeline)
    assert "A race in the test." in note.body
