"""The same story with RabbitMQ between the door and a worker of its own, and one that restarts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import amqp
import kombu
import pytest

from tests.brokers import QUEUE
from tests.flow import crew
from tests.flow.product import Process, product
from tests.rabbits import RabbitServer, running_rabbit
from worker.lab import story
from worker.lab.script import Asked, Call

pytestmark = pytest.mark.usefixtures("bubblewrap")

QUORUM = "broker_queue: quorum\n"
FEW = 3
REFUSED = " again in 3 s: "


def test_rabbitmq_and_a_worker_process_give_one_note_for_twenty_webhooks_and_an_answer(
    tmp_path: Path, rabbit_url: str
) -> None:
    with (
        product(tmp_path, story.make_script(), rabbit_url) as told,
        told.process("worker", "--concurrency", "4") as worker,
        told.serve() as serve,
    ):
        event = told.gitlab.make_pipeline_event(told.scene.pipeline)
        assert {told.gitlab.deliver(event).status_code for _ in range(20)} == {202}
        # Deliveries of other hooks, each with a key of its own: these do reach the queue.
        assert {told.pipeline_failed().status_code for _ in range(3)} == {202}
        worker.until(lambda: told.objects("context.json"), "the analysis was not stored")
        (note,) = told.notes()
        told.gitlab.comment(told.scene.mr, told.scene.author, story.QUESTION, note.discussion_id)
        worker.until(lambda: len(told.objects("context.json")) == 2, "no second turn")
        told.gitlab.wait_for_deliveries()
        assert "not queued" not in serve.log.read_text()
    assert len(told.notes()) == 2
    assert told.gitlab.unexpected_requests == []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RabbitServer]:
    """A RabbitMQ of the test's own."""
    place = tmp_path / "rabbit"
    place.mkdir()
    with running_rabbit(place) as server:
        yield server


def test_a_rabbitmq_that_dies_in_the_middle_of_a_burst_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, broker: RabbitServer
) -> None:
    crew.assert_restart_loses_nothing(tmp_path, broker)


def test_on_a_quorum_queue_the_runs_of_a_killed_worker_go_on_and_nothing_is_doubled(
    tmp_path: Path, rabbit_url: str
) -> None:
    doomed: list[Process] = []

    def ask_for_the_lines(asked: Asked) -> Call:
        if doomed:
            doomed.pop().popen.kill()
        return Call([("sandbox_exec", {"command": crew.LINES})])

    chosen = crew.script(ask_for_the_lines)
    with crew.hasty(tmp_path, chosen, rabbit_url, QUORUM) as made, made.serve() as serve:
        pipelines = [crew.another(made, number) for number in range(FEW)]
        with crew.at_work(made) as worker:
            doomed.append(worker)
            for each in pipelines:
                event = made.gitlab.make_pipeline_event(each)
                assert made.gitlab.deliver(event).status_code == 202
            serve.until(lambda: worker.popen.poll() is not None, "nobody came to the second call")
        with crew.at_work(made) as heir:
            heir.until(lambda: crew.ended(crew.folder_store(made), FEW), "not all ended")
        assert "not queued" not in serve.log.read_text()
        for each in pipelines:
            assert len(crew.own(made, each.mr)) == 1
        assert made.gitlab.unexpected_requests == []
    with kombu.Connection(rabbit_url) as connection:
        kind = {"x-queue-type": "quorum"}
        channel = connection.channel()
        found = channel.queue_declare(QUEUE, durable=True, auto_delete=False, arguments=kind)
        assert found.message_count == 0
        with pytest.raises(amqp.NotFound):  # Celery's own, for messages with a time
            channel.exchange_declare("celery_delayed_27", "topic", passive=True)


def test_what_a_hosts_own_quorum_queue_drops_as_it_came_back_too_often_is_queued_again(
    tmp_path: Path, broker: RabbitServer
) -> None:
    url = broker.url.removesuffix("//") + "/limited"
    with (
        kombu.Connection(url) as connection,
        crew.hasty(tmp_path, crew.script(), url) as made,
    ):
        channel = connection.channel()
        channel.queue_declare("dropped", durable=True, auto_delete=False)
        with made.serve() as serve:
            assert made.pipeline_failed().status_code == 202
            (entry,) = made.unfinished()
            serve.until(lambda: _count(channel, QUEUE), "it is not on the queue")
        with crew.at_work(made) as worker:
            with _unreadable(entry):
                worker.until(lambda: _count(channel, "dropped"), "it was not dropped")
            assert worker.log.read_text().count(REFUSED) == 2
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it is lost")
            assert "is queued again" in worker.log.read_text()
        (note,) = made.notes()
        assert "The command ran 1 times." in note.body
        crew.assert_nothing_left(made, crew.folder_store(made))


@contextmanager
def _unreadable(entry: Path) -> Iterator[None]:
    """A journal's entry that cannot be read until the end of the block."""
    content = entry.read_bytes()
    entry.unlink()
    entry.mkdir()
    yield
    entry.rmdir()
    entry.write_bytes(content)


def _count(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).message_count)
