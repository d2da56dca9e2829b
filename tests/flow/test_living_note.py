"""One note from the first sign of life to the fix, through the product's own processes."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flow.product import DEADLINE, Product, product
from tests.simulators.gitlab import Note, Pipeline
from worker.lab import story
from worker.lab.script import Answer, Asked, Say
from worker.safety.markdown import find_marker

pytestmark = pytest.mark.usefixtures("bubblewrap")

PLACE = "ferrytimes/windows.py:41"
FIX = "        if merged and merged[-1].touches(window):"


class Watched:
    """The bundled story; with a fix in its end, and something to be done on the way."""

    def __init__(self) -> None:
        self.story = story.make_script()
        self.before_fetching: Callable[[], None] = lambda: None

    def __call__(self, asked: Asked) -> Answer:
        if asked.answers == 1:
            self.before_fetching()
        answer = self.story(asked)
        if isinstance(answer, Say):
            block = f"\n\n```suggestion {PLACE}\n{FIX}\n```\n\n## Details"
            return replace(answer, text=answer.text.replace("\n\n## Details", block))
        return answer


@pytest.fixture
def script() -> Watched:
    return Watched()


@pytest.fixture
def told(tmp_path: Path, script: Watched) -> Iterator[Product]:
    with product(tmp_path, script, "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []
        assert made.model.unexpected_requests == []


def analyses(told: Product) -> list[Note]:
    found = [(note, find_marker(note.body)) for note in told.notes()]
    return [note for note, marker in found if marker and marker.turn == 0]


def headline(note: Note) -> str:
    return note.body.split("\n")[2]


def ran_again(told: Product, status: str) -> Pipeline:
    """A new commit and its pipeline, with the same jobs if it failed; GitLab tells of it."""
    told.gitlab.push(told.scene.mr, {"CHANGELOG.md": status.encode()})
    pipeline = told.gitlab.run_pipeline(told.scene.mr, status=status)
    for job in told.scene.pipeline.jobs if status == "failed" else ():
        told.gitlab.add_job(pipeline, job.name, stage=job.stage, status=job.status, trace=job.trace)
    told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline))
    return pipeline


def test_a_note_lives_from_the_first_sign_to_the_fix(told: Product, script: Watched) -> None:
    told.write_settings("note: {progress: 0.05}\n")
    progress: list[str] = []

    def deleted_by_somebody() -> None:
        deadline = time.monotonic() + DEADLINE
        while "<sub>Iteration " not in analyses(told)[0].body and time.monotonic() < deadline:
            time.sleep(0.01)
        progress.append(analyses(told)[0].body)
        told.gitlab.delete(analyses(told)[0])
        script.before_fetching = lambda: None

    script.before_fetching = deleted_by_somebody
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        assert " of at most 50 · " in progress[0]
        (first,) = analyses(told)
        assert headline(first) == "**Caused by this change**"
        _assert_suggested(told, first)

        second_run = ran_again(told, "failed")
        serve.until(lambda: len(told.objects("context.json")) == 2, "no second analysis")
        serve.until(lambda: told.objects("after.json"), "the first note was not folded")
        serve.until(lambda: "Superseded" in headline(first), "the first note was not folded")
        _, second = analyses(told)
        link = f"[a newer note]({second.web_url})"
        assert headline(first) == f"**Superseded by {link}** (pipeline {second_run.id})."
        assert "AssertionError: assert [] == ['23:50']" in first.body

        green = ran_again(told, "success")
        serve.until(lambda: "Fixed by" in headline(second), "the fix was not told")
    assert f"[pipeline {green.id}]({green.web_url})" in headline(second)
    became = [json.loads(path.read_bytes())["became"] for path in told.objects("after.json")]
    assert sorted(became) == ["fixed", "superseded"]
    threads = told.scene.mr.discussions.values()
    assert all(thread.resolved for thread in threads if thread.position)


def _assert_suggested(told: Product, analysis: Note) -> None:
    (fix,) = [note for note in told.notes() if note.type == "DiffNote"]
    position = told.scene.mr.discussions[fix.discussion_id].position
    assert position is not None
    assert (position["new_path"], position["new_line"]) == ("ferrytimes/windows.py", 41)
    assert f" ```suggestion:-0+0\n {FIX}\n ```" in fix.body
    assert f"Apply on the diff: [`windows.py:41`]({fix.web_url})" in analysis.body
    # The note that the fix was made under is deleted by now: nothing leads to it.
    assert "A fix from the analysis;" in fix.body


def test_a_thread_by_option_is_resolved_when_a_retry_passes(told: Product) -> None:
    told.write_settings("note: {thread: true, suggestions: false}\n")
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        (note,) = told.notes()
        thread = told.scene.mr.discussions[note.discussion_id]
        assert (note.type, thread.resolved) == ("DiscussionNote", False)
        told.scene.pipeline.status = "success"
        told.gitlab.deliver(told.gitlab.make_pipeline_event(told.scene.pipeline))
        serve.until(lambda: thread.resolved, "the thread was not resolved")
    assert headline(note).startswith("**Passed when run again: [pipeline ")
