"""Who broke a merge train, in the notes of its cars: small histories, through the whole product."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.product_stories import CountingModel, ProductStory, play_story
from tests.simulators.gitlab import GitLabSim
from tests.story_marks import read_note
from worker.conversation.context import TRAIN
from worker.conversation.context_json import load_context_of
from worker.conversation.model import Reply, Request
from worker.turns.parts import Deps
from worker.turns.train_notes import find_train, replace_retry

pytestmark = pytest.mark.slow

STORIES = yaml.safe_load(Path(__file__).with_name("trains.yaml").read_text("utf-8"))["stories"]

# Order 0 delivers each event as it happens; others shuffle those between two points.
ORDERS = range(3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("story", STORIES, ids=[each["id"] for each in STORIES])
def test_it_is_right_in_any_order(story: dict[str, Any], order: int) -> None:
    marks = play_story(story, order)
    assert [each for each in marks if each.split(" ", 2)[1] != "right"] == []
    assert sum(" train " in each for each in marks) >= sum(
        "train" in note for point in story["expect"] for note in point["notes"].values()
    )


def move_forward(story: dict[str, Any]) -> dict[str, Any]:
    """The story where trains only move the branch forward. What a merge request was then is not to
    be seen in the commits, so it is not known with whom alone it fails."""
    moved = deepcopy(story)
    moved["settings"] = {"forward": True}
    for note in (note for point in moved["expect"] for note in point["notes"].values()):
        note.pop("with", None)
    return moved


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("story", STORIES, ids=[each["id"] for each in STORIES])
def test_trains_that_move_the_branch_forward(story: dict[str, Any], order: int) -> None:
    test_it_is_right_in_any_order(move_forward(story), order)


def test_what_a_note_says_of_its_train_is_read() -> None:
    line = "**Dropped from the merge train:** {} broke it{}: its pipeline failed, and so on."
    told = {
        line.format("this change", ""): ("self", 0),
        line.format("`!32`", ""): ("32", 0),
        line.format("this change", ", together with `!31`"): ("self", 31),
        "**Cause:** `!32` broke it": ("", 0),
    }
    for body, expected in told.items():
        found = read_note(f"marker\n\n{body}\n\nmore")
        assert (found.breaker, found.partner) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "**What to do:** Retry the job. If it goes on, ask.",
            "**What to do:** {}. If it goes on, ask.",
        ),
        ("**What to do:** Retry later. Or not.", "**What to do:** {}. Or not."),
        ("**What to do:**\n- `unit`: Retry the job.", "**What to do:**\n- `unit`: {}."),
        ("**What to do:** Mend it. Retry the job.", "**What to do:** Mend it. Retry the job."),
        ("**Cause:** Retry the job", "**Cause:** Retry the job"),
    ],
)
def test_a_retry_is_not_offered(written: str, expected: str) -> None:
    again = "Add this merge request to the merge train again"
    assert replace_retry(f"marker\n\n{written}") == f"marker\n\n{expected.format(again)}"


FRONT = STORIES[0]
"""The car in front passes after the two behind it have failed."""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[ProductStory]:
    with GitLabSim() as sim:
        yield ProductStory(FRONT, sim, tmp_path)


def list_found_by(deps: Deps, project_id: int, iid: int) -> list[str]:
    sessions = deps.storage.sessions
    keys = sessions.list_sessions(project_id, iid)
    return [load_context_of(key, sessions.read_context(key, 0)).found_by for key in keys]


def test_a_car_behind_the_culprit_is_told_so_without_a_model(product: ProductStory) -> None:
    product.deliver(product.play("36m"))
    notes, project = product.look().notes, product.player.projects["one"]
    url = f"{product.sim.url}/{project.path}/-/pipelines"
    assert notes[43].split("\n\n")[1:] == [
        f"**Dropped from the merge train:** `!42` broke it: its pipeline was the first that failed "
        f"([pipeline 402]({url}/402)), what was in front of it does not fail like this "
        f"([pipeline 401]({url}/401)), and this one had that change in it.",
        "**What helps:** Nothing to change here: add this merge request to the merge train again.",
        "<sub>Explained by the merge train, no model was asked · "
        "Reply `/sandpiper analyze` to ask a model</sub>",
    ]
    assert notes[42].split("\n\n")[1] == (
        f"**Dropped from the merge train:** this change broke it: its pipeline failed "
        f"([pipeline 402]({url}/402)), and what was in front of it does not fail like this "
        f"([pipeline 401]({url}/401))."
    )
    assert product.look().paid == 1
    assert list_found_by(product.deps, project.id, 43) == [TRAIN]
    assert list_found_by(product.deps, project.id, 42) == [""]
    assert "GitLab retries none of its jobs" in product.model.sessions.pop()
    assert product.sim.retried == []


class GoingOn(CountingModel):
    """A model that thinks until GitLab has gone on."""

    product: ProductStory

    def reply(self, request: Request) -> Reply:
        self.product.play("36m")
        return super().reply(request)


def test_a_run_in_front_may_end_while_the_model_thinks(product: ProductStory) -> None:
    failed = [each for each in product.play("32m") if getattr(each, "mr_iid", 0) == 42]
    product.model = GoingOn([])
    product.model.product = product
    product.deliver(failed)
    assert read_note(product.look().notes[42]).breaker == "self"


def test_nobody_waits_for_what_is_known(product: ProductStory) -> None:
    def read_waiting() -> tuple[int, ...]:
        record = product.deps.storage.incidents.read_branch(project.id, "main")
        assert record
        return record.waiting_cars

    project = product.player.projects["one"]
    product.deliver(product.play("32m"))
    assert sorted(read_waiting()) == [42, 43]
    product.deliver(product.play("36m"))
    assert read_waiting() == ()
    asked = len(product.sim.requests)
    edited = [each for each in product.sim.requests if each.method == "PUT"]
    product.deliver([])
    assert len(product.sim.requests) == asked
    assert len(edited) == len({each.path for each in edited}) * 2  # the result, then the line


def test_who_has_not_been_told_is_told_by_the_next_event(product: ProductStory) -> None:
    """As where a worker died between what it found out and the note."""
    project, deps = product.player.projects["one"], product.deps
    product.deliver(product.play("32m"))
    passed = product.play("36m")
    record = deps.storage.incidents.read_branch(project.id, "main")
    request = deps.storage.incidents.read_request(project.id, "main", 43)
    assert record
    assert request
    assert find_train(record, request, deps).train
    assert not read_note(product.look().notes[43]).breaker
    product.deliver(passed)
    assert read_note(product.look().notes[43]).breaker == "42"
