"""Calls that a model writes as text are read on every wire, and the session goes on by text."""

import pytest

from tests.simulators.openai import ChatSim
from tests.simulators.openai.servers import SERVERS
from tests.wire.codecs import CODECS
from tests.wire.conversations import asks, conversations, found
from tests.wire.simulators import WIRES
from worker.conversation.messages import Assistant, Message, User, WireForm
from worker.conversation.model import StopReason
from worker.lab.script import Call, Say, Scripted
from worker.models.text_tools import rewrite_request
from worker.settings import Settings
from worker.wiring.providers import open_model

OVER_HTTP = sorted(name for name in WIRES if not name.endswith("vertex"))
CHANGES = {
    f"{name} changed within the conversation"
    for name in ("tools", "system", "systemInstruction", "instructions")
}
"""What the simulators note and this is about; all else that they would refuse is a failure."""

WRITTEN = {
    "tags": '<tool_call>\n{"name": "look", "arguments": {"at": "a"}}\n</tool_call>',
    "token": '[TOOL_CALLS][{"name": "look", "arguments": {"at": "a"}}]',
    "python": '```tool_code\nprint(look(at="a"))\n```',
    "block": '```tool_call\n{"name": "look", "arguments": {"at": "a"}}\n```',
    "xml": '<function_calls>\n<invoke name="look">\n<parameter name="at">a</parameter>\n</invoke>\n'
    "</function_calls>",
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("wire", OVER_HTTP)
def test_a_written_call_is_made_and_the_session_goes_on_by_text(wire: str, form: str) -> None:
    script = Scripted([Say(f"I look.\n\n{WRITTEN[form]}")], [Say("Done.")])
    messages: list[Message] = [User("event")]
    with (
        WIRES[wire].start(script) as sim,
        open_model(WIRES[wire].model(sim), Settings()) as model,
    ):
        first = model.reply(asks(*messages, session="0123456789"))
        (call,) = first.calls
        messages += [
            Assistant(first.text, first.calls, WireForm(model.name, first.wire)),
            found(call.id, "it is there"),
        ]
        last = model.reply(asks(*messages, session="0123456789"))
        assert set(sim.unexpected_requests) <= CHANGES
    assert (first.text, first.stop) == ("I look.", StopReason.TOOL_CALLS)
    assert (call.name, call.arguments.replace(" ", "")) == ("look", '{"at":"a"}')
    assert (last.text, last.calls) == ("Done.", ())
    assert [bool(each.get("tools")) for each in sim.requests] == [True, False]
    assert b"it is there" in sim.raw[-1]


@pytest.mark.parametrize("wire", OVER_HTTP)
def test_an_answer_that_only_shows_a_call_is_no_call(wire: str) -> None:
    shown = f"## Verdict\nflaky\n\n## Cause\nIt prints this:\n\n{WRITTEN['tags']}"
    script = Scripted([Say(shown)])
    with (
        WIRES[wire].start(script) as sim,
        open_model(WIRES[wire].model(sim), Settings()) as model,
    ):
        reply = model.reply(asks(User("event"), session="0123456789"))
    assert (reply.text, reply.calls) == (shown, ())


@pytest.mark.parametrize("name", CODECS)
def test_every_conversation_can_go_on_by_text(name: str) -> None:
    used, origin = CODECS[name]()
    for case, request in conversations(origin).items():
        body = used.encode(rewrite_request(request))
        assert b'"tool_use"' not in body, case
        assert b'"functionCall"' not in body, case
        assert b'"function_call"' not in body, case
        assert b'"tool_calls"' not in body, case
        assert all(tool.name.encode() in body for tool in request.tools), case


@pytest.mark.parametrize("name", [name for name, like in SERVERS.items() if like.goes_on_by_text])
def test_a_server_that_was_to_force_calls_goes_on_by_text_too(name: str) -> None:
    answers = ([Call([("look", {"at": "a"})], "I look.")], [Call([("answer", {"text": "Done."})])])
    entries = {"openai-compatible/qwen3": {"forced_decision": True}}
    settings = Settings.model_validate({"models": {"catalogue": entries}})
    messages: list[Message] = [User("event")]
    with (
        ChatSim(Scripted(*answers), like=SERVERS[name]) as sim,
        open_model(WIRES["openai-compatible"].model(sim), settings) as model,
    ):
        first = model.reply(asks(*messages, session="0123456789"))
        (call,) = first.calls
        messages += [Assistant(first.text, first.calls), found(call.id, "it is there")]
        last = model.reply(asks(*messages, session="0123456789"))
        assert len(set(sim.unexpected_requests) - CHANGES) == SERVERS[name].refuses
    assert (call.name, last.text, last.calls) == ("look", "Done.", ())
    assert sim.requests[0]["tool_choice"] == "required"
    assert "tool_choice" not in sim.requests[-1]
