"""Names and ids from elsewhere."""

import re

import pytest

from worker.models.codec import TOOL_NAME, make_call_id, make_tool_name

RULES = [re.compile(rule) for rule in ("[a-zA-Z0-9_-]{1,64}", "[a-zA-Z0-9]{9}")]
FOREIGN = ["", "a b", "call:1/ü", "functions.look:0", "x" * 65, "half\ud800", "\N{SNAKE}", "a\n"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("found", [*FOREIGN, "toolu_01", "123456789"])
def test_an_id_fits_the_rule_and_is_the_same_every_time(found: str, rule: re.Pattern[str]) -> None:
    assert rule.fullmatch(make_call_id(found, rule))
    assert make_call_id(found, rule) == make_call_id(found, rule)


@pytest.mark.parametrize("rule", RULES)
def test_different_ids_stay_different(rule: re.Pattern[str]) -> None:
    found = [*FOREIGN, *(f"call:{number}" for number in range(1000))]

    assert len({make_call_id(each, rule) for each in found}) == len(found)


def test_an_id_that_fits_is_kept() -> None:
    assert make_call_id("toolu_01", RULES[0]) == "toolu_01"
    assert make_call_id("abc123DEF", RULES[1]) == "abc123DEF"


@pytest.mark.parametrize(
    ("name", "sent"),
    [("look", "look"), ("bad.name/ü", "bad_name__"), ("x" * 70, "x" * 64), ("", "unknown")],
)
def test_a_name_is_made_to_fit(name: str, sent: str) -> None:
    assert make_tool_name(name) == sent
    assert TOOL_NAME.fullmatch(sent)
