"""Calls as fenced text: only the block that ends an answer is one."""

import json

import pytest

from worker.conversation.messages import Assistant, ToolCall, ToolResult, ToolSpec, User
from worker.conversation.model import Request
from worker.models.text_tools import MOST_CALLS, UNNAMED, parse_answer, rewrite_request, write_calls

CALL = '{"name": "look", "arguments": {"at": 1}}'
BLOCK = f"```tool_call\n{CALL}\n```"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BLOCK, ""),
        (f"I look.\n\n{BLOCK}\n", "I look."),
        (f"{BLOCK}\n\nNo, this one:\n{BLOCK}", f"{BLOCK}\n\nNo, this one:"),
        (f"```log\nit failed\n```\n{BLOCK}", "```log\nit failed\n```"),
        (f"~~~tool_call\n{CALL}\n~~~", ""),
    ],
)
def test_the_block_that_ends_an_answer_is_a_call(text: str, said: str) -> None:
    found = parse_answer(text, 0)
    assert found.text == said
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [
        ("look", {"at": 1})
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The cause is a race.",
        f"{BLOCK}\n\nSo it failed.",
        f"````\n{BLOCK}\n````",
        f"````markdown\nThe log says:\n{BLOCK}\n````",
        f"> {BLOCK.replace(chr(10), chr(10) + '> ')}",
        "\n".join(f"    {line}" for line in BLOCK.split("\n")),
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"`{CALL}`",
        f"```tool_call\n{CALL}",
        f"- job 1 line 3: {BLOCK.replace(chr(10), ' ')}",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    found = parse_answer(text, 0)
    assert (found.text, found.calls, found.is_broken) == (text, (), False)


@pytest.mark.parametrize(
    "body", ["", "{", '{"name": 3}', "[]", "7", '{"tool": "look"}', "[" * 9999]
)
def test_a_block_that_cannot_be_read_is_broken(body: str) -> None:
    found = parse_answer(f"I look.\n```tool_call\n{body}\n```", 0)
    assert (found.text, found.calls, found.is_broken) == ("I look.", (), True)


def test_several_calls_are_an_array_of_some() -> None:
    many = json.dumps([{"name": "look", "arguments": {"at": number}} for number in range(99)])
    found = parse_answer(f"```tool_call\n{many}\n```", 0)
    assert len(found.calls) == len({call.id for call in found.calls}) == MOST_CALLS


@pytest.mark.parametrize("odd", [{"nam": "look"}, {"name": 3, "arguments": {"at": 2}}, 7, None])
def test_a_misspelt_call_among_others_is_a_call_of_no_tool(odd: object) -> None:
    good = {"name": "look", "arguments": {"at": 1}}
    found = parse_answer(f"```tool_call\n{json.dumps([good, odd, good])}\n```", 0)
    told = [(call.name, call.arguments) for call in found.calls]
    assert told == [("look", '{"at": 1}'), (UNNAMED, "{}"), ("look", '{"at": 1}')]


def test_ids_are_the_same_every_time_and_differ_by_position() -> None:
    ids = [parse_answer(BLOCK, position).calls[0].id for position in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]


def test_what_was_written_is_read_again() -> None:
    calls = (ToolCall("a", "look", '{"at": "```"}'), ToolCall("b", "run", ""))
    found = parse_answer(write_calls(calls), 0)
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [
        ("look", {"at": "```"}),
        ("run", {}),
    ]


REQUEST = Request(
    "You find out.",
    (ToolSpec("look", "Look.", {"type": "object"}),),
    (
        User("event"),
        Assistant("I look.", (ToolCall("c1", "look", '{"at": 1}'),)),
        ToolResult("c1", "look", "it failed", True),
    ),
)


def test_a_request_is_rewritten_message_by_message() -> None:
    made = rewrite_request(REQUEST)
    assert made.tools == ()
    assert made.system.startswith("You find out.\n\n## Tools")
    assert made.system.endswith('- look: Look.\n  {"type":"object"}\n')
    assert made.messages == (
        User("event"),
        Assistant(f"I look.\n\n{BLOCK}"),
        User("Result of look (it failed):\nit failed"),
    )
    longer = Request(REQUEST.system, REQUEST.tools, (*REQUEST.messages, Assistant("Done.")))
    again = rewrite_request(longer)
    assert again.system == made.system
    assert again.messages[:3] == made.messages
