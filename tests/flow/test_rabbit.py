"""The same story with RabbitMQ between the door and a worker of its own, and one that restarts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow import crew
from tests.flow.product import product
from tests.rabbits import RabbitServer, running_rabbit
from worker.demo import story

pytestmark = pytest.mark.usefixtures("bubblewrap")


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
