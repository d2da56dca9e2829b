"""Thoughts in the text of an answer are not read, and go back only to the model that had them."""

from contextlib import closing

import pytest

from tests.wire.conversations import LOOK, RUN, SYSTEM
from tests.wire.simulators import WIRES
from worker.conversation.messages import Assistant, Message, User, WireForm
from worker.conversation.model import Request
from worker.lab.script import Say, Scripted

DRAFT = "## Verdict\ninfrastructure\n\nIt may be a runner."
ANSWER = "## Verdict\nflaky"
OVER_HTTP = sorted(name for name in WIRES if not name.endswith("vertex"))


@pytest.mark.parametrize(
    "text",
    [f"<think>\n{DRAFT}\n</think>\n\n{ANSWER}", f"{DRAFT}\n</think>\n\n{ANSWER}"],
    ids=["marked", "opened-by-the-template"],
)
@pytest.mark.parametrize("wire", OVER_HTTP)
def test_thoughts_are_taken_off_and_sent_back_as_they_came(wire: str, text: str) -> None:
    messages: list[Message] = [User("event")]
    script = Scripted([Say(text)], [Say("Yes.")])
    with WIRES[wire].start(script) as sim, closing(WIRES[wire].model(sim)) as model:
        first = model.reply(Request(SYSTEM, (LOOK, RUN), tuple(messages), session="0123456789"))
        messages += [Assistant(first.text, (), WireForm(model.name, first.wire)), User("Why?")]
        model.reply(Request(SYSTEM, (LOOK, RUN), tuple(messages), session="0123456789"))
        assert sim.unexpected_requests == []
    assert first.text == ANSWER
    assert "It may be a runner." in first.wire
    assert sim.raw[-1].count(b"It may be a runner.") == 1


@pytest.mark.parametrize("wire", OVER_HTTP)
def test_an_answer_of_thoughts_alone_is_empty(wire: str) -> None:
    script = Scripted([Say(f"<think>\n{DRAFT}")])
    with WIRES[wire].start(script) as sim, closing(WIRES[wire].model(sim)) as model:
        assert model.reply(Request(SYSTEM, (LOOK, RUN), (User("event"),))).text == ""
