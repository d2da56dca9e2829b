"""JSON kept together with its text."""

import json
from typing import Any

import pytest

from worker.models.codec import (
    dump_json,
    get_count,
    parse_elements,
    parse_json,
    parse_members,
    repair_surrogates,
)

TEXTS = [
    '{"a":1}',
    ' { "a" : [1 , 2] ,\n "b":{"c":"}]"} , "a":"last" }\r\n',
    "{}",
    '{"":"\\u007b \\" ,:","x":-1.50e3,"y":[[],{}]}',
]
ARRAYS = ["[]", " [ ] ", '[1,"a,b",{"c":[2]} , [3] ,null]', '[{"a":1},\n{"b":"]"}]\n']


@pytest.mark.parametrize("text", TEXTS)
def test_the_members_are_those_of_json_with_their_own_text(text: str) -> None:
    found = parse_members(text)

    assert {name: part.value for name, part in found.items()} == json.loads(text)
    for part in found.values():
        assert json.loads(part.text) == part.value
        assert text[part.end - len(part.text) : part.end] == part.text


@pytest.mark.parametrize("text", ARRAYS)
def test_the_elements_are_those_of_json_with_their_own_text(text: str) -> None:
    found = parse_elements(text)

    assert [part.value for part in found] == json.loads(text)
    assert all(text[part.end - len(part.text) : part.end] == part.text for part in found)


@pytest.mark.parametrize("text", ["", "{", "[1,]", '{"a" 1}', "[NaN]", "[Infinity]", "[1] 2", "1"])
def test_what_is_no_json_of_the_kind_is_refused(text: str) -> None:
    for read in (parse_members, parse_elements):
        with pytest.raises(ValueError):
            read(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("plain é", "plain é"), ("a\ud800b", "a\ufffdb"), ("\ud83d\udc0d", "\U0001f40d")],
)
def test_half_surrogates_become_the_replacement_character(text: str, cleaned: str) -> None:
    assert repair_surrogates(text) == cleaned
    assert json.loads(dump_json({"x": text})) == {"x": cleaned}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_json_cannot_say_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        dump_json(value)


@pytest.mark.parametrize("value", [-1, 10**400, 7.5, "7", True, None, [7]])
def test_a_count_that_cannot_be_true_is_none(value: Any) -> None:
    assert get_count({"usage": {"input": value}}, "usage", "input") == 0
    assert get_count({"usage": {"input": 7}}, "usage", "input") == 7
