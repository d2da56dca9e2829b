"""Answers in several parts put together."""

import json
from typing import Any

import pytest

from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.base import Decoded
from worker.models.client import join_answers

A, B = ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")


def part(text: str, stop: StopReason, *calls: ToolCall, **fields: Any) -> Decoded:
    usage = Usage(uncached_input=100, cache_read=10, output=5, reasoning=2)
    return Decoded(text, calls, fields.pop("wire", f'[ "{text}" ]'), stop, usage, **fields)


FIRST = part("one ", StopReason.PAUSED, A, continuation_fields={"token": "x"}, thought=True)


def test_the_parts_are_one_answer_that_ends_as_the_last() -> None:
    found = join_answers(FIRST, part("two", StopReason.END))

    assert found.text == "one two"
    assert json.loads(found.wire) == ["one ", "two"]
    assert (found.calls, found.stop, found.continuation_fields) == ((A,), StopReason.TOOL_CALLS, {})
    assert found.usage == Usage(uncached_input=100, cache_read=10, output=10, reasoning=4)
    assert found.thought


def test_a_third_part_is_put_to_the_first_two() -> None:
    half = join_answers(FIRST, part("two ", StopReason.PAUSED, continuation_fields={"token": "y"}))
    found = join_answers(half, part("three", StopReason.TOOL_CALLS, B))

    assert half.continuation_fields == {"token": "y"}
    assert (found.text, found.calls) == ("one two three", (A, B))
    assert found.usage.output == 15


def test_calls_of_an_answer_that_was_cut_in_the_end_are_not_run() -> None:
    found = join_answers(FIRST, part("two", StopReason.TRUNCATED, dropped_calls=1))

    assert (found.text, found.calls, found.dropped_calls) == ("one two", (), 2)
    assert not found.thought


@pytest.mark.parametrize("stop", [StopReason.MALFORMED, StopReason.BLOCKED, StopReason.REFUSED])
def test_nothing_is_kept_of_an_answer_that_broke_in_the_end(stop: StopReason) -> None:
    found = join_answers(FIRST, part("", stop, wire="[]"))

    assert (found.text, found.calls, found.wire, found.dropped_calls) == ("", (), "[]", 1)
    assert found.usage.output == 10


@pytest.mark.parametrize(("first", "rest"), [("[]", "[1]"), ("[1]", " [ ] "), ("[ ]", "[]")])
def test_empty_parts_leave_no_comma(first: str, rest: str) -> None:
    found = join_answers(
        part("", StopReason.PAUSED, wire=first), part("", StopReason.END, wire=rest)
    )

    assert json.loads(found.wire) == [*json.loads(first), *json.loads(rest)]
