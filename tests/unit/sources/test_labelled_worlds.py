"""What GitLab's record settles in labelled worlds, from the webhook to the posted headline."""

from pathlib import Path

import pytest

from tests.labelled_notes import post_note, wrong_label
from tests.labelled_worlds import RIGHT, World, read_worlds

pytestmark = pytest.mark.slow

WORLDS = read_worlds(Path(__file__).with_name("worlds.yaml"))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_the_record_settles_what_it_proves_and_nothing_else(world: World) -> None:
    """Against a model that is wrong where it proves something, beside one that cannot tell else."""
    expect = world.fields["expect"]
    provable = expect["settled"] != "none"
    posted = post_note(world, wrong_label(world) if provable else "none")
    assert world.grade(posted.headline) == RIGHT, f"{world.title}\n{posted.body}"
    for words in expect.get("told", ()):
        assert words in posted.body
    for words in expect.get("untold", ()):
        assert words not in posted.body
