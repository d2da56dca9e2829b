"""A model that has to call a tool ends its turn by the tool `answer`."""

from dataclasses import replace

import pytest

from tests.contexts import call
from tests.fakes import ScriptedModel, says
from worker.conversation.messages import ToolCall, ToolSpec, User
from worker.conversation.model import Request, StopReason
from worker.models.wrapper import ANSWER, ForcedAnswersModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
REQUEST = Request("system", (LOOK,), (User("Why?"),))


def answer(text: str) -> ToolCall:
    return call("a", ANSWER.name, text)


def test_a_request_announces_the_tool_and_has_to_call() -> None:
    model = ScriptedModel([says("", call("b", "look"))])
    reply = ForcedAnswersModel(model).reply(REQUEST)
    (sent,) = model.requests
    assert sent.has_to_call
    assert [tool.name for tool in sent.tools] == ["look", "answer"]
    assert [each.name for each in reply.calls] == ["look"]


def test_the_answer_ends_the_turn() -> None:
    model = ScriptedModel([says("", answer('{"text": "It is X."}'))])
    reply = ForcedAnswersModel(model).reply(REQUEST)
    assert (reply.text, reply.calls, reply.stop) == ("It is X.", (), StopReason.END)


def test_an_answer_beside_other_calls_waits_for_their_results() -> None:
    model = ScriptedModel([says("", answer('{"text": "It is X."}'), call("b", "look"))])
    reply = ForcedAnswersModel(model).reply(REQUEST)
    assert [each.name for each in reply.calls] == ["look"]


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"text": 7}', '{"text": ""}'])
def test_an_unreadable_answer_leaves_what_was_said_beside_it(arguments: str) -> None:
    model = ScriptedModel([says("So it is.", answer(arguments))])
    assert ForcedAnswersModel(model).reply(REQUEST).text == "So it is."


def test_a_final_request_forces_no_call_and_keeps_the_list_that_the_server_has_cached() -> None:
    model = ScriptedModel([says("", answer('{"text": "A."}')), says("It is X.")])
    forced = ForcedAnswersModel(model)
    forced.reply(REQUEST)
    assert forced.reply(replace(REQUEST, tools_allowed=False)).text == "It is X."
    first, final = model.requests
    assert final.tools == first.tools
    assert (final.tools_allowed, final.has_to_call) == (False, False)
