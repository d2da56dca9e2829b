"""JSON that may be anything."""

import pytest

from worker.safety.untrusted import parse_json, parse_object, parse_objects

BROKEN = ("", "{", "no JSON", "[" * 100_000, b"\xff")


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_json_is_nothing(text: str | bytes) -> None:
    assert parse_json(text) is None
    assert parse_object(text) == {}


def test_only_an_object_has_members() -> None:
    assert parse_object('{"a": 1}') == {"a": 1}
    assert parse_object("[1]") == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"requests": [{"a": 1}, 2, {"b": 3}], "c": 4}', [{"a": 1}, {"b": 3}]),
        ('{"requests": []}', []),
        ('{"a": 1}', [{"a": 1}]),
        ("{}", [{}]),
        ("[1]", []),
        ("null", []),
        ("no JSON", []),
    ],
)
def test_a_batch_is_its_parts_and_one_call_is_itself(text: str, found: list[object]) -> None:
    assert parse_objects(text, "requests") == found
