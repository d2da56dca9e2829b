"""`sandpiper analyze` on a failure that was looked at before."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from worker.lab import story
from worker.lab.script import Answer, Asked, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

ANOTHER_ANSWER = """\
## Verdict
unknown

## Failed
unit, the second time

## Cause
What the second look has found is not the same.

## What to do
Look a third time.
"""


def answer(asked: Asked) -> Answer:
    """Answer as the bundled story does, and otherwise when asked once more."""
    if "with fresh eyes" in json.dumps(asked.body["messages"]):
        return Say(ANOTHER_ANSWER)
    return story.make_script()(asked)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, answer, "memory://") as made:
        yield made


def mr(told: Product) -> str:
    return f"{told.scene.mr.project.path}!{told.scene.mr.iid}"


def test_an_answered_failure_is_looked_at_again_in_its_note_if_that_is_asked_for(
    told: Product,
) -> None:
    first = told.run("analyze", mr(told))
    assert first.returncode == 0, first.stderr
    asked = len(told.model.requests)
    known = told.run("analyze", told.scene.mr.web_url)
    (note,) = told.notes()
    assert (known.returncode, known.stdout) == (0, first.stdout)
    assert known.stderr.splitlines() == [
        f"Analysed already: {told.scene.mr.web_url}#note_{note.id}",
        f"To do it again: sandpiper analyze {told.scene.mr.web_url} --again",
    ]
    assert len(told.model.requests) == asked

    again = told.run("analyze", mr(told), "--again")
    assert again.returncode == 0, again.stderr
    (note,) = told.notes()
    assert note.body.strip() == again.stdout.strip()
    now, _, before = note.body.partition("<summary>What was found before</summary>")
    assert "What the second look has found" in now
    assert "failed in another way" not in now
    assert "ferrytimes/windows.py now joins windows" in before
    # What is printed from now on is what stands in the note.
    assert told.run("analyze", mr(told)).stdout == again.stdout
    told_as_json = json.loads(told.run("analyze", mr(told), "--json").stdout)
    assert (told_as_json["turn"], told_as_json["note"]) == (1, note.body)


def test_a_failed_attempt_is_made_again_without_being_asked_twice(told: Product) -> None:
    told.model.fail_next(401)
    assert told.run("analyze", mr(told)).returncode == 1
    done = told.run("analyze", mr(told))
    # The scripted model has looked at nothing, so its answer does not count as whole.
    assert done.returncode == 3, done.stderr
    (note,) = told.notes()
    assert "What the second look has found" in note.body
