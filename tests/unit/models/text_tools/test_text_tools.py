"""A model without native tools goes on by text, and remembers for which session."""

from dataclasses import replace

import pytest

from tests.fakes import Answer, ScriptedModel, says
from worker.conversation.messages import ToolSpec, User
from worker.conversation.model import Request, StopReason
from worker.errors import NO_TOOLS, ModelError
from worker.models.text_tools import TextToolsModel

TOOL = ToolSpec("look", "Look.", {"type": "object"})
REQUEST = Request("system", (TOOL,), (User("event"),), session="s1")
REFUSED = ModelError("it does not support tools", kind=NO_TOOLS)
BLOCK = 'I look.\n```tool_call\n{"name": "look", "arguments": {}}\n```'

WRITTEN = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


def scripted(*answers: Answer) -> ScriptedModel:
    return ScriptedModel(answers, name="openai-compatible/small")


def test_a_refused_session_goes_on_by_text_and_stays_there() -> None:
    inner = scripted(REFUSED, says(BLOCK), says("Done."))
    model = TextToolsModel(inner)
    reply = model.reply(REQUEST)
    assert (reply.text, reply.stop, reply.wire) == ("I look.", StopReason.TOOL_CALLS, "")
    assert [call.name for call in reply.calls] == ["look"]
    reply = model.reply(REQUEST)
    assert (reply.text, reply.calls, reply.stop) == ("Done.", (), StopReason.END)
    assert [bool(each.tools) for each in inner.requests] == [True, False, False]


def test_another_session_is_asked_natively_first() -> None:
    inner = scripted(REFUSED, says("a"), REFUSED, says("b"))
    model = TextToolsModel(inner)
    model.reply(REQUEST)
    model.reply(replace(REQUEST, session="s2"))
    assert [bool(each.tools) for each in inner.requests] == [True, False, True, False]


def test_a_server_that_takes_tools_is_asked_natively() -> None:
    quoted = "## Verdict\nflaky\n\n## Cause\nIt prints this:\n\n" + WRITTEN
    inner = scripted(says("Done."), says(quoted))
    model = TextToolsModel(inner)
    assert [model.reply(REQUEST).text for _ in range(2)] == ["Done.", quoted]
    assert [bool(each.tools) for each in inner.requests] == [True, True]


@pytest.mark.parametrize("text", [f"I look.\n{WRITTEN}", BLOCK])
def test_a_call_in_the_text_is_made_and_the_session_goes_on_by_text(text: str) -> None:
    inner = scripted(says(text), says(WRITTEN), says("Done."))
    model = TextToolsModel(inner)
    reply = model.reply(REQUEST)
    assert (reply.text, reply.stop, reply.wire) == ("I look.", StopReason.TOOL_CALLS, "")
    assert [(call.name, call.arguments) for call in reply.calls] == [("look", "{}")]
    # A model may go on in its own form, whatever it is asked for.
    assert [call.name for call in model.reply(REQUEST).calls] == ["look"]
    assert model.reply(REQUEST).text == "Done."
    assert [bool(each.tools) for each in inner.requests] == [True, False, False]


def test_a_call_that_cannot_be_read_is_left_to_the_gate() -> None:
    inner = scripted(says(WRITTEN.replace("}", "")), says("Done."))
    model = TextToolsModel(inner)
    assert model.reply(REQUEST).calls == ()
    assert model.reply(REQUEST).text == "Done."
    assert [bool(each.tools) for each in inner.requests] == [True, False]


def test_what_is_known_before_costs_no_refused_request() -> None:
    inner = scripted(says("Done."))
    assert TextToolsModel(inner, always=True).reply(REQUEST).text == "Done."
    assert inner.requests[0].tools == ()


def test_another_error_is_passed_on() -> None:
    with pytest.raises(ModelError, match="529"):
        TextToolsModel(scripted(ModelError("529"))).reply(REQUEST)


def test_a_block_that_cannot_be_read_is_a_broken_answer() -> None:
    inner = scripted(says("I look.\n```tool_call\n{\n```"))
    reply = TextToolsModel(inner, always=True).reply(REQUEST)
    assert (reply.stop, reply.dropped_calls) == (StopReason.MALFORMED, 1)


def test_a_cut_answer_runs_nothing() -> None:
    cut = replace(says(BLOCK), stop=StopReason.TRUNCATED)
    reply = TextToolsModel(scripted(cut), always=True).reply(REQUEST)
    assert (reply.calls, reply.stop) == ((), StopReason.TRUNCATED)
