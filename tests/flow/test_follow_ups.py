"""A wrong first note, a turn that fails, and the reply that puts it right, through the product."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flow.product import Process, Product, product
from tests.simulators.gitlab import Note
from worker.answer.repair import REPAIR
from worker.lab import story
from worker.lab.script import Answer, Asked, Call, Say
from worker.safety.markdown import find_marker

pytestmark = pytest.mark.usefixtures("bubblewrap")

TOKEN = "glpat-" + "aB3dE5gH7jK9mN1pQ3sT"
FIX = """

```suggestion ferrytimes/windows.py:41
        if merged and merged[-1].touches(window):
```

## Details"""
UNPROVEN = "- job 1 line 7: it never said this"
SUMMARY = "What was said first, before a later answer changed it"


class Corrected:
    """The bundled story with a probe that finds nothing, a quote that is not there and a fix; then
    a reply that looks at the files that are there, and comes to another verdict."""

    def __init__(self) -> None:
        self.story = story.make_script()
        self.asked: list[str] = []
        self.prompts: list[str] = []
        self.final = Say("")

    def __call__(self, asked: Asked) -> Answer:
        if asked.human.startswith(REPAIR):
            return self.final
        if asked.turn:
            return self.reply(asked)
        answer = self.story(asked)
        if asked.answers == 0 and isinstance(answer, Call):
            probe = ("gitlab_get_file", {"path": "no/such/file.py"})
            return replace(answer, calls=[*answer.calls, probe])
        if isinstance(answer, Say):
            text = answer.text.replace("\n\n## Details", FIX)
            return Say(
                text.replace("\n\n## What", "\n- job 1 line 7: it never said this\n\n## What")
            )
        return answer

    def reply(self, asked: Asked) -> Answer:
        if asked.answers == 0:
            self.asked.append(str(asked.body["messages"][-1]))
            self.prompts.append(str(asked.body["messages"]))
            command = f"ls /tmp/data; grep -nE '^E  +AssertionError' {story.LOG}"
            return Call([("sandbox_exec", {"command": command})])
        found = asked.get_last_result("sandbox_exec").content
        line = re.search(r"(\d+):(E  +AssertionError.*?)\\n", found)
        assert line is not None, found
        job = story.find_failed_job(asked)["id"]
        return Say(
            "You are right, it was the runner.\n\n## Verdict\ninfrastructure\n\n## Failed\n"
            "unit-tests\n\n## Cause\nThe clock of the runner is late.\n\n## Evidence\n"
            f"- job {job} line {line[1]}: {line[2]}\n\n## What to do\nRetry the job.\n"
        )


@pytest.fixture
def script() -> Corrected:
    return Corrected()


@pytest.fixture
def told(tmp_path: Path, script: Corrected) -> Iterator[Product]:
    with product(tmp_path, script, "memory://") as made:
        job = next(job for job in made.scene.pipeline.jobs if job.name == "unit-tests")
        job.trace = (job.trace or b"") + f"pushed with {TOKEN}\n".encode()
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []
        assert made.model.unexpected_requests == []


def visible(note: Note) -> str:
    return re.sub(r"<details>.*?</details>", "", note.body, flags=re.DOTALL)


def small_print(note: Note) -> str:
    return note.body.rpartition("<sub>")[2].partition("</sub>")[0]


def asks(told: Product, serve: Process, text: str, turns: int) -> None:
    thread = told.notes()[0].discussion_id
    told.gitlab.comment(told.scene.mr, told.scene.author, text, thread)
    serve.until(lambda: len(told.objects("context.json")) == turns, "the reply was not stored")


def test_a_wrong_first_note_gives_way_after_a_turn_that_failed(
    told: Product, script: Corrected
) -> None:
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        head, fix = told.notes()
        _assert_small_and_quiet(head)
        first = head.body

        told.model.fail_next(400)
        asks(told, serve, "Is it not the runner?", 2)
        assert "**No answer this time.**" in told.notes()[-1].body
        assert head.body == first
        assert len(told.objects("sandbox.tar.gz")) == 1

        asks(told, serve, "Look again, please.", 3)
    _assert_told(script.asked[0])
    assert find_marker(head.body) == find_marker(first)
    assert head.body.split("\n")[2].startswith("**Infrastructure: not caused by this change**")
    assert "Caused by this change" not in visible(head)
    assert first.partition("\n")[2].strip() in head.body.partition(SUMMARY)[2]
    answer = told.notes()[-1]
    assert answer.discussion_id == head.discussion_id
    assert "You are right, it was the runner." in visible(answer)
    assert "**Infrastructure: not caused by this change**" in visible(answer)
    assert f"[A later answer]({answer.web_url}) has changed the verdict." in head.body
    assert told.scene.mr.discussions[fix.discussion_id].resolved


def _assert_small_and_quiet(head: Note) -> None:
    """What a developer does not need stands in the details, or nowhere."""
    assert "no/such/file.py" not in head.body
    assert re.search(r"1 GitLab token masked in the log of job \d+ · ", small_print(head))
    assert "1 quote could not be proven" in small_print(head)
    assert len(small_print(head)) < 140
    assert not re.search(r"tokens in|cached|iteration", head.body)


def _assert_told(opening: str) -> None:
    """The reply after the failed turn finds the files, and is told what became of its answer."""
    assert "The files in /tmp/data and /tmp/_out have been restored;" in opening
    assert "lost" not in opening
    assert "> **No answer this time.**" in opening


def test_a_reply_is_shown_the_first_note_as_it_was_posted(told: Product, script: Corrected) -> None:
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        asks(told, serve, "Sure?", 2)
    opening = script.asked[0]
    posted = opening.partition("Your last answer was posted as this note:")[2]
    assert "> **Caused by this change**" in posted
    assert UNPROVEN not in posted
    assert "1 quote could not be proven" in posted
    assert "> **What GitLab and the logs show**" in posted
    assert "Apply on the diff: [`windows.py:41`]" in posted
    assert "[as you wrote it]" in posted
    for said in ("A tide that goes on over midnight is two windows", "in the new loop of `merge`"):
        assert script.prompts[0].count(said) == 1
    assert TOKEN not in opening
