"""A broker that restarts, two workers with one job, clocks that differ, a poisoned trigger."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from tests import forks
from tests.brokers import QUEUE, RedisServer, running_redis
from tests.fakes import HandClock, says
from tests.flow import crew
from tests.flow.product import DEADLINE, Process, ending, free_port, list_files
from tests.jobs import START, Job
from tests.simulators.gitlab import GitLabSim
from worker.conversation.events import ignore_event
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import Reacted, Trigger
from worker.jobs import delivery
from worker.lab.script import Asked, Call
from worker.queue.journal import Journal, State
from worker.queue.leases import Leases

MANY = 1000
"""Triggers, and a note that there is none of: they end at once."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, which keeps what it is told in a file."""
    place = tmp_path / "redis"
    place.mkdir()
    with running_redis(place, free_port()) as server:
        yield server


@pytest.mark.usefixtures("bubblewrap")
def test_a_broker_that_dies_in_the_middle_of_a_burst_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, broker: RedisServer
) -> None:
    crew.assert_restart_loses_nothing(tmp_path, broker)


@pytest.mark.usefixtures("bubblewrap")
def test_a_broker_that_forgets_a_thousand_accepted_triggers_loses_none(
    tmp_path: Path, broker: RedisServer
) -> None:
    with crew.hasty(tmp_path, crew.script(), broker.url) as made:
        mr = made.scene.mr
        nobodys = made.gitlab.comment(mr, made.scene.author, "Not the bot's.")
        assert nobodys is not None
        with crew.accepting(made) as accept:
            for number in range(MANY - 1):
                accept(Reacted(mr.project.id, mr.iid, nobodys.id, number))
        crew.fails(made)
        with redis.Redis.from_url(broker.url) as client:
            assert client.llen(QUEUE) == MANY
            client.flushall()
        with crew.at_work(made) as worker:
            worker.until(lambda: not made.unfinished(), "not all ended", within=4 * DEADLINE)
            assert len(queued_again(worker)) == MANY
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body


def queued_again(worker: Process) -> set[str]:
    """The triggers that recovery has queued again."""
    return set(re.findall(r"trigger (\w+) is queued again", worker.log.read_text()))


@pytest.mark.usefixtures("bubblewrap")
def test_a_broker_without_memory_delays_and_loses_nothing(
    tmp_path: Path, broker: RedisServer
) -> None:
    go = threading.Event()

    def second(asked: Asked) -> Call:
        go.wait(30)
        return Call([("sandbox_exec", {"command": crew.LINES})])

    with crew.hasty(tmp_path, crew.script(second), broker.url) as made:
        pipelines = [crew.another(made, number) for number in range(crew.BURST)]
        for pipeline in pipelines:
            crew.fails(made, pipeline)
        with redis.Redis.from_url(broker.url) as client, crew.at_work(made) as worker:
            worker.until(lambda: len(made.model.requests) > 2, "nobody has begun")
            client.config_set("maxmemory", 1)
            go.set()
            worker.until(lambda: "maxmemory" in worker.log.read_text(), "it has memory")
            worker.until(lambda: made.objects("context.json"), "nobody has ended")
            client.config_set("maxmemory", 0)
            worker.until(lambda: crew.ended(crew.folder_store(made), crew.BURST), "not all ended")
    for pipeline in pipelines:
        (note,) = crew.own(made, pipeline.mr)
        assert "The command ran 1 times." in note.body
    crew.assert_nothing_left(made, crew.folder_store(made))


@dataclass
class Held:
    """A model that answers when it is let."""

    asked: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    name: str = "test/model"
    context_tokens: int = 100_000
    binds_thinking: bool = False
    keeps_cache_without_tools: bool = True

    def reply(self, request: Request) -> Reply:
        self.count += 1
        self.asked.set()
        assert self.go.wait(30)
        return says("## Verdict\nflaky\n\n## Cause\nA race.\n")


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_of_two_workers_with_one_job_one_does_it_whatever_their_clocks_say(
    tmp_path: Path, ahead: float
) -> None:
    with GitLabSim() as sim:
        at, model = Job(sim, tmp_path), Held()
        deps = at.build_deps(model=lambda: model)
        clock = HandClock(START + ahead)
        leases = Leases(at.store, clock, "elsewhere")
        journal = Journal(at.store.records, leases, clock)
        other = at.build_deps(model=lambda: model, leases=leases, journal=journal, clock=clock)
        first = threading.Thread(
            target=delivery.deliver_trigger, args=(at.make_trigger(), deps, ignore_event, _never)
        )
        first.start()
        assert model.asked.wait(10)
        # The same message, handed out twice.
        delivery.deliver_trigger(at.make_trigger(), other, ignore_event, _never)
        assert leases.remove_dead_workers() == []
        model.go.set()
        first.join(30)
        delivery.deliver_trigger(at.make_trigger(), other, ignore_event, _never)
        (note,) = at.list_notes()
        assert "A race." in note.body
        assert model.count == 1
        assert list(at.store.records.list_names("journal/")) == []
        assert list(at.store.records.list_names("workers/")) == []
        assert sim.unexpected_requests == []


def _never(trigger: Trigger, seconds: float) -> None:
    raise AssertionError("nobody has to try again")


@pytest.mark.usefixtures("bubblewrap")
def test_a_trigger_whose_runs_break_three_times_is_told_of_once_and_parked(
    tmp_path: Path, redis_url: str
) -> None:
    with crew.hasty(tmp_path, crew.script(), redis_url) as made:
        crew.fails(made)
        log = tmp_path / "poisoned.log"
        store = crew.folder_store(made)
        with log.open("w") as stream:
            popen = forks.start(["tests.flow.poisoned"], made.env, tmp_path, stream, stream)
        with ending(popen):
            Process(popen, log).until(lambda: _parked(tmp_path), "it is tried for ever")
        (note,) = made.notes()
        assert "3 runs broke off" in note.body
        assert "ValueError" in note.body
        assert "ValueError" in made.run("sweep", "--parked").stdout
        # The answer that was paid for was not asked for again.
        assert len(made.model.requests) == 3
        assert not [name for name in store.records.list_names("") if name.endswith("claim.json")]


def _parked(folder: Path) -> bool:
    entries = list_files(folder / "store" / "journal", ".json")
    return any(f'"{State.PARKED}"' in path.read_text() for path in entries)
