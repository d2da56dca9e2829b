"""What is settled by GitLab's record holds in labelled worlds, each built in the simulator."""

from pathlib import Path

import pytest

from tests.labelled_worlds import RIGHT, World, read_worlds, settled_verdict

WORLDS = read_worlds(Path(__file__).with_name("worlds.yaml"))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_the_record_settles_what_it_proves_and_nothing_else(world: World) -> None:
    assert world.grade(settled_verdict(world)) == RIGHT, world.title
