"""What GitLab's record settles in labelled worlds, from the webhook to the posted headline."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.labelled_notes import claimed, post_note, wrong_label
from tests.labelled_worlds import RIGHT, World, read_worlds
from worker.answer.repair import REFUTED
from worker.settings.runs import IncidentSettings, RetrySettings

pytestmark = pytest.mark.slow

WORLDS = [
    *read_worlds(Path(__file__).with_name("worlds.yaml")),
    *read_worlds(Path(__file__).with_name("tested.yaml")),
]
CLAIMS = read_worlds(Path(__file__).with_name("claims.yaml"))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_the_record_settles_what_it_proves_and_nothing_else(world: World) -> None:
    """Against a model that is wrong where it proves something, beside one that cannot tell else.

    A job is run again only under a verdict that is right, and that says it may pass as it is.
    """
    expect = world.fields["expect"]
    provable = expect["settled"] != "none"
    label = wrong_label(world) if provable else "none"
    posted = post_note(world, label, retry_settings=RetrySettings(flaky=1, infrastructure=1))
    assert world.grade(posted.headline) == RIGHT, f"{world.title}\n{posted.body}"
    _check_words(expect, posted.body)
    if posted.retried:
        assert posted.headline in ("flaky", "infrastructure")
        assert posted.retried == (world.fields["failed"]["job"],)
    assert posted.body.count("Run again once") == len(posted.retried)


def test_some_jobs_of_these_worlds_are_run_again() -> None:
    by_id = {world.id: world for world in WORLDS}
    retry = RetrySettings(flaky=1, infrastructure=1)
    for name in ("passed-after-the-same-error", "over-again"):
        assert post_note(by_id[name], "change", retry_settings=retry).retried
        assert not post_note(by_id[name], "change").retried


@pytest.mark.parametrize("world", CLAIMS, ids=lambda world: world.id)
def test_a_models_claim_stands_unless_the_record_rules_it_out(world: World) -> None:
    """Then the model is asked once more, with the fact; and it is not clear if it says so again."""
    expect, posted = world.fields["expect"], claimed(world)
    assert posted.headline == expect["headline"], f"{world.title}\n{posted.body}"
    assert len(posted.asked) == expect.get("asked", 1), posted.asked
    assert (REFUTED in posted.asked[-1]) == (len(posted.asked) == 2)
    _check_words(expect, posted.body)


def test_most_claims_that_are_near_a_refuted_one_are_left_alone() -> None:
    left = [world for world in CLAIMS if world.fields["expect"].get("asked", 1) == 1]
    assert len(CLAIMS) >= 40
    assert len(left) >= len(CLAIMS) / 2


KNOWN_WRONG = {
    "each-error-in-a-run-of-its-own": "each of two errors was seen in another run of the branch",
    "picked-before-this-failure": "the change itself was picked onto the branch",
    "picked-and-a-commit-more": "the same",
    "a-new-commit-broke-after-ours": "the same, after this failure",
    "flaky-before-the-pick-and-steady-since": "the same",
    "an-error-that-passed-runs-have-too": "a line that each run prints is held for the error",
    "target-cannot-reach-another-service": "a port is no part of an error's key",
}
"""Worlds in which a watched branch is held to explain all, and the record does not prove it."""


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_a_watched_branch_explains_what_the_record_proves(world: World) -> None:
    posted = post_note(world, "none", incident_settings=IncidentSettings())
    if "Explained by the branch, no model was asked" in posted.body:
        is_right = world.grade("preexisting") == RIGHT
        assert is_right != (world.id in KNOWN_WRONG), posted.body
    else:
        assert world.id not in KNOWN_WRONG


def _check_words(expect: Mapping[str, Any], body: str) -> None:
    for words in expect.get("told", ()):
        assert words in body
    for words in expect.get("untold", ()):
        assert words not in body
