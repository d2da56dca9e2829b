"""The main job with sandboxes as pods: webhook, note, reply, and a worker that is killed."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sandbox.kubernetes.cluster import Cluster
from sandbox.spec import SESSION_LABEL
from tests.flow import crew
from tests.flow.product import DOCKER, Product, product
from tests.flow.test_takeover import HASTE, TAKEN_OVER, done, killed, mortal
from worker.lab import story
from worker.lab.script import Script

pytestmark = pytest.mark.usefixtures("cluster")


@contextmanager
def told(
    folder: Path, chosen: Script, broker: str, image: str, more: str = ""
) -> Iterator[Product]:
    """The bundled case, with each sandbox in a pod; no pod is left at the end."""
    with product(folder, chosen, broker, driver=DOCKER) as made:
        sandbox = f"sandbox: {{driver: kubernetes, image: '{image}', memory: 512m}}\n"
        made.write_settings(more + sandbox)
        made.env["DOCKER_HOST"] = "unix:///of-no-engine.sock"
        made.env["KUBECONFIG"] = os.environ["KUBECONFIG"]
        yield made
        with closing(Cluster()) as cluster:
            for path in made.objects("context.json"):
                assert cluster.list_pods({SESSION_LABEL: path.parent.parent.name}) == []


def test_a_failed_pipeline_gets_a_note_and_a_reply_an_answer(
    tmp_path: Path, sandbox_image: str
) -> None:
    with told(tmp_path, story.make_script(), "memory://", sandbox_image) as made:
        with made.serve() as serve:
            made.pipeline_failed()
            serve.until(lambda: made.objects("context.json"), "the analysis was not stored")
            (note,) = made.notes()
            assert "caused by this change" in note.body.lower()
            made.gitlab.comment(
                made.scene.mr, made.scene.author, story.QUESTION, note.discussion_id
            )
            serve.until(lambda: len(made.objects("context.json")) == 2, "the reply was not stored")
            made.gitlab.wait_for_deliveries()
        # Only restored files can give these: see test_main_job.
        answer = made.notes()[1]
        assert "[Window(start=1380, end=1500)]" in answer.body
        assert "1581 passed and 2 failed" in answer.body
        assert made.gitlab.unexpected_requests == []


@pytest.mark.parametrize("point", ["in a command", "before the edit"])
def test_a_killed_worker_s_pod_is_taken_over(
    tmp_path: Path, redis_url: str, sandbox_image: str, point: str
) -> None:
    with told(tmp_path, crew.script(), redis_url, sandbox_image, HASTE) as made:
        crew.fails(made)
        with mortal(made, point, "worker") as one:
            killed(one)
        began = time.monotonic()
        with made.process("worker", "--concurrency", "2") as heir:
            heir.until(lambda: done(made), "nobody went on")
        assert time.monotonic() - began < TAKEN_OVER
        assert len(made.notes()) == 1
        assert "The command ran 1 times." in made.notes()[0].body


def test_the_sweep_looks_after_pods(tmp_path: Path, sandbox_image: str) -> None:
    with told(tmp_path, story.make_script(), "", sandbox_image) as made:
        swept = made.run("sweep")
        assert swept.returncode == 0, swept.stderr
