"""The same story with RabbitMQ between the door and a worker of its own."""

from pathlib import Path

import pytest

from tests.flow.product import product
from worker.demo import story


@pytest.mark.usefixtures("sandbox_image")
def test_rabbitmq_and_a_worker_process_give_one_note_for_twenty_webhooks_and_an_answer(
    tmp_path: Path, rabbit_url: str
) -> None:
    with (
        product(tmp_path, story.script(), rabbit_url) as told,
        told.process("worker", "--concurrency", "4") as worker,
        told.serve() as serve,
    ):
        event = told.gitlab.pipeline_event(told.scene.pipeline)
        assert {told.gitlab.send(event).status_code for _ in range(20)} == {202}
        # Deliveries of other hooks, each with a key of its own: these do reach the queue.
        assert {told.pipeline_failed().status_code for _ in range(3)} == {202}
        worker.until(lambda: told.objects("context.json"), "the analysis was not stored")
        (note,) = told.notes()
        told.gitlab.comment(told.scene.mr, told.scene.author, story.QUESTION, note.discussion_id)
        worker.until(lambda: len(told.objects("context.json")) == 2, "no second turn")
        told.gitlab.settle()
        assert "not queued" not in serve.log.read_text()
    assert len(told.notes()) == 2
    assert told.gitlab.unexpected == []
