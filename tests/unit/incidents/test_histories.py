"""The judge on small histories of branches, each in many orders of delivery.

`SANDPIPER_TEST_STORIES=FILE` plays the stories of a file as well.
"""

import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.incidents.marking import MISSING, RIGHT, WRONG, Marks
from tests.unit.incidents.playing import Player
from tests.unit.incidents.stories import Fields, read_stories

ORDERS = 20
OWN = [
    story
    for name in ("cases.yaml", "silent.yaml")
    for story in read_stories(Path(__file__).with_name(name))
]
NAMED = os.environ.get("SANDPIPER_TEST_STORIES", "")
SUPERSEDED = {"suspect-stays-cleared-when-the-witness-moves-on"}
"""Where a merge request's earlier run is the proof, which GitLab shows no more as its newest."""
STORIES = read_stories(Path(NAMED)) if NAMED else []


def _play(story: Fields, order: random.Random | None) -> Marks:
    marks = Marks(story)
    for point, state, states in Player(story).play(order):
        marks.look(point, state, states)
    return marks


@pytest.mark.parametrize("story", [*OWN, *STORIES], ids=lambda story: str(story["id"]))
def test_outcome_is_right_in_any_order_of_delivery(story: Fields) -> None:
    for order in range(ORDERS + 1):
        seed = random.Random(f"{story['id']} {order}") if order else None
        marks = _play(story, seed)
        assert not marks.said, f"order {order}"
        assert marks.counts[RIGHT]


@pytest.mark.parametrize(
    "story",
    [each for each in (*OWN, *STORIES) if each["id"] not in SUPERSEDED],
    ids=lambda story: str(story["id"]),
)
def test_nothing_is_wrong_when_all_comes_at_the_end(story: Fields) -> None:
    player, marks = Player(story), Marks(story, is_late=True)
    for point in story["expect"]:
        marks.learn(point)
    marks.look(story["expect"][-1], *player.play_late())
    assert not marks.counts[WRONG], marks.said


def test_histories_are_told_apart() -> None:
    """The marks can fail: an outcome that is played against another story's labels is wrong."""
    found = Counter[str]()
    for story, other in itertools.pairwise(OWN):
        mixed = {**story, "expect": other["expect"], "never": other.get("never", [])}
        try:
            found += _play(mixed, None).counts
        except (KeyError, ValueError):
            continue
    assert found[WRONG] > 20
    assert found[MISSING] > 20
