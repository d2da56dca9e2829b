"""A commit whose jobs are run again, and fail again, by the product's own processes."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.product import Process, Product, product
from tests.flow.test_survey import PULL, TICK
from tests.simulators.gitlab import Pipeline
from worker.lab.script import Asked, Say
from worker.safety.markdown import find_marker

pytestmark = pytest.mark.usefixtures("bubblewrap")

_SHOWN = re.compile(r"excerpt of job (\d+):\n(?: {4}.*\n)*? {4}(\d+): (E {3}.*)")
Again = Callable[[Product, Pipeline, bytes], Pipeline]


class Model:
    """Quotes the error that the newest survey shows; before that it does what a test wants."""

    def __init__(self) -> None:
        self.before: Callable[[], None] = lambda: None

    def __call__(self, asked: Asked) -> Say:
        self.before()
        shown = _SHOWN.search(asked.human)
        assert shown is not None
        return Say(
            "## Verdict\ninfrastructure\n\n## Failed\nbuild\n\n## Cause\nThe clock is late.\n\n"
            f"## Evidence\n- job {shown[1]} line {shown[2]}: {shown[3]}\n\n"
            "## What to do\nRun it again.\n"
        )


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def told(tmp_path: Path, model: Model) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, model, "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []
        assert made.gitlab.quick_actions == []


def run_first(told: Product) -> Pipeline:
    """A pipeline in which a job failed before its script began: the registry gave no image."""
    pipeline = told.gitlab.run_pipeline(told.scene.mr)
    reason = "runner_system_failure"
    told.gitlab.add_job(pipeline, "build", status="failed", failure_reason=reason, trace=PULL)
    return pipeline


def retry(told: Product, pipeline: Pipeline, trace: bytes) -> Pipeline:
    """Somebody runs the job again: failed, running, failed under one id."""
    reason = "runner_system_failure" if trace is PULL else "script_failure"
    told.gitlab.retry_job(pipeline.jobs[-1], trace=trace, failure_reason=reason)
    return pipeline


def run_new_pipeline(told: Product, pipeline: Pipeline, trace: bytes) -> Pipeline:
    """Somebody runs a new pipeline on the same commit."""
    made = told.gitlab.run_pipeline(told.scene.mr)
    reason = "runner_system_failure" if trace is PULL else "script_failure"
    told.gitlab.add_job(made, "build", status="failed", failure_reason=reason, trace=trace)
    return made


def tell(told: Product, pipeline: Pipeline) -> None:
    """GitLab's webhook of the pipeline as it is now."""
    event = told.gitlab.make_pipeline_event(pipeline)
    assert told.gitlab.deliver(event).status_code == 202


def settle(told: Product, serve: Process, turns: int) -> str:
    """Wait until so many turns are stored and no trigger is left; return the only note."""
    serve.until(
        lambda: len(told.objects("context.json")) == turns and not told.unfinished(),
        f"there are not {turns} turns",
    )
    (note,) = told.notes()
    return note.body


def visible(body: str) -> list[str]:
    lines = body.partition("<details>")[0].split("\n")
    return [line for line in lines if line.strip()][1:]


@pytest.mark.parametrize("again", [retry, run_new_pipeline])
def test_what_was_the_registrys_and_then_is_the_codes_stands_in_one_note(
    told: Product, again: Again
) -> None:
    first = run_first(told)
    with told.serve() as serve:
        tell(told, first)
        before = settle(told, serve, 1)
        assert visible(before)[0] == "**Infrastructure: not caused by this change**"
        assert told.model.requests == []

        failed = again(told, first, TICK % (31, 5))
        tell(told, failed)
        looked = settle(told, serve, 2)
        assert len(told.model.requests) == 1
        link = f"[pipeline {failed.id}]({failed.web_url})"
        assert visible(looked)[0] == f"**Run again:** failed in another way in {link}."
        assert "The clock is late." in looked
        assert before.partition("\n")[2].strip() in looked
        assert find_marker(looked) == find_marker(before)

        failed = again(told, failed, TICK % (32, 7))
        tell(told, failed)
        same = settle(told, serve, 3)
        assert len(told.model.requests) == 1
        link = f"[pipeline {failed.id}]({failed.web_url})"
        (line,) = visible(same)
        assert line.startswith(f"**Failed again in the same way in {link}.**")
        assert "“infrastructure” is not the verdict any more" in line

        for event in (first, failed, failed):
            tell(told, event)
        assert settle(told, serve, 3) == same
    assert len(told.model.requests) == 1


def test_a_worker_that_is_killed_while_it_looks_again_is_followed_by_one_that_ends_it(
    told: Product, model: Model
) -> None:
    told.write_settings("worker: {heartbeat: 0.25, lease: 1, grace: 10}\n")
    first = run_first(told)
    with told.serve() as serve:
        tell(told, first)
        before = settle(told, serve, 1)

        def kill() -> None:
            model.before = lambda: None
            serve.popen.send_signal(signal.SIGKILL)

        model.before = kill
        retry(told, first, TICK % (31, 5))
        tell(told, first)
        serve.popen.wait(60)
    (note,) = told.notes()
    was = before.partition("\n")[2].strip()
    assert "the finding will replace this note." in visible(note.body)[0]
    assert was in note.body
    with told.serve() as serve:
        looked = settle(told, serve, 2)
        tell(told, first)
        assert settle(told, serve, 2) == looked
    assert visible(looked)[0].startswith("**Run again:** failed in another way in [pipeline ")
    assert "The clock is late." in looked
    assert looked.count(was) == 1
