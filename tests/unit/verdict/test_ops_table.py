"""Operational failures, each from the webhook to the note: what is said for certain, and shown."""

from pathlib import Path

import pytest

from tests.ops_table import ASKED, RIGHT, Item, grade, play, read_items

pytestmark = pytest.mark.slow

ITEMS = read_items(Path(__file__).with_name("ops_cases.yaml"))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_a_rule_answers_rightly_or_the_model_gets_the_decisive_line(item: Item) -> None:
    played = play(item)
    found, why = grade(item, played)
    assert found in (RIGHT, ASKED), f"{why}\n{played.note}\n{played.survey}"
