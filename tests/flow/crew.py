"""A worker on short leases, for tests of faults: half a minute is two seconds here."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.brokers import RedisServer
from tests.flow.product import BUBBLEWRAP, Driver, Process, Product, product
from tests.rabbits import RabbitServer
from tests.simulators.gitlab import MergeRequest, Note, Pipeline
from worker import app
from worker.clock import SystemClock
from worker.conversation.events import ignore_event
from worker.conversation.triggers import PipelineFailed, Trigger
from worker.errors import StoreError
from worker.jobs.consumer import Consumer
from worker.lab.script import Asked, Call, Say, Script, Scripted
from worker.queue.broker import Publisher
from worker.queue.journal import FOLDER, Journal
from worker.queue.leases import Leases
from worker.queue.messages import TASK
from worker.sessions.folder import FolderStore
from worker.sessions.store import SessionStore
from worker.settings import Settings
from worker.turns.parts import Deps

HASTE = """\
worker: {heartbeat: 0.25, lease: 1, grace: 10}
note: {progress: 0}
known: {answer: false}
"""
COUNT = "echo ran >> /tmp/data/count"
LINES = "wc -l < /tmp/data/count"
BURST = 6


def conclude(asked: Asked) -> Say:
    """How often the command ran, by what it has left behind."""
    lines = json.loads(asked.results[-1].content).get("stdout", "").strip()
    return Say(f"## Verdict\nunknown\n\n## Cause\nThe command ran {lines} times.\n")


def script(
    second: Callable[[Asked], Call | Say] = lambda asked: Call(
        [("sandbox_exec", {"command": LINES})]
    ),
    last: Callable[[Asked], Say] = conclude,
) -> Scripted:
    """A command that counts, a look at the count, and the answer."""
    return Scripted([Call([("sandbox_exec", {"command": COUNT})]), second, last])


@contextmanager
def hasty(
    folder: Path, chosen: Script, broker: str, more: str = "", driver: Driver = BUBBLEWRAP
) -> Iterator[Product]:
    """The bundled case on short leases; `more` are further settings."""
    with product(folder, chosen, broker, driver=driver) as made:
        made.write_settings(HASTE + more)
        yield made


@contextmanager
def at_work(made: Product) -> Iterator[Process]:
    """A worker process until the end of the block."""
    with made.process("worker", "--concurrency", "4", "--metrics-port", "0") as running:
        yield running


def failure(made: Product, pipeline: Pipeline | None = None) -> PipelineFailed:
    """What the door makes of a pipeline's failure."""
    which = pipeline or made.scene.pipeline
    mr = which.mr or made.scene.mr
    return PipelineFailed(
        mr.project.id, which.id, which.sha, mr.source_branch, mr.iid, mr.project.id
    )


def fails(
    made: Product, pipeline: Pipeline | None = None, store: SessionStore | None = None
) -> None:
    """A pipeline's failure is accepted."""
    with accepting(made, store) as accept:
        accept(failure(made, pipeline))


@contextmanager
def accepting(
    made: Product, store: SessionStore | None = None
) -> Iterator[Callable[[Trigger], None]]:
    """What the door does with a trigger."""
    kept, clock = store or folder_store(made), SystemClock()
    journal = Journal(kept.records, Leases(kept, clock), clock)
    celery = app.build_app(Settings(broker=made.env["SANDPIPER_BROKER"]), _no_deps)
    with closing(Publisher(celery, TASK)) as publish:
        yield Consumer(
            *(_no_deps, publish, ignore_event), journal=lambda: journal, alone=False, patience=1.0
        ).accept_trigger


def _no_deps() -> Deps:
    pytest.fail("the test is no worker")


def another(made: Product, number: int, trace: bytes = b"it failed\n") -> Pipeline:
    """One more failed pipeline, of a merge request of its own."""
    scene = made.scene
    mr = made.gitlab.open_merge_request(
        *(scene.mr.project, scene.author),
        title=f"Change {number}",
        branch=f"change-{number}",
        files={f"file-{number}": b"1"},
    )
    pipeline = made.gitlab.run_pipeline(mr)
    made.gitlab.add_job(pipeline, "test", status="failed", trace=trace)
    return pipeline


def own(made: Product, mr: MergeRequest | None = None) -> list[Note]:
    """The bot's notes on a merge request."""
    return [note for note in (mr or made.scene.mr).list_notes() if note.author is made.scene.bot]


def folder_store(made: Product) -> SessionStore:
    """The store of the default settings."""
    return FolderStore(made.folder / "store")


def ended(store: SessionStore, count: int = 1) -> bool:
    """Whether so many turns are stored, and nothing is left to do."""
    try:
        names = list(store.records.list_names(""))
    except StoreError:
        return False  # the test may look at a store that it has taken away
    stored = [name for name in names if name.endswith("/context.json")]
    return len(stored) == count and not any(name.startswith(FOLDER) for name in names)


def assert_nothing_left(made: Product, store: SessionStore) -> None:
    """No claim, checkpoint, journal entry, worker or sandbox; nothing the simulators disliked."""
    left = [
        name
        for name in store.records.list_names("")
        if name.endswith(("claim.json", "checkpoint.json")) or name.startswith((FOLDER, "workers/"))
    ]
    assert left == []
    assert not any(made.list_sandboxes(key.session_id) for key in store.list_sessions())
    assert made.gitlab.unexpected_requests == []
    assert made.model.unexpected_requests == []


def assert_restart_loses_nothing(folder: Path, broker: RedisServer | RabbitServer) -> None:
    """A broker that stops in the middle of a burst and comes back loses and doubles nothing."""
    with hasty(folder, script(), broker.url) as made:
        pipelines = [another(made, number) for number in range(BURST)]
        for pipeline in pipelines[: BURST // 2]:
            fails(made, pipeline)
        with at_work(made) as worker:
            worker.until(lambda: made.model.requests, "nobody has begun")
            for pipeline in pipelines[BURST // 2 :]:
                fails(made, pipeline)
            broker.stop(signal.SIGKILL)
            worker.until(lambda: len(made.model.answers) >= 3, "the runs need the broker")
            broker.start()
            worker.until(lambda: ended(folder_store(made), BURST), "not all ended")
    for pipeline in pipelines:
        (note,) = own(made, pipeline.mr)
        assert "The command ran 1 times." in note.body
    assert len(made.model.requests) == 3 * BURST
    assert_nothing_left(made, folder_store(made))
